import type { VNode } from 'preact';
import type { HistoryLine, LastSeen } from '../../catalog/messages.ts';
import type { SearchHit } from '../../catalog/search.ts';
import { plainLine } from '../../core/terminal-safe.ts';
import { bytes, count, counted, eventText, span } from '../../core/text.ts';
import { asOfTermText, pageAddress, wholeSecond, withAsOf } from '../query-text.ts';
import {
  conversationText,
  Damaged,
  DeletedNote,
  DeletedWhen,
  FileLink,
  folderQuery,
  PlaceList,
  Proof,
  Text,
} from './conversation.tsx';
import {
  Icon,
  Link,
  Moment,
  markedParts,
  PageNav,
  Received,
  Strip,
  senderText,
} from './elements.tsx';
import {
  attachedFiles,
  exceedsDownloadLimit,
  FRAME_SANDBOX,
  listAddress,
  MAX_OF_THREAD,
  MAX_TOGETHER,
  type MessageContent,
  messageAddress,
  type NoMessage,
  openedHit,
  VIEWS,
  type View,
  type ViewContent,
  WINDOW_BYTES,
} from './message-props.ts';
import { type PageOf, useParts } from './page.ts';
import { Shell } from './shell.tsx';

const TABS: Readonly<Record<View, string>> = {
  thread: 'Conversation',
  plain: 'Plain',
  html: 'HTML',
  headers: 'Headers',
  source: 'Source',
  history: 'History',
};

export function MessagePane(props: MessageContent) {
  const { id, place, conversation, content } = props;
  const { Copy, PrintButton } = useParts();
  const { line } = openedHit(conversation);
  const address = messageAddress(place, id, content.view, props.opensAs);
  return (
    <>
      <header class="rhead">
        <div class="rtop">
          <a class="back" href={listAddress(place)}>
            <Icon name="back" />
            Back to the list
          </a>
          <span class="spacer" />
          <Copy text={address} isAddress label="Copy link" icon="link" />
          <input type="checkbox" id="views" class="vh toggle" aria-label="Choose a view" />
          <label for="views" class="btn quiet views-button">
            {TABS[content.view]}
            <Icon name="down" />
          </label>
          <label for="views" class="scrim">
            <span class="vh">Close the views</span>
          </label>
        </div>
        <h1>
          <bdi>{plainLine(line.subject ?? '(no subject)')}</bdi>
        </h1>
        <div class="rsub">
          <Who {...conversation} />
          <Places {...line} />
        </div>
        <nav class="tabs" aria-label="Views of the message">
          {VIEWS.map((view) => (
            <a
              key={view}
              href={messageAddress(place, id, view, props.opensAs)}
              aria-current={content.view === view ? 'page' : undefined}
            >
              {TABS[view]}
            </a>
          ))}
          <span class="spacer" />
          <Copy text={address} isAddress label="Copy link" icon="link" />
          {content.view === 'html' ? (
            // The frame has the height of the window, and would be cut off.
            <a
              class="btn quiet print"
              href={`/m/${id}/html`}
              target="_blank"
              rel="noreferrer noopener"
              title="Open the HTML alone, to print it"
            >
              <Icon name="print" />
              <span class="vh">Print</span>
            </a>
          ) : (
            <PrintButton />
          )}
          <a class="btn quiet" href={`/m/${id}/source`} download>
            <Icon name="save" />
            .eml
          </a>
        </nav>
      </header>
      <section class={`rbody view-${content.view}`} aria-label={TABS[content.view]} tabindex={0}>
        {content.view !== 'thread' && <DeletedNote line={line} open={props} />}
        <Content {...props} />
      </section>
    </>
  );
}

function Who(conversation: MessageContent['conversation']) {
  const { all } = conversation;
  if (all.length > 1) return <span>{conversationText(all, all.length === MAX_OF_THREAD)}</span>;
  const { line } = openedHit(conversation);
  return (
    <span>
      <bdi>{senderText(line.from)}</bdi>, <Received date={line.date} />
    </span>
  );
}

