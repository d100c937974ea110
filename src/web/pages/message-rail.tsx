import type { VNode } from 'preact';
import type { SearchHit } from '../../catalog/search/hit.ts';
import { bytes, count, counted } from '../../wording/amounts.ts';
import { attachedFiles, isTooMuch, MOST_TOGETHER } from '../reading/attached-files.ts';
import { asOfWord, pageAddress } from '../reading/query-text.ts';
import { extension, shownName } from './file-words.ts';
import { Icon } from './icons.tsx';
import { senderText } from './mail-row.tsx';
import { PlaceList } from './message-parts.tsx';
import { type MessageContent, messageAddress, ownHit } from './message-props.ts';
import { Moment, Received } from './moment.tsx';
import { useParts } from './parts.ts';

/** Attachments that the rail lists. */
const MOST_FILES = 50;

/** What stands next to a message over the whole width: its conversation, attachments, places, and what is near. */
export function Rail({ message }: { readonly message: MessageContent }): VNode {
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
                <a
                  class="link"
                  href={pageAddress('/mail', {
                    q: query,
                    sort: place.sort,
                  })}
                >
                  <bdi>{label}</bdi>
                </a>
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

function Stop({ hit: { line }, message }: StopProps): VNode {
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

function Files({ message }: { readonly message: MessageContent }): VNode | null {
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
          These are too many, or more than {bytes(MOST_TOGETHER)}, for one file: save each by
          itself.
        </p>
      )}
      <ul>
        {files.slice(-MOST_FILES).map(({ id, number, filename, size, date }) => (
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
      {files.length > MOST_FILES && (
        <p class="small">and {count(files.length - MOST_FILES)} earlier ones</p>
      )}
    </section>
  );
}
