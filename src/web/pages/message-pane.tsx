import type { VNode } from 'preact';
import { plainLine } from '../../mail/terminal-safe.ts';
import { bytes, counted } from '../../wording/amounts.ts';
import { pageAddress } from '../reading/query-text.ts';
import { Ended } from './conversation.tsx';
import { conversationText } from './conversation-head.ts';
import { Icon } from './icons.tsx';
import { senderText } from './mail-row.tsx';
import { Damaged, folderQuery, Proof, Remote } from './message-parts.tsx';
import {
  FRAME_SANDBOX,
  listAddress,
  type MessageContent,
  MOST_OF_THREAD,
  messageAddress,
  ownHit,
  VIEWS,
  type View,
} from './message-props.ts';
import { Text } from './message-text.tsx';
import { Received } from './moment.tsx';
import { useParts } from './parts.ts';

const TABS: Readonly<Record<View, string>> = {
  thread: 'Conversation',
  plain: 'Plain',
  html: 'HTML',
  headers: 'Headers',
  source: 'Source',
  history: 'History',
};

/** A message with its head, in one of six views. */
export function MessagePane(props: MessageContent): VNode {
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

/** The people and the span of the conversation; of a message that stands alone, its sender and time. */
function Who({ conversation: { all }, conversation }: MessageContent): VNode {
  const { line } = ownHit(conversation);
  if (all.length > 1) return <span>{conversationText(all, all.length === MOST_OF_THREAD)}</span>;
  return (
    <span>
      <bdi>{senderText(line.from)}</bdi>, <Received date={line.date} />
    </span>
  );
}

function Places({ conversation }: MessageContent): VNode {
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
            <p class="strip">
              <Icon name="draft" />
              <span>This message has no plain text. Below is the text of its HTML.</span>
            </p>
          )}
          <Text pieces={props.text} folded={false} />
          {proof}
        </>
      );
  }
}