function Places({ places: [first, ...more], size }: SearchHit['line']) {
  return (
    <>
      {first !== undefined && (
        <>
          <span class="faint between">·</span>
          <a class="path" href={pageAddress('/mail', { q: folderQuery(first) })}>
            <Icon name="folder" />
            <bdi>
              {first.mailbox} / {first.folder}
            </bdi>
          </a>
        </>
      )}
      {more.length > 0 && <span class="faint">and {counted(more.length, 'other place')}</span>}
      <span class="faint between">·</span>
      <span class="faint">{bytes(size)}</span>
    </>
  );
}

function Content(props: MessageContent): VNode {
  const { id, content, facts, conversation } = props;
  const { Conversation } = useParts();
  const hit = openedHit(conversation);
  if (content.view === 'thread')
    return <Conversation message={props} key={`${id} ${props.place.query}`} />;
  if (content.view === 'history') return <History {...content} message={props} />;
  if (facts === null) return <Damaged hit={hit} open={props} dataDir={props.dataDir} />;
  return (
    <>
      {content.view === 'headers' && <Headers {...content} />}
      {content.view === 'source' && <Source message={props} window={content.window} />}
      {content.view === 'html' && (
        <>
          <Remote remote={content.remote} />
          {facts.hasHtml && content.isReadable ? (
            <iframe
              class="html"
              title="The HTML of the message"
              src={`/m/${id}/html`}
              sandbox={FRAME_SANDBOX}
              referrerpolicy="no-referrer"
            />
          ) : (
            <p class="empty">
              {facts.hasHtml
                ? 'The HTML of this message could not be read. The source has it.'
                : 'This message has no HTML.'}
            </p>
          )}
        </>
      )}
      {content.view === 'html' && (
        <div class="printed">
          <Text pieces={props.text} folded={false} />
        </div>
      )}
      {content.view === 'plain' && (
        <>
          {facts.onlyHtml && (
            <Strip icon="draft">
              This message has no plain text. Below is the text of its HTML.
            </Strip>
          )}
          <Text pieces={props.text} folded={false} />
        </>
      )}
      <Proof open={props} hit={hit} />
    </>
  );
}

type ContentOf<V extends View> = Extract<ViewContent, { readonly view: V }>;

/** Counts blocked remote images. There is deliberately no button to load them. */
function Remote({ remote }: Pick<ContentOf<'html'>, 'remote'>) {
  const hosts = Object.entries(remote ?? {});
  const all = hosts.reduce((sum, [, pictures]) => sum + pictures, 0);
  if (all === 0) return null;
  return (
    <div class="strip blocked">
      <Icon name="hidden" />
      <details>
        <summary>
          <b>{counted(all, 'remote image')} blocked</b>
        </summary>
        <ul>
          {hosts.map(([host, pictures]) => (
            <li key={host}>
              <bdi>{host}</bdi>: {count(pictures)}
            </li>
          ))}
        </ul>
      </details>
    </div>
  );
}

/** Maximum header fields to show. A header of one MiB can contain a hundred thousand. */
const MAX_FIELDS = 1_000;

