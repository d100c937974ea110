import type { FileGroup } from '../../catalog/file-group-names.ts';
import type { SearchHit } from '../../catalog/search.ts';
import { plainLine, shellWord } from '../../core/terminal-safe.ts';
import { bytes, count, counted, monthName, shortMonth } from '../../core/text.ts';
import type { RemotePictures } from '../../mail/safe-page.ts';
import type { NoText } from '../message-view.ts';
import { asOfWord, filterText, pageAddress } from '../query-text.ts';
import { Icon, Link } from './icons.tsx';
import { Marked } from './mail-list.tsx';
import type { Damage, MessagePlace, OpenMessage, TextPiece } from './message-props.ts';
import { Moment } from './time-band.tsx';

export const GROUP_NAMES: Readonly<Record<FileGroup, string>> = {
  pdf: 'PDF',
  pictures: 'Pictures',
  documents: 'Documents',
  tables: 'Tables',
  archives: 'Archives',
  other: 'Other',
};

export const NO_TEXT: Readonly<Record<NoText, string>> = {
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

/** Types whose subtype is the usual file extension. */
const CALLED_SO = /\/(pdf|zip|jpeg|png|gif|webp|bmp|csv|html)$/;

/** Returns a short label for the kind of an attachment; empty if neither type nor name reveals it. */
export function typeLabel(type: string, filename: string | null): string {
  if (type === 'message/rfc822') return 'EML';
  if (type === 'text/calendar') return 'ICS';
  return CALLED_SO.exec(type)?.[1]?.toUpperCase() ?? extension(filename);
}

/** Returns a file name in its stored order of letters: see `plainLine`. */
export function shownName(filename: string | null): string {
  return plainLine(filename ?? '') || '(no name)';
}

/** Returns the extension of a file name in capitals; empty if it has none that is short and plain. */
export function extension(filename: string | null): string {
  const end =
    plainLine(filename ?? '')
      .split('.')
      .at(-1) ?? '';
  return /^[A-Za-z0-9]{1,5}$/.test(end) && end !== filename ? end.toUpperCase() : '';
}

/** Returns the name of a month, such as `November 2026` for `2026-11`. */
export function monthText(key: string): string {
  return `${monthName(monthOf(key))} ${key.slice(0, 4)}`;
}

/** Returns the short label of a month: `Nov`, and `’26` for the first of a year. */
export function monthLabel(key: string, isFirstOfYear: boolean): string {
  return isFirstOfYear ? `’${key.slice(2, 4)}` : shortMonth(monthOf(key));
}

function monthOf(key: string): number {
  return Number(key.slice(5));
}

/** The number of blocked remote pictures. There is no button to load them. */
export function Remote({ remote }: { remote: RemotePictures | null }) {
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

export function Attachments({
  id,
  facts,
  texts,
  notes,
  place,
}: OpenMessage & { place: MessagePlace }) {
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

/** Shown only if the bytes were read for this page and matched their hash. Unfolds to the message's places. */
export function Proof({
  open: { id, commit },
  hit,
}: {
  open: Pick<OpenMessage, 'id' | 'commit'>;
  hit: SearchHit;
}) {
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

export function folderQuery({
  mailbox,
  folder,
}: Pick<Places[number], 'mailbox' | 'folder'>): string {
  return `${filterText('mailbox', mailbox)} ${filterText('in', folder)}`;
}

/** Shown for a message whose bytes differ from the stored ones: the finding, what to do, and the catalog's data. */
export function Damaged({
  hit: { line },
  damage,
  dataDir,
}: {
  hit: SearchHit;
  damage: Damage | null;
  dataDir: string;
}) {
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

/** Maximum lines of a quote that is not folded. */
const SHORT_QUOTE = 3;

export function Text({ pieces, folded }: { pieces: readonly TextPiece[]; folded: boolean }) {
  return (
    <div class={folded ? 'text' : 'text plain-text'} dir="auto">
      {pieces.map(({ kind, lines, matches }, i) => {
        const text = <Marked text={lines.join('\n')} matches={matches} />;
        if (kind === 'quote' && folded && lines.length > SHORT_QUOTE)
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
