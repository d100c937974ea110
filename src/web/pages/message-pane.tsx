import type { VNode } from 'preact';
import type { SearchHit } from '../../catalog/search.ts';
import { plainLine } from '../../core/terminal-safe.ts';
import { bytes, count, counted } from '../../core/text.ts';
import { asOfWord, pageAddress } from '../query-text.ts';
import { conversationText, Ended } from './conversation.tsx';
import { Icon, Link, Strip } from './icons.tsx';
import { senderText } from './mail-list.tsx';
import {
  Damaged,
  extension,
  folderQuery,
  PlaceList,
  Proof,
  Remote,
  shownName,
  Text,
} from './message-parts.tsx';
import {
  attachedFiles,
  FRAME_SANDBOX,
  isTooMuch,
  listAddress,
  MAX_OF_THREAD,
  MAX_TOGETHER,
  type MessageContent,
  messageAddress,
  type NoMessage,
  ownHit,
  VIEWS,
  type View,
} from './message-props.ts';
import type { PageOf } from './page.ts';
import { useParts } from './parts.ts';
import { Shell } from './shell.tsx';
import { Moment, Received } from './time-band.tsx';

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
  const { Copy } = useParts();
  const { line } = ownHit(conversation);
  const address = messageAddress(place, id, content.view);
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
          <Who {...props} />
          <Places {...props} />
        </div>
        <nav class="tabs" aria-label="Views of the message">
          {VIEWS.map((view) => (
            <a
              key={view}
              href={messageAddress(place, id, view)}
              aria-current={content.view === view ? 'page' : undefined}
            >
              {TABS[view]}
            </a>
          ))}
          <span class="spacer" />
          <Copy text={address} isAddress label="Copy link" icon="link" />
          <a class="btn quiet" href={`/m/${id}/source`} download>
            <Icon name="save" />
            .eml
          </a>
        </nav>
      </header>
      <section class={`rbody view-${content.view}`} aria-label={TABS[content.view]} tabindex={0}>
        {content.view !== 'thread' && <Ended line={line} open={props} />}
        <Content {...props} />
      </section>
    </>
  );
}

/** People and time span of the conversation; for a single message, its sender and time. */
function Who({ conversation: { all }, conversation }: MessageContent) {
  const { line } = ownHit(conversation);
  if (all.length > 1) return <span>{conversationText(all, all.length === MAX_OF_THREAD)}</span>;
  return (
    <span>
      <bdi>{senderText(line.from)}</bdi>, <Received date={line.date} />
    </span>
  );
}

function Places({ conversation }: MessageContent) {
  const { line } = ownHit(conversation);
  const [first, ...more] = line.places;
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
      <span class="faint">{bytes(line.size)}</span>
    </>
  );
}

function Content(props: MessageContent): VNode {
  const { id, content, facts, damage, conversation } = props;
  const { Conversation, Views } = useParts();
  const hit = ownHit(conversation);
  if (content.view === 'thread')
    return <Conversation message={props} key={`${id} ${props.place.query}`} />;
  if (content.view === 'history') return <Views {...props} />;
  if (facts === null) return <Damaged hit={hit} damage={damage} dataDir={props.dataDir} />;
  const proof = <Proof open={props} hit={hit} />;
  switch (content.view) {
    case 'headers':
    case 'source':
      return (
        <>
          <Views {...props} />
          {proof}
        </>
      );
    case 'html':
      return (
        <>
          <Remote remote={content.remote} />
          {!facts.hasHtml || !content.isReadable ? (
            <p class="empty">
              {!facts.hasHtml
                ? 'This message has no HTML.'
                : 'The HTML of this message could not be read. The source has it.'}
            </p>
          ) : (
            <iframe
              class="html"
              title="The HTML of the message"
              src={`/m/${id}/html`}
              sandbox={FRAME_SANDBOX}
              referrerpolicy="no-referrer"
            />
          )}
          {proof}
        </>
      );
    case 'plain':
      return (
        <>
          {facts.onlyHtml && (
            <Strip icon="draft">
              This message has no plain text. Below is the text of its HTML.
            </Strip>
          )}
          <Text pieces={props.text} folded={false} />
          {proof}
        </>
      );
  }
}

const MAX_FILES = 50;

/** The rail next to a full-width message: its conversation, attachments, places, and related queries. */
function Rail({ message }: { message: MessageContent }) {
  const { Copy } = useParts();
  const { id, conversation, commit, near, place } = message;
  const { line } = ownHit(conversation);
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
      <Files message={message} />
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
                <Link
                  to={pageAddress('/mail', {
                    q: query,
                    sort: place.sort,
                  })}
                >
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

interface StopProps {
  readonly hit: SearchHit;
  readonly message: MessageContent;
}

function Stop({ hit: { line }, message }: StopProps) {
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

function Files({ message }: { message: MessageContent }) {
  const { conversation, id, place } = message;
  const files = attachedFiles(conversation.all);
  if (files.length === 0) return null;
  return (
    <section>
      <div class="with-act">
        <h2>Attachments</h2>
        {files.length > 1 && !isTooMuch(files) && (
          <a
            class="link"
            href={pageAddress(`/m/${id}/attachments/all.zip`, { q: asOfWord(place.query) })}
            download
          >
            Save all {count(files.length)}
          </a>
        )}
      </div>
      {isTooMuch(files) && (
        <p class="small">
          These are too many, or more than {bytes(MAX_TOGETHER)}, for one file: save each by itself.
        </p>
      )}
      <ul>
        {files.slice(-MAX_FILES).map(({ id, number, filename, size, date }) => (
          <li key={`${id} ${number}`}>
            <a class="file" href={`/m/${id}/attachments/${number}`} download>
              <span class="ext" aria-hidden="true">
                {extension(filename)}
              </span>
              <span class="nm">
                <bdi>{shownName(filename)}</bdi>
              </span>
              <span class="meta">
                {bytes(size)}
                {date !== null && (
                  <>
                    , <Moment ms={Date.parse(date)} day />
                  </>
                )}
              </span>
              <Icon name="save" />
            </a>
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
