import { useEffect, useState } from 'preact/hooks';

/** Whether the query box asks for a name: a button elsewhere begins it, and the box ends it. */
let isSaving = false;
const listeners = new Set<() => void>();

/** Makes the query box ask for the name of a saved search, or for a query again. */
export function setSaving(to: boolean): void {
  isSaving = to;
  for (const changed of listeners) changed();
}

export function useSaving(): { readonly isSaving: boolean } {
  const [shown, setShown] = useState(isSaving);
  useEffect(() => {
    const changed = (): void => setShown(isSaving);
    listeners.add(changed);
    return () => {
      listeners.delete(changed);
    };
  }, []);
  return { isSaving: shown };
}