function Headers({ fields, hops }: ContentOf<'headers'>) {
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

function Hops({ hops }: Pick<ContentOf<'headers'>, 'hops'>) {
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

/** Describes a hop's delay, which is negative if the clocks of two servers disagree. */
function delayText(ms: number): string {
  if (ms < 0) return `clock ${span(-ms)} behind`;
  return ms < 1_000 ? 'at once' : `after ${span(ms)}`;
}

/** An event in a message's history, or the moment that the page shows. */
interface HistoryStep {
  /** Milliseconds since the epoch; null if unknown. */
  readonly ms: number | null;
  readonly kind: 'fact' | 'ended' | 'here';
  readonly title: string;
  /** Sentences without a full stop. */
  readonly details: readonly string[];
  readonly place: Pick<HistoryLine, 'mailbox' | 'folder' | 'uid'> | null;
  readonly commit: number | null;
  /** When a deleted message was last seen, in milliseconds since the epoch; null if unknown. */
  readonly seen: number | null;
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
 * @param lastSeen when the message was last seen in folders that later lost it
 * @param received when the service received it, in milliseconds since the epoch; null if unknown
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
    const isSame = (end: LastSeen): boolean =>
      end.commit === commit && end.generation === line.generation && end.uid === uid;
    const isMove = event === 'ended' && line.detail?.reason === 'moved';
    const title = isMove ? 'Moved away' : change || (EVENTS[event] ?? event);
    steps.push(
      step(time === null ? null : Date.parse(time), {
        title: event === 'appeared' ? `${title}${stateText(now)}` : title,
        kind: event === 'ended' && !isMove ? 'ended' : 'fact',
        details: [
          ...(line.flags !== undefined && now.length > 0 ? [`flags: ${now.join(' ')}`] : []),
          ...(event === 'appeared' && Object.keys(line.detail ?? {}).length === 0
            ? []
            : eventText(event, line.detail)),
        ],
        place: { mailbox, folder, uid },
        commit,
        seen: event === 'ended' ? (lastSeen.find(isSame)?.seen ?? null) : null,
      }),
    );
  }
  if (asOf === null) return steps;
  const at = steps.findIndex(({ ms }) => ms !== null && ms > asOf);
  const marker = step(asOf, { title: 'You are looking at this moment', kind: 'here' });
  if (at < 0) return [...steps, marker];
  const later = steps.slice(at).map((one) => ({ ...one, isLater: true }));
  return [...steps.slice(0, at), marker, ...later];
}

function step(
  ms: number | null,
  facts: Pick<HistoryStep, 'title' | 'kind'> & Partial<HistoryStep>,
): HistoryStep {
  return { ms, details: [], place: null, commit: null, seen: null, isLater: false, ...facts };
}

function stateText(flags: readonly string[]): string {
  const read = flags.includes('\\Seen') ? 'read' : 'unread';
  return `, ${read}${flags.includes('\\Flagged') ? ' and starred' : ''}`;
}

const SET: Readonly<Record<string, readonly [set: string, unset: string]>> = {
  '\\Seen': ['read', 'unread again'],
  '\\Flagged': ['starred', 'star removed'],
  '\\Answered': ['answered', 'no longer answered'],
  '\\Draft': ['a draft', 'no draft any more'],
  '\\Deleted': ['marked for deletion', 'no longer marked for deletion'],
};

/** Describes a change of flags, such as `Read, and starred`; empty if only unknown flags changed. */
function flagsText(before: readonly string[], after: readonly string[]): string {
  const words = Object.entries(SET).flatMap(([flag, [set, unset]]) => {
    const [had, has] = [before.includes(flag), after.includes(flag)];
    return had === has ? [] : [has ? set : unset];
  });
  const text = words.length < 2 ? (words[0] ?? '') : words.join(', and ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function History({ lines, asOf, message }: ContentOf<'history'> & { message: MessageContent }) {
  const { date } = openedHit(message.conversation).line;
  const received = date === null ? null : Date.parse(date);
  const steps = historySteps(lines, message.lastSeen, received, asOf);
  return (
    <ol class="time-line history">
      {steps.map((step, i) => (
        <Step key={i} step={step} message={message} />
      ))}
    </ol>
  );
}

function Step({ step, message }: { step: HistoryStep; message: MessageContent }) {
  const { ms, kind, title, details, place, commit, seen, isLater } = step;
  return (
    <li
      class={isLater ? `${kind} later` : kind}
      aria-current={kind === 'here' ? 'true' : undefined}
    >
      <span class="at">
        {ms === null ? (
          'unknown'
        ) : commit === null ? (
          // The archive did not know of the message before its commit.
          <Moment ms={ms} />
        ) : (
          <a class="link" href={thenAddress(message, ms)} title="As it was at this moment">
            <Moment ms={ms} />
          </a>
        )}
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
  const then = withAsOf(place.query, wholeSecond(ms));
  return messageAddress({ ...place, query: then, after: undefined }, id, 'history');
}

interface SourceProps extends Pick<ContentOf<'source'>, 'window'> {
  readonly message: MessageContent;
}

function Source({ message, window }: SourceProps) {
  if (window === null) return <p class="empty">The source cannot be shown.</p>;
  const { from, length, size } = window;
  const address = messageAddress(message.place, message.id, 'source');
  const part = (at: number): string => `${address}&from=${at}`;
  return (
    <>
      <Find message={message} find={window.find} />
      {length === 0 && <p class="empty">The source has no such part.</p>}
      <pre class="source">
        {markedParts(window.text, window.find?.matches ?? [], window.current)}
      </pre>
      {size > length && (
        <PageNav
          label="Parts of the source"
          back={[[from > 0 ? part(Math.max(0, from - WINDOW_BYTES)) : null, 'Earlier part']]}
          forward={[[from + length < size ? part(from + WINDOW_BYTES) : null, 'Later part']]}
        >
          <span class="spacer" />
          <span>
            bytes {count(from)} to {count(from + length)} of {count(size)}
          </span>
        </PageNav>
      )}
    </>
  );
}

type FindProps = Pick<SourceProps, 'message'> & Pick<NonNullable<SourceProps['window']>, 'find'>;

function Find({ message: { place, id }, find }: FindProps) {
  const { page, query, sort, after } = place;
  const step = (hit: number | null | undefined, label: string) => {
    if (hit == null) return null;
    const parameters = new URLSearchParams({ find: find?.text ?? '', hit: String(hit) });
    return (
      <a class="btn" href={`${messageAddress(place, id, 'source')}&${parameters}`}>
        {label}
      </a>
    );
  };
  const m = page === 'mail' ? id.slice(0, 16) : undefined;
  return (
    <div class="find">
      <form action={page === 'mail' ? '/mail' : `/m/${id}`} class="find-form">
        {Object.entries({ q: query, sort, after, m, view: 'source' }).map(
          ([name, value]) => value && <input key={name} type="hidden" name={name} value={value} />,
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
      {step(find?.previous, 'Previous')}
      {step(find?.next, 'Next')}
    </div>
  );
}

const MAX_FILES = 50;

/** The column next to a full-width message: its conversation, attachments, folders and related queries. */
function Rail({ message }: { message: MessageContent }) {
  const { Copy } = useParts();
  const { id, conversation, commit, near, place } = message;
  const { line } = openedHit(conversation);
  return (
    <aside class="rail" aria-label="About this message">
      {conversation.all.length > 1 && (
        <section>
          <h2>In this conversation</h2>
          <ol class="stops">
            {conversation.all.map((hit) => (
              <Stop key={hit.line.id} hit={hit} message={message} />
            ))}
          </ol>
        </section>
      )}
      <Files {...message} />
      <section>
        <h2>This message</h2>
        <dl>
          <dt>Places</dt>
          <dd>
            <PlaceList places={line.places} />
          </dd>
          <dt>Id</dt>
          <dd class="with-act">
            <span class="mono">
              {id.slice(0, 12)}…{id.slice(-4)}
            </span>
            <Copy text={id} label="Copy the id" icon="copy" isBrief />
          </dd>
          <dt>Size</dt>
          <dd>{counted(line.size, 'byte')}</dd>
          {line.firstSeen !== null && (
            <>
              <dt>Stored</dt>
              <dd>
                <Moment ms={Date.parse(line.firstSeen)} />
                {commit !== null && `, commit ${count(commit)}`}
              </dd>
            </>
          )}
          <dt>Verified</dt>
          <dd>{message.damage === null ? 'when it was opened' : 'damaged'}</dd>
        </dl>
      </section>
      {near.length > 0 && (
        <section>
          <h2>Near</h2>
          <ul>
            {near.map(({ label, query, found }) => (
              <li key={query}>
                <Link to={pageAddress('/mail', { q: query, sort: place.sort })}>
                  <bdi>{label}</bdi>
                </Link>
                , {!found.complete && 'more than '}
                {counted(found.count, 'message')}
              </li>
            ))}
          </ul>
        </section>
      )}
    </aside>
  );
}

function Stop({ hit: { line }, message }: { hit: SearchHit; message: MessageContent }) {
  const isOwn = line.id === message.id;
  return (
    <li class={line.endedAt === null ? undefined : 'ended'}>
      <a
        href={messageAddress(message.place, line.id, 'thread')}
        aria-current={isOwn ? 'true' : undefined}
      >
        <span class="dot" aria-hidden="true" />
        <span class="who">
          <bdi>{senderText(line.from)}</bdi>
          {line.endedAt !== null && ', deleted'}
        </span>
        <Received date={line.date} day />
      </a>
    </li>
  );
}

function Files({ conversation, id, place }: MessageContent) {
  const files = attachedFiles(conversation.all);
  if (files.length === 0) return null;
  return (
    <section>
      <div class="with-act">
        <h2>Attachments</h2>
        {files.length > 1 && !exceedsDownloadLimit(files) && (
          <a
            class="link"
            href={pageAddress(`/m/${id}/attachments/all.zip`, { q: asOfTermText(place.query) })}
            download
          >
            Save all {count(files.length)}
          </a>
        )}
      </div>
      {exceedsDownloadLimit(files) && (
        <p class="small">
          These are too many, or more than {bytes(MAX_TOGETHER)}, for one file: save each by itself.
        </p>
      )}
      <ul>
        {files.slice(-MAX_FILES).map((file) => (
          <li key={`${file.id} ${file.number}`}>
            <FileLink
              class="file"
              id={file.id}
              file={file}
              meta={
                <>
                  {bytes(file.size)}
                  {file.date !== null && (
                    <>
                      , <Moment ms={Date.parse(file.date)} day />
                    </>
                  )}
                </>
              }
            >
              <Icon name="save" />
            </FileLink>
          </li>
        ))}
      </ul>
      {files.length > MAX_FILES && (
        <p class="small">and {count(files.length - MAX_FILES)} earlier ones</p>
      )}
    </section>
  );
}

export function MessagePage({ page }: { page: PageOf<'message'> }) {
  return (
    <Shell frame={page.frame} here="message">
      <div class="with-rail">
        <section class="read alone" id="message" tabindex={-1} aria-label="Message">
          <MessagePane {...page.message} />
        </section>
        <Rail message={page.message} />
      </div>
    </Shell>
  );
}

export function NoMessagePage({ page }: { page: PageOf<'no-message'> }) {
  return (
    <Shell frame={page.frame} here="message">
      <section class="page" id="message" tabindex={-1}>
        <About found={page.found} />
      </section>
    </Shell>
  );
}

const COMMANDS: Readonly<Record<string, string>> = {
  forgotten: 'mailkeep forget',
  pruned: 'mailkeep prune',
};

function About({ found }: { found: NoMessage }): VNode {
  switch (found.kind) {
    case 'none':
      return <h1>The archive has no message with this id</h1>;
    case 'not-then':
      return (
        <>
          <h1>Not known then</h1>
          <p>The archive did not have this message at the moment that the query names.</p>
        </>
      );
    case 'several':
      return (
        <>
          <h1>Several messages have an id that begins so</h1>
          <ul class="plain-list">
            {found.links.map(({ id, subject }) => (
              <li key={id}>
                <Link to={`/m/${id}`}>
                  <span class="mono">{id.slice(0, 16)}</span> <bdi>{subject}</bdi>
                </Link>
              </li>
            ))}
          </ul>
        </>
      );
    case 'purged':
      return (
        <>
          <h1>This message was removed from the archive</h1>
          <p>
            <span class="mono id">{found.id}</span>
          </p>
          <p>
            Removed {found.time !== null && <Moment ms={Date.parse(found.time)} />} by{' '}
            <code>{COMMANDS[found.reason] ?? found.reason}</code>. Nothing else is left of it.
          </p>
        </>
      );
  }
}
