import type { ComponentChildren, VNode } from 'preact';
import type { SearchHit } from '../../catalog/search.ts';
import { plainLine, shellWord } from '../../core/terminal-safe.ts';
import { bytes, count, counted, dayText, monthName, shortMonth } from '../../core/text.ts';
import type { FileGroup } from '../../core/types.ts';
import type { AttachmentLine } from '../../mail/identity.ts';
import type { NoTextReason } from '../message-view.ts';
import { asOfTermText, filterText, pageAddress } from '../query-text.ts';
import {
  Icon,
  Link,
  LinkedText,
  MarkedText,
  Moment,
  Received,
  Strip,
  senderText,
} from './elements.tsx';
import {
  type MessageContent,
  type MessagePlace,
  messageAddress,
  type OpenMessage,
} from './message-props.ts';

export const GROUP_NAMES: Readonly<Record<FileGroup, string>> = {
  pdf: 'PDF',
  pictures: 'Pictures',
  documents: 'Documents',
  tables: 'Tables',
  archives: 'Archives',
  other: 'Other',
};

export const NO_TEXT: Readonly<Record<NoTextReason, string>> = {
  picture: 'picture without a preview',
  archive: 'archive, not opened',
  other: 'a kind without text',
  pending: 'not read yet',
  scan: 'scan without text',
  empty: 'without text',
  later: 'its text is shown on opening',
  unreadable: 'could not be read',
  encrypted: 'encrypted',
  malformed: 'its format could not be read',
  'too-large': 'too large to be read',
  unsupported: 'a kind that is not read',
  damaged: 'damaged in the archive',
};

/** Types whose subtype is also the usual file extension. */
const CALLED_SO = /\/(pdf|zip|jpeg|png|gif|webp|bmp|csv|html)$/;

/** Returns a short label for an attachment's type; empty if neither its type nor its name reveals one. */
export function typeLabel(type: string, filename: string | null): string {
  if (type === 'message/rfc822') return 'EML';
  if (type === 'text/calendar') return 'ICS';
  return CALLED_SO.exec(type)?.[1]?.toUpperCase() ?? extension(filename);
}

export function displayName(filename: string | null): string {
  return plainLine(filename ?? '') || '(no name)';
}

/** Returns a file extension in uppercase; empty unless it is short and plain. */
export function extension(filename: string | null): string {
  const [, end = ''] = /\.([A-Za-z0-9]{1,5})$/.exec(plainLine(filename ?? '')) ?? [];
  return end.toUpperCase();
}

/** Returns `November 2026` for `2026-11`. */
export function monthText(key: string): string {
  return `${monthName(Number(key.slice(5)))} ${key.slice(0, 4)}`;
}

/** Returns `Nov`, or `’26` for the first month of a year. */
export function monthLabel(key: string, isFirstOfYear: boolean): string {
  return isFirstOfYear ? `’${key.slice(2, 4)}` : shortMonth(Number(key.slice(5)));
}

interface FileLinkProps {
  readonly class: 'att' | 'file';
  readonly id: string;
  readonly file: Pick<AttachmentLine, 'number' | 'filename'>;
  readonly meta: ComponentChildren;
  readonly children?: ComponentChildren;
}

export function FileLink({
  id,
  file: { number, filename },
  meta,
  children,
  ...more
}: FileLinkProps) {
  return (
    <a class={more.class} href={`/m/${id}/attachments/${number}`} download>
      <span class="ext" aria-hidden="true">
        {extension(filename)}
      </span>
      <span class="nm">
        <bdi>{displayName(filename)}</bdi>
      </span>
      <span class="meta">{meta}</span>
      {children}
    </a>
  );
}

function Attachments({ open, place }: { open: OpenMessage; place: MessagePlace }) {
  const { id, facts, texts, notes } = open;
  const attachments = facts?.attachments ?? [];
  if (attachments.length === 0) return null;
  return (
    <ul class="atts" aria-label="Attachments">
      {attachments.map((file) => {
        const { number, contentType, size, inline } = file;
        const text = texts.find((known) => known.number === number);
        const note = notes.find((known) => known.number === number);
        return (
          <li key={number} class="att-of">
            <FileLink
              class="att"
              id={id}
              file={file}
              meta={
                <>
                  {bytes(size)} · <bdi>{contentType}</bdi>
                  {inline && ' · in the text'}
                  {text?.status === 'done' && ' · text searchable'}
                  {text?.status === 'failed' &&
                    ` · not searchable (${text.reason ?? 'unreadable'})`}
                  {text?.status === 'pending' && ' · not searchable yet'}
                </>
              }
            />
            {note?.hit != null && (
              <p class="hitline">
                <MarkedText text={note.hit.text} matches={note.hit.matches} />
              </p>
            )}
            {note !== undefined && note.messages.count > 1 && (
              <a
                class="also"
                href={pageAddress('/files', { q: asOfTermText(place.query), a: note.hash })}
              >
                Also in {!note.messages.complete && 'more than '}
                {counted(note.messages.count - 1, 'other message')}
              </a>
            )}
          </li>
        );
      })}
    </ul>
  );
}

