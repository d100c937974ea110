import { useEffect, useState } from 'preact/hooks';
import { Icon } from '../pages/icons.tsx';
import type { CopyProps } from '../pages/page.ts';

/** How long a button confirms the copy. Milliseconds. */
const SAID_MS = 2_000;

export function Copy({ text, label, icon, isAddress, isBrief }: CopyProps) {
  const [said, setSaid] = useState('');
  useEffect(() => {
    if (said === '') return undefined;
    const timer = setTimeout(() => setSaid(''), SAID_MS);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async (): Promise<void> => {
    const whole = isAddress === true ? new URL(text, location.origin).href : text;
    setSaid((await copied(whole)) ? 'Copied' : 'Not copied');
  };
  return (
    <button
      type="button"
      class={`btn quiet copy${isAddress === true ? ' copy-link' : ''}`}
      title={label}
      onClick={() => void copy()}
    >
      <Icon name={icon} />
      <span class={isBrief === true && said === '' ? 'vh' : undefined} aria-live="polite">
        {said === '' ? label : said}
      </span>
    </button>
  );
}

export async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
