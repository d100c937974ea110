import type { VNode } from 'preact';
import type { SearchHit } from '../../catalog/search/hit.ts';
import { shellWord } from '../../mail/terminal-safe.ts';
import type { RemotePictures } from '../../mime/remote-pictures.ts';
import { bytes, count, counted } from '../../wording/amounts.ts';
import { asOfWord, filterText, pageAddress } from '../reading/query-text.ts';
import { extension, shownName } from './file-words.ts';
import { Icon } from './icons.tsx';
import { Marked } from './marked.tsx';
import type { Damage, MessagePlace, OpenMessage } from './message-props.ts';
import { Moment } from './moment.tsx';

/** How many pictures of other servers stay where they are. No button loads them. */
export function Remote({ remote }: { readonly remote: RemotePictures | null }): VNode | null {
  const hosts = Object.entries(remote ?? {});
  const all = hosts.reduce((sum, [, pictures]) => sum + pictures, 0);
  if (all === 0) return null;
  return (
    <div class="strip blocked">
      <Icon name="hidden" />
      <details>
        <summary>
          <b>{counted(all, 'picture')} on other servers</b> {all === 1 ? 'was' : 'were'} not loaded,
          and never {all === 1 ? 'is' : 'are'}.
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

/** The attachments as tiles, each a link that saves it. */
export function Attachments({
  id,
  facts,
  texts,
  notes,
  place,
}: OpenMessage & { readonly place: MessagePlace }): VNode | null {
  const attachments = facts?.attachments ?? [];
  if (attachments.length === 0) return null;
  return (
    <ul class="atts" aria-label="Attachments">
      {attachments.map(({ number, filename, contentType, size, inline }) => {
        const text = texts.find((known) => known.number === number);
        const note = notes.find((known) => known.number === number);
        return (
          <li key={number} class="att-of">
            <a class="att" href={`/m/${id}/attachments/${number}`} download>
              <span class="ext" aria-hidden="true">
                {extension(filename)}
              </span>
              <span class="nm">
                <bdi>{shownName(filename)}</bdi>
              </span>
              <span class="meta">
                {bytes(size)} · <bdi>{contentType}</bdi>
                {inline && ' · in the text'}
                {text?.status === 'done' && ' · text searchable'}
                {text?.status === 'failed' && ` · not searchable (${text.reason ?? 'unreadable'})`}
                {text?.status === 'pending' && ' · not searchable yet'}
              </span>
            </a>
            {note?.hit != null && (
              <p class="hitline">
                <Marked text={note.hit.text} matches={note.hit.matches} />
              </p>
            )}
            {note !== undefined && note.messages.count > 1 && (
              <a
                class="also"
                href={pageAddress('/files', { q: asOfWord(place.query), a: note.hash })}
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

/** True each time: the bytes were read for this page, and their hash was compared. Unfolds to where the message is. */
export function Proof({
  open: { id, commit },
  hit,
}: {
  readonly open: Pick<OpenMessage, 'id' | 'commit'>;
  readonly hit: SearchHit;
}): VNode {
  const { firstSeen, places } = hit.line;
  return (
    <details class="proof">
      <summary>
        <Icon name="shield" />
        <span title="The message was read from the log for this page, and its SHA-256 is the one that it was stored under. A verification does this for the whole archive.">
          Checked when it was opened, every byte is as stored: SHA-256{' '}
          <span class="mono" title={id}>
            {id.slice(0, 8)}…{id.slice(-4)}
          </span>{' '}
          ·
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

/** Where a message is or was, each place a link to its folder. */
export function PlaceList({ places }: { readonly places: Places }): VNode {
  return (
    <ul>
      {places.map(({ mailbox, folder, uid, endedAt }) => (
        <li key={`${mailbox} ${folder} ${uid}`}>
          <a class="link" href={pageAddress('/mail', { q: folderQuery({ mailbox, folder }) })}>
            <bdi>
              {mailbox} / {folder}
            </bdi>
          </a>{' '}
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

/** Returns the query that finds what is in a folder. */
export function folderQuery({
  mailbox,
  folder,
}: Pick<Places[number], 'mailbox' | 'folder'>): string {
  return `${filterText('mailbox', mailbox)} ${filterText('in', folder)}`;
}

/** What is shown of a message whose bytes are not what was stored: the finding, what to do, and what the catalog knows. */
export function Damaged({
  hit: { line },
  damage,
  dataDir,
}: {
  readonly hit: SearchHit;
  readonly damage: Damage | null;
  readonly dataDir: string;
}): VNode {
  return (
    <div class="damaged">
      <div class="strip bad" role="alert">
        <Icon name="alert" />
        <div>
          <p>
            <strong>These bytes are not what was stored.</strong> <bdi>{damage?.message}</bdi>
          </p>
          <p class="mono">mailkeep verify --repair --data {shellWord(dataDir)}</p>
        </div>
      </div>
      {line.snippet !== '' && (
        <p class="text">
          <span class="small">How its text begins, from the search index:</span>
          {'\n'}
          <bdi>{line.snippet}</bdi>
        </p>
      )}
      {(line.attachments ?? []).length > 0 && (
        <p class="small">
          It had{' '}
          {(line.attachments ?? []).map(({ number, filename, size }) => (
            <span key={number}>
              {number > 1 && ', '}
              <bdi>{shownName(filename)}</bdi> ({bytes(size)})
            </span>
          ))}
          , which cannot be saved.
        </p>
      )}
    </div>
  );
}
