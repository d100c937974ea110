import type { ComponentChild } from 'preact';
import { asOfTermText, findTerm, pageAddress, toggleTerm } from '../query-text.ts';
import type { QueryProblem } from '../understood-query.ts';
import { Icon, Link } from './elements.tsx';
import type { Frame, PageKind } from './page.ts';

export const PLAIN_FIELD = {
  autocomplete: 'off',
  autocapitalize: 'none',
  spellcheck: false,
} as const;

export const QUERY_FIELD = {
  name: 'q',
  ...PLAIN_FIELD,
  'aria-label': 'Query',
  placeholder: 'Search everything: from:anna has:attachment after:2026-01',
  enterkeyhint: 'search',
} as const;

export function QueryBox({ frame: { query, problem }, here }: { frame: Frame; here: PageKind }) {
  const path = here === 'files' ? '/files' : '/mail';
  return (
    <search class="searching">
      <form class={problem === null ? 'query' : 'query wrong'} action={path}>
        <Icon name="search" />
        <input
          {...QUERY_FIELD}
          value={query}
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
  ['is:deleted', 'Deleted mail'],
] as const;

/** Filters as links. Active ones come first, since others may be out of view on a phone. */
export function Chips({ frame: { query } }: { frame: Frame }) {
  const chips = CHIPS.map(([word, label]) => ({
    word,
    label,
    on: findTerm(query, word) !== undefined,
  }));
  return (
    <nav class="chips" aria-label="Filters">
      <BackToNow query={query} path="/mail" />
      {[...chips.filter(({ on }) => on), ...chips.filter(({ on }) => !on)].map(
        ({ word, label, on }) => (
          <a
            key={word}
            class={on ? 'chip on' : 'chip'}
            href={pageAddress('/mail', { q: toggleTerm(query, word) })}
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

export function BackToNow({ query, path }: { query: string; path: string }) {
  const moment = asOfTermText(query);
  if (moment === '') return null;
  return (
    <a class="chip past" href={pageAddress(path, { q: toggleTerm(query, moment) })}>
      Back to now
      <Icon name="cross" />
    </a>
  );
}

interface ProblemTextProps {
  readonly problem: Pick<QueryProblem, 'message' | 'hint'>;
  /** A link or a button with the suggested query; null if there is none. */
  readonly suggestion?: ComponentChild;
}

export function ProblemText({ problem: { message, hint }, suggestion = null }: ProblemTextProps) {
  return (
    <>
      <p>
        <strong>
          <bdi>{message}</bdi>
        </strong>
      </p>
      {suggestion !== null && <p>Did you mean {suggestion}?</p>}
      {hint !== null && suggestion === null && (
        <p>
          <bdi>{hint}</bdi>
        </p>
      )}
    </>
  );
}

export interface ProblemProps {
  readonly query: string;
  readonly problem: QueryProblem;
  readonly path?: string;
}

export function Problem({ query, problem, path = '/mail' }: ProblemProps) {
  const { stretch, suggestion } = problem;
  return (
    <div class="strip bad" id="problem" role="alert">
      <Icon name="alert" />
      <div>
        {stretch !== null && (
          <p class="mono wrong-query">
            <bdi>{query.slice(0, stretch.start)}</bdi>
            <u>{query.slice(stretch.start, stretch.end)}</u>
            <bdi>{query.slice(stretch.end)}</bdi>
          </p>
        )}
        <ProblemText
          problem={problem}
          suggestion={
            suggestion && (
              <Link to={pageAddress(path, { q: suggestion.query })}>
                <bdi>{suggestion.text}</bdi>
              </Link>
            )
          }
        />
      </div>
    </div>
  );
}
