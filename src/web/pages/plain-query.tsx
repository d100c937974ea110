import type { VNode } from 'preact';
import { findTerm } from '../reading/query-terms.ts';
import { asOfWord, pageAddress, toggled } from '../reading/query-text.ts';
import { Icon } from './icons.tsx';
import type { Frame } from './page.ts';

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
