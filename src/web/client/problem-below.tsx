import type { RefObject, VNode } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Icon } from '../pages/icons.tsx';
import { Moment } from '../pages/time-band.tsx';
import type { QueryProblem } from '../understood-query.ts';
import { type Shown, useViewer } from './viewer.ts';

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

/** Says that the server cannot be reached. What is shown stays. */
export function LostStrip({ lost }: Pick<Shown, 'lost'>): VNode | null {
  const viewer = useViewer();
  if (lost === null) return null;
  return (
    <div class="strip warn lost" role="status">
      <Icon name="alert" />
      <span>
        <strong>The connection to the archive is lost.</strong> What you see is from{' '}
        <Moment ms={lost.since} />. The next try follows by itself.
      </span>
      <button type="button" class="btn" onClick={() => viewer.retry()}>
        Try now
      </button>
    </div>
  );
}

/** Says that the server did not give what was asked for. The next answer takes it away. */
export function RefusedStrip({ failed }: Pick<Shown, 'failed'>): VNode | null {
  if (!failed) return null;
  return (
    <div class="strip warn lost" role="status">
      <Icon name="alert" />
      <span>
        <strong>The server could not answer this request.</strong> What you see is still right. Its
        log says why.
      </span>
    </div>
  );
}