export function ShortHash({ hash }: { hash: string }) {
  return (
    <span class="mono" title={hash}>
      {hash.slice(0, 8)}…{hash.slice(-4)}
    </span>
  );
}

/** Shown only if the bytes were read for this page and match their hash. Unfolds to show the message's folders. */
export function Proof({ open: { id, commit }, hit }: { open: OpenMessage; hit: SearchHit }) {
  const { firstSeen, places } = hit.line;
  return (
    <details class="proof">
      <summary>
        <Icon name="shield" />
        <span title="The message was read from the log for this page, and its SHA-256 is the one that it was stored under. A verification does this for the whole archive.">
          Checked when it was opened, every byte is as stored: SHA-256 <ShortHash hash={id} /> ·
        </span>
        {firstSeen !== null && (
          <span>
            stored <Moment ms={Date.parse(firstSeen)} /> ·
          </span>
        )}
        <span class="more">{counted(places.length, 'place')}</span>
      </summary>
      <dl>
        <dt>SHA-256</dt>
        <dd class="mono">{id}</dd>
        {commit !== null && (
          <>
            <dt>Commit</dt>
            <dd>{count(commit)}</dd>
          </>
        )}
        <dt>Places</dt>
        <dd>
          <PlaceList places={places} />
        </dd>
      </dl>
    </details>
  );
}

type Places = SearchHit['line']['places'];

export function PlaceList({ places }: { places: Places }) {
  return (
    <ul>
      {places.map(({ mailbox, folder, uid, endedAt }) => (
        <li key={`${mailbox} ${folder} ${uid}`}>
          <Link q={folderQuery({ mailbox, folder })}>
            <bdi>
              {mailbox} / {folder}
            </bdi>
          </Link>{' '}
          <span class="faint">
            uid {count(uid)}
            {endedAt !== null && (
              <>
                , until <Moment ms={Date.parse(endedAt)} />
              </>
            )}
          </span>
        </li>
      ))}
    </ul>
  );
}

export function folderQuery({ mailbox, folder }: Pick<Places[number], 'mailbox' | 'folder'>) {
  return `${filterText('mailbox', mailbox)} ${filterText('in', folder)}`;
}

export function DamageStrip({ message, data }: { message: string | undefined; data?: string }) {
  return (
    <div class="strip bad" role="alert">
      <Icon name="alert" />
      <div>
        <p>
          <strong>These bytes are not what was stored.</strong> <bdi>{message}</bdi>
        </p>
        <p class="mono">
          mailkeep verify --repair{data !== undefined && ` --data ${shellWord(data)}`}
        </p>
      </div>
    </div>
  );
}

interface DamagedProps {
  readonly hit: SearchHit;
  readonly open: Pick<OpenMessage, 'damage'>;
  readonly dataDir: string;
}

/** Shows what the catalog knows about a message whose bytes are damaged. */
export function Damaged({ hit: { line }, open, dataDir }: DamagedProps) {
  const attachments = line.attachments ?? [];
  return (
    <div class="damaged">
      <DamageStrip message={open.damage?.message} data={dataDir} />
      {line.snippet !== '' && (
        <p class="text">
          <span class="small">How its text begins, from the search index:</span>
          {'\n'}
          <bdi>{line.snippet}</bdi>
        </p>
      )}
      {attachments.length > 0 && (
        <p class="small">
          It had{' '}
          {attachments.map(({ number, filename, size }) => (
            <span key={number}>
              {number > 1 && ', '}
              <bdi>{displayName(filename)}</bdi> ({bytes(size)})
            </span>
          ))}
          , which cannot be saved.
        </p>
      )}
    </div>
  );
}

const MAX_QUOTE_LINES = 3;

