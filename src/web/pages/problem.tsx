import type { VNode } from 'preact';
import { pageAddress } from '../query-text.ts';
import type { QueryProblem } from '../understood-query.ts';
import { Icon } from './icons.tsx';

export interface ProblemProps {
  readonly query: string;
  readonly problem: QueryProblem;
  /** The page that the query is for. */
  readonly path?: string;
}

/** An error of the query: the wrong stretch underlined, the sentence, and a way out. */
export function Problem({ query, problem, path = '/mail' }: ProblemProps): VNode {
  const { message, hint, stretch, suggestion } = problem;
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
        <p>
          <strong>
            <bdi>{message}</bdi>
          </strong>
        </p>
        {suggestion !== null && (
          <p>
            Did you mean{' '}
            <a class="link" href={pageAddress(path, { q: suggestion.query })}>
              <bdi>{suggestion.text}</bdi>
            </a>
            ?
          </p>
        )}
        {hint !== null && suggestion === null && (
          <p>
            <bdi>{hint}</bdi>
          </p>
        )}
      </div>
    </div>
  );
}
