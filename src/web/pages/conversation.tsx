import type { VNode } from 'preact';
import type { SearchHit } from '../../catalog/search.ts';
import { plainLine } from '../../core/terminal-safe.ts';
import { count, counted, dayText } from '../../core/text.ts';
import { Icon, Link, Strip } from './icons.tsx';
import { Marked, senderText } from './mail-list.tsx';
import { Attachments, Damaged, Proof, Text } from './message-parts.tsx';
import {
  type MessageContent,
  type MessagePlace,
  messageAddress,
  type OpenMessage,
} from './message-props.ts';
import { Moment, Received } from './time-band.tsx';

/** Returns a summary of a conversation: `6 messages of 4 people, 30 Sep 2026 – 20 Nov 2026, in 2 mailboxes`. */
export function conversationText(hits: readonly SearchHit[], isCut: boolean): string {
  // A mailing list sends the mail of all its members from one address, under their names.
  const people = new Set(
    hits.flatMap(({ line: { from } }) =>
      from === null ? [] : [`${from.name} ${from.address}`.toLowerCase()],
    ),
  );
  const times = hits.flatMap(({ line }) => (line.date === null ? [] : [Date.parse(line.date)]));
  const mailboxes = new Set(hits.flatMap(({ line }) => line.places.map(({ mailbox }) => mailbox)));
  const parts = [
    `${isCut ? 'The first ' : ''}${counted(hits.length, 'message')}${
      people.size === 0 ? '' : ` of ${counted(people.size, 'person', 'people')}`
    }`,
  ];
  if (times.length > 0) {
    const [first, last] = [dayText(Math.min(...times)), dayText(Math.max(...times))];
    parts.push(first === last ? first : `${first} – ${last}`);
  }
  if (mailboxes.size > 1) parts.push(`in ${counted(mailboxes.size, 'mailbox', 'mailboxes')}`);
  return parts.join(', ');
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const UNITS = [
  [365 * DAY, 'year'],
  [30 * DAY, 'month'],
  [DAY, 'day'],
  [HOUR, 'hour'],
  [MINUTE, 'minute'],
] as const;

/** Returns a duration in its largest unit: `17 hours`, `3 months`. Milliseconds, at least 0. */
export function roughSpan(ms: number): string {
  const found = UNITS.find(([length]) => ms >= length);
  if (found === undefined) return 'less than a minute';
  const [length, unit] = found;
  return counted(Math.floor(ms / length), unit);
}

export interface ConversationProps {
  readonly message: MessageContent;
}

interface Folding {
  readonly open: ReadonlyMap<string, OpenMessage>;
  /** Unfolds a message in place, or folds it; null without a script. */
  readonly toggle: ((id: string) => void) | null;
}

export function Conversation({ message }: ConversationProps) {
  return <Thread message={message} open={unfoldedAtFirst(message)} toggle={null} />;
}

export function unfoldedAtFirst(message: MessageContent): ReadonlyMap<string, OpenMessage> {
  const others = message.content.view === 'thread' ? message.content.others : [];
  return new Map([message, ...others].map((open) => [open.id, open]));
}

/** Number of adjacent folded messages above which the inner ones become one line. */
const FOLDED = 3;

export function Thread({ message, open, toggle }: ConversationProps & Folding) {
  const { all } = message.conversation;
  const parts: VNode[] = [];
  let run: SearchHit[] = [];
  const endRun = (): void => {
    if (run.length > 0)
      parts.push(<Run key={run[0]?.line.id} hits={run} {...{ message, toggle }} />);
    run = [];
  };
  for (const hit of all) {
    const unfolded = open.get(hit.line.id);
    if (unfolded === undefined) {
      run.push(hit);
      continue;
    }
    endRun();
    const fold = toggle === null || all.length === 1 ? null : () => toggle(hit.line.id);
    parts.push(<Message key={hit.line.id} {...{ hit, message, fold }} open={unfolded} />);
  }
  endRun();
  return <>{parts}</>;
}

interface RunProps extends ConversationProps, Pick<Folding, 'toggle'> {
  readonly hits: readonly SearchHit[];
}

/** Adjacent folded messages. If there are many, one line replaces the inner ones and shows whether any was deleted. */
function Run({ hits, message, toggle }: RunProps) {
  const fold = (hit: SearchHit) => (
    <Fold key={hit.line.id} hit={hit} place={message.place} toggle={toggle} />
  );
  if (hits.length <= FOLDED) return <>{hits.map(fold)}</>;
  const inner = hits.slice(1, -1);
  const ended = inner.filter(({ line }) => line.endedAt !== null).length;
  return (
    <>
      {hits.slice(0, 1).map(fold)}
      <details class="folds">
        <summary>
          <Icon name="down" />
          {counted(inner.length, 'more message')}
          {ended > 0 && `, ${ended === 1 ? 'one' : count(ended)} of them deleted at the service`}
        </summary>
        {inner.map(fold)}
      </details>
      {hits.slice(-1).map(fold)}
    </>
  );
}

interface FoldProps extends Pick<Folding, 'toggle'> {
  readonly hit: SearchHit;
  readonly place: MessagePlace;
}

function Fold({ hit: { line, matches }, place, toggle }: FoldProps) {
  return (
    <a
      class={line.endedAt === null ? 'fold' : 'fold ended'}
      href={messageAddress(place, line.id, 'thread')}
      data-fold={line.id}
      onClick={(event) => {
        const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
        if (toggle === null || !isPlain) return;
        event.preventDefault();
        toggle(line.id);
      }}
    >
      <Face hit={line} />
      <span class="who">
        <bdi>{senderText(line.from)}</bdi>
      </span>
      <span class="snip">
        <Marked text={line.snippet} matches={matches} />
      </span>
      {line.endedAt !== null && <span class="tag ended">deleted</span>}
      <Received date={line.date} />
    </a>
  );
}

interface MessageProps extends ConversationProps {
  readonly hit: SearchHit;
  readonly open: OpenMessage;
  readonly fold: (() => void) | null;
}

function Message({ hit, open, message, fold }: MessageProps) {
  const { line } = hit;
  const { facts, text } = open;
  const isOwn = line.id === message.id;
  return (
    <article
      class={`msg${line.endedAt === null ? '' : ' ended'}`}
      id={`m-${line.id.slice(0, 16)}`}
      aria-label={`Message of ${senderText(line.from)}`}
      tabindex={-1}
    >
      <header class="mhead">
        <Face hit={line} big />
        <div>
          <p class="who">
            <Sender line={line} written={facts?.from ?? ''} />
          </p>
          <Recipients name="to" value={facts?.to ?? ''} />
          <Recipients name="cc" value={facts?.cc ?? ''} />
          <Recipients name="bcc" value={facts?.bcc ?? ''} />
        </div>
        <div class="when">
          <Received date={line.date} />
          {fold !== null && (
            <button type="button" class="btn quiet small" onClick={fold}>
              Fold
            </button>
          )}
        </div>
      </header>
      <Ended line={line} open={open} />
      {facts === null ? (
        <Damaged hit={hit} damage={open.damage} dataDir={message.dataDir} />
      ) : (
        <>
          {facts.reason !== null && (
            <Strip kind="warn" icon="alert">
              This message could not be read to its end ({facts.reason}). The source is complete.
            </Strip>
          )}
          {facts.encrypted !== null && (
            <Strip kind="warn" icon="alert">
              This message is encrypted ({facts.encrypted}). Its text cannot be read here; the
              source is complete.
            </Strip>
          )}
          {facts.onlyHtml && (
            <p class="strip html-only">
              <Icon name="draft" />
              <span>This message is HTML only. Below is its text.</span>
              <a class="btn" href={messageAddress(message.place, line.id, 'html')}>
                Show the HTML
              </a>
            </p>
          )}
          <Text pieces={text} folded />
          {text.every(({ lines }) => lines.every((one) => one.trim() === '')) && (
            <p class="text muted">This message has no text.</p>
          )}
          {facts.truncated && (
            <p class="small">The rest of the text is left out; the source has all of it.</p>
          )}
          <Attachments {...open} place={message.place} />
          <Proof open={open} hit={hit} />
        </>
      )}
      {!isOwn && (
        <p class="msg-links">
          <Link to={messageAddress(message.place, line.id, 'thread')}>Open this message</Link>
        </p>
      )}
    </article>
  );
}

type Line = SearchHit['line'];

/** Shows between which two checks the service deleted a message, and how long after its arrival. */
export function Ended({
  line: { endedAt, date },
  open: { damage, lastSeen },
}: {
  line: Pick<Line, 'endedAt' | 'date'>;
  open: Pick<OpenMessage, 'damage' | 'lastSeen'>;
}) {
  if (endedAt === null) return null;
  const at = Date.parse(endedAt);
  const looks = lastSeen.flatMap(({ found, seen }) => (found === at ? seen : []));
  const after = date === null ? null : at - Date.parse(date);
  return (
    <Strip kind="ended" icon="past">
      <strong>
        <DeletedWhen found={at} seen={looks.length === 0 ? null : Math.max(...looks)} />
      </strong>
      {after !== null && after >= 0 && `, found ${roughSpan(after)} after it came`}. Kept only here
      {damage === null && ', complete'}.
    </Strip>
  );
}

/** When a message was deleted at the service, as precisely as the times of the archive's checks allow. */
export function DeletedWhen({
  found,
  seen,
}: {
  /** Milliseconds since the epoch, both. */
  found: number;
  seen: number | null;
}) {
  return seen === null ? (
    <>
      Found deleted at the service on <Moment ms={found} />
    </>
  ) : (
    <>
      Deleted at the service between <Moment ms={seen} /> and <Moment ms={found} />
    </>
  );
}

function Sender({ line, written }: { line: Line; written: string }) {
  const { from } = line;
  if (from === null || from.name === '') return <bdi>{plainLine(written) || senderText(from)}</bdi>;
  return (
    <>
      <bdi>{plainLine(from.name)}</bdi> <bdi class="address-of">{plainLine(from.address)}</bdi>
    </>
  );
}

function Recipients({ name, value }: { name: string; value: string }) {
  if (value === '') return null;
  return (
    <p class="to">
      {name} <bdi>{plainLine(value)}</bdi>
    </p>
  );
}

function Face({ hit, big = false }: { hit: Line; big?: boolean }) {
  return (
    <span class={big ? 'face big' : 'face'} aria-hidden="true">
      {initials(senderText(hit.from))}
    </span>
  );
}

function initials(name: string): string {
  const words = name.split(/[\s@]+/).filter((word) => /^[\p{L}\p{N}]/u.test(word));
  return words
    .slice(0, 2)
    .map((word) => [...word][0] ?? '')
    .join('')
    .toUpperCase();
}
