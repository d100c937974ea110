import type { RefObject, VNode } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { QueryProblem } from '../reading/understood-query.ts';

/** What is wrong with the query: a mark below the first wrong character, the sentence, and a way out. */
export function ProblemBelow({
  problem: { message, hint, stretch, suggestion },
  field,
  replace,
}: {
  readonly problem: QueryProblem;
  readonly field: RefObject<HTMLInputElement | null>;
  readonly replace: (query: string) => void;
}): VNode {
  const mark = useRef<HTMLSpanElement>(null);
  // Characters are not all of one width.
  useLayoutEffect(() => {
    const form = field.current?.form;
    const wave = form?.querySelector('.wave');
    if (mark.current === null || form == null || wave == null) return;
    const most = form.clientWidth - mark.current.offsetWidth;
    const at = wave.getBoundingClientRect().left - form.getBoundingClientRect().left;
    mark.current.style.marginInlineStart = `${Math.min(Math.max(at, 0), most)}px`;
  });
  return (
    <div class="below" id="query-problem">
      {stretch !== null && (
        <span ref={mark} class="here" aria-hidden="true">
          ^
        </span>
      )}
      <p>
        <strong>
          <bdi>{message}</bdi>
        </strong>
      </p>
      {suggestion !== null ? (
        <p>
          Did you mean{' '}
          <button type="button" class="link" onClick={() => replace(suggestion.query)}>
            <bdi>{suggestion.text}</bdi>
          </button>
          ?
        </p>
      ) : (
        hint !== null && (
          <p>
            <bdi>{hint}</bdi>
          </p>
        )
      )}
    </div>
  );
}
