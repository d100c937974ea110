import type { VNode } from 'preact';
import { asOfWord, findTerm, pageAddress, toggled } from '../query-text.ts';
import { Icon } from './icons.tsx';
import type { Frame, Here } from './page.ts';

/** Returns the page that shows what a query finds, from where it is typed. */
function queriedPath(here: Here): '/mail' | '/files' {
  return here === 'files' ? '/files' : '/mail';
}

/** The query as a form: without JavaScript, Enter sends it. */
export function QueryBox({
  frame: { query, problem },
  here,
}: {
  readonly frame: Frame;
  readonly here: Here;
}): VNode {
  const path = queriedPath(here);
  return (
    <search class="searching">
      <form class={problem === null ? 'query' : 'query wrong'} action={path}>
        <Icon name="search" />
        <input
          name="q"
          value={query}
          aria-label="Query"
          placeholder="Search everything: from:anna has:attachment after:2026-01"
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          enterkeyhint="search"
          aria-invalid={problem === null ? undefined : 'true'}
          aria-describedby={problem === null ? undefined : 'problem'}
        />
        {query !== '' && (
          <a class="clear" href={path} title="Clear the query">
            <Icon name="cross" />
            <span class="vh">Clear the query</span>
          </a>
        )}
        <button type="submit" class="vh">
          Search
        </button>
      </form>
    </search>
  );
}

const CHIPS = [
  ['has:attachment', 'Has attachment'],
  ['is:unread', 'Unread'],
  ['is:starred', 'Starred'],
  ['-is:deleted', 'Still at the service'],
  ['is:deleted', 'Kept only here'],
] as const;

/**
 * Filters that write the query: each is a link to the query with it, or without it. Those that are on come first, because
 * on a phone the others may lie outside of the window.
 */
export function Chips({ frame: { query } }: { readonly frame: Frame }): VNode {
  const chips = CHIPS.map(([word, label]) => ({
    word,
    label,
    on: findTerm(query, word) !== undefined,
  }));
  return (
    <nav class="chips" aria-label="Filters">
      {asOfWord(query) !== '' && (
        <a class="chip past" href={pageAddress('/mail', { q: toggled(query, asOfWord(query)) })}>
          Back to now
          <Icon name="cross" />
        </a>
      )}
      {[...chips.filter(({ on }) => on), ...chips.filter(({ on }) => !on)].map(
        ({ word, label, on }) => (
          <a
            key={word}
            class={on ? 'chip on' : 'chip'}
            href={pageAddress('/mail', { q: toggled(query, word) })}
          >
            {label}
            {on && (
              <>
                <Icon name="cross" />
                <span class="vh">(remove)</span>
              </>
            )}
          </a>
        ),
      )}
    </nav>
  );
}

/** A row of `/api/complete`: one way to go on at the caret. */
export interface Completion {
  /** What replaces the query from `from` to `to`, in UTF-16 code units. */
  readonly insert: string;
  readonly from: number;
  readonly to: number;
  /** What it is called. Strangers wrote names and addresses. */
  readonly label: string;
  /** What is shown next to it, such as an address. */
  readonly detail: string;
  /** Messages that it finds by itself; null where that is not known at once. */
  readonly count: number | null;
}
