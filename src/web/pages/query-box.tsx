import type { VNode } from 'preact';
import { Icon } from './icons.tsx';
import type { Frame, Here } from './page.ts';
import { queriedPath } from './query-path.ts';

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
