import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Page } from '../pages/page.ts';
import { spokenResults } from './spoken-results.ts';

/** Without a change for so long, results are spoken. Milliseconds. */
const REST_MS = 500;

/** The one region that speaks of results and errors, once typing rests. */
export function LiveResults({ page }: { readonly page: Page }): VNode {
  const [spoken, setSpoken] = useState('');
  const now = spokenResults(page);
  const { query } = page.frame;
  useEffect(() => {
    // What was shown when the page was opened is read with the page.
    const timer = setTimeout(() => setSpoken(now), REST_MS);
    return () => clearTimeout(timer);
  }, [now, query]);
  return (
    <p class="vh" role="status" aria-live="polite">
      {spoken}
    </p>
  );
}
