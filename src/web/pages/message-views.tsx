import type { VNode } from 'preact';
import type { HistoryLine, LastSeen } from '../../catalog/messages.ts';
import { plainLine } from '../../core/terminal-safe.ts';
import { count, eventText, span } from '../../core/text.ts';
import type { Hop } from '../message-view.ts';
import { namedMoment, asOf as queryAsOf } from '../query-text.ts';
import { DeletedWhen } from './conversation.tsx';
import { Icon } from './icons.tsx';
import {
  type MessageContent,
  messageAddress,
  ownHit,
  type SourceText,
  WINDOW_BYTES,
} from './message-props.ts';
import { useParts } from './parts.ts';
import { Moment } from './time-band.tsx';

/** Maximum header fields on one page: a header of a mebibyte can have a hundred thousand. */
const MAX_FIELDS = 1_000;

function Headers({
  fields,
  hops,
}: {
  fields: readonly { readonly name: string; readonly value: string }[];
  hops: readonly Hop[];
}) {
  const { Copy } = useParts();
  return (
    <>
      {hops.length > 0 && <Hops hops={hops} />}
      <table class="headers">
        <tbody>
          {fields.slice(0, MAX_FIELDS).map(({ name, value }, i) => (
            <tr key={i}>
              <th scope="row">
                <bdi>{name}</bdi>
              </th>
              <td>
                <bdi>{plainLine(value)}</bdi>
              </td>
              <td class="act">
                <Copy text={value} label={`Copy ${name}`} icon="copy" isBrief />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {fields.length > MAX_FIELDS && (
        <p class="small">
          {count(fields.length - MAX_FIELDS)} more fields are left out; the source has all of them.
        </p>
      )}
    </>
  );
}

function Hops({ hops }: { hops: readonly Hop[] }) {
  return (
    <section class="hops" aria-label="The way of the message">
      <h2>
        The way it took <small>by its Received lines, which any server may have forged</small>
      </h2>
      <ol class="time-line">
        {hops.map(({ from, by, with: how, time, delay }, i) => (
          <li key={i}>
            <span class="at">{time === null ? 'no time' : <Moment ms={time} />}</span>
            <span class="dot" aria-hidden="true" />
            <div>
              <p>
                <strong>
                  <bdi>{by || 'a server without a name'}</bdi>
                </strong>{' '}
                {how !== '' && (
                  <span class="muted">
                    with <bdi>{how}</bdi>
                  </span>
                )}
                {delay !== null && <span class="tag">{delayText(delay)}</span>}
              </p>
              {from !== '' && (
                <p class="small">
                  from <bdi>{from}</bdi>
                </p>
              )}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** Clocks of two servers differ, so a hop can appear to precede the previous one. */
function delayText(ms: number): string {
  if (ms < 0) return `clock ${span(-ms)} behind`;
  return ms < 1_000 ? 'at once' : `after ${span(ms)}`;
}

/** An event of a message, or the moment that the page shows. */
interface HistoryStep {
  /** Milliseconds since the epoch; null if unknown. */
  readonly ms: number | null;
  readonly kind: 'fact' | 'ended' | 'here';
  readonly title: string;
  /** Further details, each a sentence without a full stop. */
  readonly details: readonly string[];
  readonly place: Pick<HistoryLine, 'mailbox' | 'folder' | 'uid'> | null;
  readonly commit: number | null;
  /** For a deletion: when the message was last seen, in milliseconds since the epoch; null if unknown. */
  readonly seen: number | null;
  /** Whether it happened after the moment that the page shows. */
  readonly isLater: boolean;
}

const EVENTS: Readonly<Record<string, string>> = {
  appeared: 'Appeared',
  flags: 'Flags changed',
  ended: 'Deleted at the service',
  reopened: 'Came back',
  held: 'Held',
  quarantined: 'Quarantined',
  verified: 'Verified: read back, every byte',
  imported: 'Imported',
  moved: 'Moved',
};

/**
 * Returns the history of a message as a timeline, oldest first.
 *
 * @param lastSeen when the message was last seen in places where it was later found gone
 * @param received when the service received it, in milliseconds since the epoch; may be null
 * @param asOf the moment that the page shows; null for now
 */
export function historySteps(
  lines: readonly HistoryLine[],
  lastSeen: readonly LastSeen[],
  received: number | null,
  asOf: number | null,
): HistoryStep[] {
  const steps: HistoryStep[] = [];
  if (received !== null) steps.push(step(received, { title: 'Received', kind: 'fact' }));
  const flags = new Map<string, readonly string[]>();
  for (const line of lines) {
    const { event, time, mailbox, folder, uid, commit } = line;
    const place = `${mailbox} ${folder} ${line.generation} ${uid}`;
    const before = flags.get(place);
    if (line.flags !== undefined) flags.set(place, line.flags);
    const now = line.flags ?? [];
    const change = event === 'flags' ? flagsText(before ?? [], now) : '';
    const movedAway = event === 'ended' && line.detail?.reason === 'moved';
    const title = movedAway ? 'Moved away' : change || (EVENTS[event] ?? event);
    steps.push(
      step(time === null ? null : Date.parse(time), {
        title: event === 'appeared' ? `${title}${stateText(now)}` : title,
        kind: event === 'ended' && !movedAway ? 'ended' : 'fact',
        details: [
          ...(line.flags !== undefined && now.length > 0 ? [`flags: ${now.join(' ')}`] : []),
          ...(event === 'appeared' && isEmpty(line.detail) ? [] : eventText(event, line.detail)),
        ],
        place: { mailbox, folder, uid },
        commit,
        seen: event === 'ended' ? (lastSeen.find(isSameEnd(line))?.seen ?? null) : null,
      }),
    );
  }
  if (asOf === null) return steps;
  const at = steps.findIndex(({ ms }) => ms !== null && ms > asOf);
  const here = step(asOf, { title: 'You are looking at this moment', kind: 'here' });
  if (at < 0) return [...steps, here];
  const later = steps.slice(at).map((one) => ({ ...one, isLater: true }));
  return [...steps.slice(0, at), here, ...later];
}

function isSameEnd(line: HistoryLine): (end: LastSeen) => boolean {
  return ({ commit, generation, uid }) =>
    commit === line.commit && generation === line.generation && uid === line.uid;
}

function step(
  ms: number | null,
  known: Pick<HistoryStep, 'title' | 'kind'> & Partial<HistoryStep>,
): HistoryStep {
  return { ms, details: [], place: null, commit: null, seen: null, isLater: false, ...known };
}

function isEmpty(detail: HistoryLine['detail']): boolean {
  return detail === undefined || Object.keys(detail).length === 0;
}

function stateText(flags: readonly string[]): string {
  const words = [
    flags.includes('\\Seen') ? 'read' : 'unread',
    ...(flags.includes('\\Flagged') ? ['starred'] : []),
  ];
  return `, ${words.join(' and ')}`;
}

const SET: Readonly<Record<string, readonly [set: string, unset: string]>> = {
  '\\Seen': ['read', 'unread again'],
  '\\Flagged': ['starred', 'star removed'],
  '\\Answered': ['answered', 'no longer answered'],
  '\\Draft': ['a draft', 'no draft any more'],
  '\\Deleted': ['marked for deletion', 'no longer marked for deletion'],
};

/** Describes a change of flags: `Read, and starred`; empty if only unknown flags changed. */
function flagsText(before: readonly string[], after: readonly string[]): string {
  const words = Object.entries(SET).flatMap(([flag, [set, unset]]) => {
    const [had, has] = [before.includes(flag), after.includes(flag)];
    return had === has ? [] : [has ? set : unset];
  });
  const text = words.length < 2 ? (words[0] ?? '') : words.join(', and ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

interface HistoryProps {
  readonly lines: readonly HistoryLine[];
  readonly asOf: number | null;
  readonly message: MessageContent;
}

function History({ lines, asOf, message }: HistoryProps) {
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
  step: HistoryStep;
  message: MessageContent;
}) {
  const classes = [kind, ...(isLater ? ['later'] : [])].join(' ');
  return (
    <li class={classes} aria-current={kind === 'here' ? 'true' : undefined}>
      <span class="at">
        {ms === null && 'unknown'}
        {ms !== null &&
          // The archive did not know the message before its commit.
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

interface SourceProps {
  readonly message: MessageContent;
  readonly window: SourceText | null;
}

/** A part of the raw source, with links to the adjacent parts, and a search. */
function Source({ message, window }: SourceProps) {
  if (window === null) return <p class="empty">The source cannot be shown.</p>;
  const { from, length, size } = window;
  const address = messageAddress(message.place, message.id, 'source');
  const part = (at: number, label: string) => (
    <a class="btn" href={`${address}&from=${at}`}>
      {label}
    </a>
  );
  return (
    <>
      <Find message={message} window={window} />
      {length === 0 && <p class="empty">The source has no such part.</p>}
      <pre class="source">
        <MarkedSource {...window} />
      </pre>
      {size > length && (
        <nav class="pages" aria-label="Parts of the source">
          {from > 0 && part(Math.max(0, from - WINDOW_BYTES), 'Earlier part')}
          <span class="spacer" />
          <span>
            bytes {count(from)} to {count(from + length)} of {count(size)}
          </span>
          <span class="spacer" />
          {from + length < size && part(from + WINDOW_BYTES, 'Later part')}
        </nav>
      )}
    </>
  );
}

function Find({
  message: { place, id },
  window: { find },
}: {
  message: MessageContent;
  window: SourceText;
}) {
  const { page, query, sort, after } = place;
  const step = (hit: number | null, label: string) =>
    hit === null ? null : (
      <a
        class="btn"
        href={`${messageAddress(place, id, 'source')}&${new URLSearchParams({
          find: find?.text ?? '',
          hit: String(hit),
        })}`}
      >
        {label}
      </a>
    );
  const kept = {
    q: query,
    sort,
    after,
    m: page === 'mail' ? id.slice(0, 16) : undefined,
    view: 'source',
  };
  return (
    <div class="find">
      <form action={page === 'mail' ? '/mail' : `/m/${id}`} class="find-form">
        {Object.entries(kept).map(
          ([name, value]) =>
            value !== undefined &&
            value !== '' && <input key={name} type="hidden" name={name} value={value} />,
        )}
        <Icon name="search" />
        <input
          name="find"
          value={find?.text ?? ''}
          maxlength={100}
          aria-label="Find in the source"
          placeholder="Find in the source"
          autocomplete="off"
          spellcheck={false}
        />
        <button type="submit" class="btn">
          Find
        </button>
      </form>
      {find !== null && (
        <span role="status">
          {find.count === 0 ? 'Not found' : `${count(find.number)} of ${count(find.count)}`}
        </span>
      )}
      {step(find?.previous ?? null, 'Previous')}
      {step(find?.next ?? null, 'Next')}
    </div>
  );
}

function MarkedSource({ text, find, current }: SourceText) {
  const parts: (string | VNode)[] = [];
  let at = 0;
  for (const { start, end } of find?.matches ?? []) {
    parts.push(
      text.slice(at, start),
      <mark key={start} class={start === current ? 'current' : undefined}>
        {text.slice(start, end)}
      </mark>,
    );
    at = end;
  }
  return (
    <>
      {parts}
      {text.slice(at)}
    </>
  );
}

export function MessageViews(message: MessageContent) {
  const { content } = message;
  switch (content.view) {
    case 'headers':
      return <Headers fields={content.fields} hops={content.hops} />;
    case 'source':
      return <Source message={message} window={content.window} />;
    case 'history':
      return <History lines={content.lines} asOf={content.asOf} message={message} />;
    default:
      return null;
  }
}
