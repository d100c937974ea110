import { useEffect, useState } from 'preact/hooks';

/** Where list and message are one column; narrow.css has the same width. */
export const ONE_COLUMN = '(max-width: 900px)';

/** Whether the window is one column; the part that asks is made again when that changes. */
export function useOneColumn(): boolean {
  const [is, set] = useState(() => matchMedia(ONE_COLUMN).matches);
  useEffect(() => {
    const width = matchMedia(ONE_COLUMN);
    const changed = (): void => set(width.matches);
    changed();
    width.addEventListener('change', changed);
    return () => width.removeEventListener('change', changed);
  }, []);
  return is;
}
