import type { VNode } from 'preact';
import type { HistoryLine } from '../../catalog/message-history.ts';
import { count } from '../../wording/amounts.ts';
import { namedMoment, asOf as queryAsOf } from '../reading/query-text.ts';
import { DeletedWhen } from './conversation.tsx';
import { type HistoryStep, historySteps } from './history-steps.ts';
import { type MessageContent, messageAddress, ownHit } from './message-props.ts';
import { Moment } from './moment.tsx';

interface HistoryProps {
  readonly lines: readonly HistoryLine[];
  readonly asOf: number | null;
  readonly message: MessageContent;
}

/** Everything that happened to a message as a line of time; each moment is a link to the archive of then. */
export function History({ lines, asOf, message }: HistoryProps): VNode {
  const { date } = ownHit(message.conversation).line;
  const steps = historySteps(
    lines,
    message.lastSeen,
    date === null ? null : Date.parse(date),
    asOf,
  );
  return (
    <ol class="time-line history">
      {steps.map((step, i) => (
        <Step key={i} step={step} message={message} />
      ))}
    </ol>
  );
}

function Step({
  step: { ms, kind, title, details, place, commit, seen, isLater },
  message,
}: {
  readonly step: HistoryStep;
  readonly message: MessageContent;
}): VNode {
  const classes = [kind, ...(isLater ? ['later'] : [])].join(' ');
  return (
    <li class={classes} aria-current={kind === 'here' ? 'true' : undefined}>
      <span class="at">
        {ms === null && 'unknown'}
        {ms !== null &&
          // Before its commit, the archive did not know of it.
          (commit === null ? (
            <Moment ms={ms} />
          ) : (
            <a class="link" href={thenAddress(message, ms)} title="As it was at this moment">
              <Moment ms={ms} />
            </a>
          ))}
      </span>
      <span class="dot" aria-hidden="true" />
      <div>
        <p>
          <strong>
            {kind === 'ended' && ms !== null ? <DeletedWhen found={ms} seen={seen} /> : title}
          </strong>
        </p>
        {(place !== null || details.length > 0) && (
          <p class="small">
            {place !== null && (
              <bdi>
                {place.mailbox} / {place.folder} / uid {count(place.uid)}
              </bdi>
            )}
            {details.map((detail) => (
              <span key={detail}>
                {' · '}
                <bdi>{detail}</bdi>
              </span>
            ))}
            {commit !== null && <span class="faint"> · commit {count(commit)}</span>}
          </p>
        )}
      </div>
    </li>
  );
}

function thenAddress({ place, id }: MessageContent, ms: number): string {
  const then = queryAsOf(place.query, namedMoment(ms));
  return messageAddress({ ...place, query: then, after: undefined }, id, 'history');
}