export function Text({ pieces, folded }: { pieces: OpenMessage['text']; folded: boolean }) {
  return (
    <div class={folded ? 'text' : 'text plain-text'} dir="auto">
      {pieces.map(({ kind, lines, matches, links }, i) => {
        const text = <LinkedText text={lines.join('\n')} matches={matches} links={links} />;
        if (kind === 'quote' && folded && lines.length > MAX_QUOTE_LINES)
          return (
            <details key={i} class="quoted">
              <summary>
                <Icon name="down" />
                {counted(lines.length, 'quoted line')}
                {matches.length > 0 && `, ${counted(matches.length, 'match', 'matches')}`}
              </summary>
              <div class={kind}>{text}</div>
            </details>
          );
        return (
          <div key={i} class={kind === 'text' ? undefined : kind}>
            {text}
          </div>
        );
      })}
    </div>
  );
}

/** Summarises a conversation: `6 messages of 4 people, 30 Sep 2026 – 20 Nov 2026, in 2 mailboxes`. */
export function conversationText(hits: readonly SearchHit[], isCut: boolean): string {
  // A mailing list sends mail from one address under its members' names.
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

/** Returns a duration in its largest unit, such as `17 hours`. @param ms not negative */
export function roughSpan(ms: number): string {
  const found = UNITS.find(([length]) => ms >= length);
  if (found === undefined) return 'less than a minute';
  const [length, unit] = found;
  return counted(Math.floor(ms / length), unit);
}

export interface ConversationProps {
  readonly message: MessageContent;
}

interface ThreadProps extends ConversationProps {
  readonly open: ReadonlyMap<string, OpenMessage>;
  /** Folds or unfolds a message in place; null without a script. */
  readonly toggle: ((id: string) => void) | null;
}

export function Conversation({ message }: ConversationProps) {
  return <Thread message={message} open={initiallyOpen(message)} toggle={null} />;
}

export function initiallyOpen(message: MessageContent): ReadonlyMap<string, OpenMessage> {
  const others = message.content.view === 'thread' ? message.content.others : [];
  return new Map([message, ...others].map((open) => [open.id, open]));
}

/** In longer runs of folded messages, a single line replaces the inner ones. */
const FOLDED = 3;

export function Thread({ message, open, toggle }: ThreadProps) {
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

type RunProps = Omit<ThreadProps, 'open'> & { readonly hits: readonly SearchHit[] };

function Run({ hits, message, toggle }: RunProps) {
  const fold = (hit: SearchHit) => <Fold key={hit.line.id} {...{ hit, message, toggle }} />;
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

type FoldProps = Omit<ThreadProps, 'open'> & { readonly hit: SearchHit };

function Fold({ hit: { line, matches }, message, toggle }: FoldProps) {
  return (
    <a
      class={line.endedAt === null ? 'fold' : 'fold ended'}
      href={messageAddress(message.place, line.id, 'thread')}
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
        <MarkedText text={line.snippet} matches={matches} />
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
      <DeletedNote line={line} open={open} />
      {facts === null ? (
        <Damaged hit={hit} open={open} dataDir={message.dataDir} />
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
          <Attachments open={open} place={message.place} />
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

/** Shows the two checks between which the service deleted a message, and how long after its arrival. */
export function DeletedNote({ line, open }: { line: Line; open: OpenMessage }) {
  const { endedAt, date } = line;
  const { damage, lastSeen } = open;
  if (endedAt === null) return null;
  const at = Date.parse(endedAt);
  const sightings = lastSeen.flatMap(({ found, seen }) => (found === at ? seen : []));
  const after = date === null ? null : at - Date.parse(date);
  return (
    <Strip kind="ended" icon="past">
      <strong>
        <DeletedWhen found={at} seen={sightings.length === 0 ? null : Math.max(...sightings)} />
      </strong>
      {after !== null && after >= 0 && `, found ${roughSpan(after)} after it came`}. Kept only here
      {damage === null && ', complete'}.
    </Strip>
  );
}

/** Times are milliseconds since the epoch. @param seen when the message was last seen; null if unknown */
export function DeletedWhen({ found, seen }: { found: number; seen: number | null }) {
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
  const words = senderText(hit.from)
    .split(/[\s@]+/)
    .filter((word) => /^[\p{L}\p{N}]/u.test(word));
  const [first = '', second = ''] = words.map((word) => [...word][0]);
  return (
    <span class={big ? 'face big' : 'face'} aria-hidden="true">
      {(first + second).toUpperCase()}
    </span>
  );
}
