import type { VNode } from 'preact';
import { FILE_GROUPS, type FileGroup } from '../../catalog/files/group-names.ts';
import { count, counted } from '../../wording/amounts.ts';
import { MOST_FILES } from '../reading/attached-files.ts';
import type { FilesList, FileTile } from '../reading/files-list.ts';
import { asOfWord, pageAddress, toggled } from '../reading/query-text.ts';
import { Detail } from './file-detail.tsx';
import { Tile } from './file-tile.tsx';
import { GROUP_NAMES, monthLabel, monthText } from './file-words.ts';
import { Icon } from './icons.tsx';
import type { PageOf } from './page.ts';
import { Problem } from './problem.tsx';
import { Shell } from './shell.tsx';

type FilesPageData = PageOf<'files'>;

/** The attachments of what a query finds: tiles by month, and one of them at the right. */
export function FilesPage({ page }: { readonly page: FilesPageData }): VNode {
  const { frame, list, chosen, detail, pending } = page;
  const { query, problem } = frame;
  return (
    <Shell frame={frame} here="files">
      <Filters page={page} />
      <div class="gallery">
        <section class="tiles-of" aria-label="Attachments" tabindex={0}>
          <Head page={page} />
          {problem !== null && <Problem query={query} problem={problem} path="/files" />}
          {pending > 0 && (
            <p class="strip warn">
              <Icon name="alert" />
              <span>
                <strong>
                  The attachments of {counted(pending, 'message')} are not listed yet.
                </strong>{' '}
                The next sync lists them.
              </span>
            </p>
          )}
          {list !== null && <Tiles page={page} list={list} />}
        </section>
        {list !== null && <Months page={page} months={list.months} />}
        <aside class="det" aria-label="Attachment" tabindex={0}>
          {chosen === null ? (
            <p class="empty">Choose an attachment to see it here.</p>
          ) : (
            <>
              <a class="back" href={addressOf(page, {})}>
                <Icon name="back" />
                Back to the attachments
              </a>
              {detail === null ? (
                <Gone hash={chosen} />
              ) : (
                <Detail file={detail} query={query} address={addressOf(page, { a: chosen })} />
              )}
            </>
          )}
        </aside>
      </div>
    </Shell>
  );
}

/** The address of this page with another choice; what is not named stays, but the chosen attachment. */
function addressOf(
  { frame, group, inlinePictures, after }: FilesPageData,
  change: {
    readonly group?: FileGroup | null;
    readonly inlinePictures?: boolean;
    readonly after?: string | undefined;
    readonly a?: string;
  },
  path = '/files',
): string {
  const chosen = { group, inlinePictures, after, ...change };
  return pageAddress(path, {
    q: frame.query,
    type: chosen.group ?? undefined,
    inline: chosen.inlinePictures ? '1' : undefined,
    after: chosen.after,
    a: chosen.a,
  });
}

/** How many attachments are listed. The one that is chosen is the heading of the page. */
function Head({ page: { list, group, chosen } }: { readonly page: FilesPageData }): VNode {
  const number = list === null ? null : listed(list, group);
  const text =
    number === null ? (
      'Attachments'
    ) : (
      <>
        {list?.sums.complete === false && 'more than '}
        <b>{count(number)}</b> {number === 1 ? 'attachment' : 'attachments'}
      </>
    );
  return chosen === null ? <h1 class="number">{text}</h1> : <p class="number">{text}</p>;
}

/** Contents of a group, or of all. */
function listed({ sums: { groups } }: FilesList, group: FileGroup | null): number {
  return group === null ? FILE_GROUPS.reduce((sum, one) => sum + groups[one], 0) : groups[group];
}

/** Groups with their numbers, as links to them. */
function Filters({ page }: { readonly page: FilesPageData }): VNode {
  const { frame, list, group, inlinePictures, messages } = page;
  const { query } = frame;
  const more = list?.sums.complete === false ? 'more than ' : '';
  const number = list === null ? 0 : listed(list, group);
  const chip = (name: string, to: FileGroup | null, files: number): VNode => (
    <a
      key={name}
      class={group === to ? 'chip on' : 'chip'}
      href={addressOf(page, { group: to, after: undefined })}
      aria-current={group === to ? 'true' : undefined}
    >
      {name}{' '}
      <b>
        {more}
        {count(files)}
      </b>
    </a>
  );
  return (
    <nav class="chips" aria-label="Filters">
      {asOfWord(query) !== '' && (
        <a class="chip past" href={pageAddress('/files', { q: toggled(query, asOfWord(query)) })}>
          Back to now
          <Icon name="cross" />
        </a>
      )}
      {list !== null && (
        <>
          {chip('All', null, listed(list, null))}
          {FILE_GROUPS.filter((one) => listed(list, one) > 0 || one === group).map((one) =>
            chip(GROUP_NAMES[one], one, listed(list, one)),
          )}
          <span class="sep" />
        </>
      )}
      <a
        class={inlinePictures ? 'chip on' : 'chip'}
        href={addressOf(page, { inlinePictures: !inlinePictures, after: undefined })}
        title="Mostly logos of signatures"
      >
        Pictures in texts
        {inlinePictures && (
          <>
            <Icon name="cross" />
            <span class="vh">(leave out)</span>
          </>
        )}
      </a>
      <span class="spacer" />
      {messages !== null && (
        <>
          <a class="chip" href={pageAddress('/mail', { q: messages.query })}>
            <Icon name="mail" />
            {messages.isOfGroup ? 'Messages' : 'Messages of all types'}{' '}
            <b>
              {!messages.found.complete && 'more than '}
              {count(messages.found.count)}
            </b>
          </a>
          <a class="chip" href={pageAddress('/export', { q: messages.query })} data-act="export">
            <Icon name="save" />
            {messages.isOfGroup ? 'Export messages' : 'Export all types'}
          </a>
        </>
      )}
      {more === '' && number > 0 && number <= MOST_FILES && (
        <a class="chip" href={addressOf(page, {}, '/files/all.zip')}>
          <Icon name="save" />
          Save all <b>{count(number)}</b>
        </a>
      )}
    </nav>
  );
}

function Tiles({ page, list }: { readonly page: FilesPageData; readonly list: FilesList }): VNode {
  const { after, chosen, frame } = page;
  const { tiles, next, months, sums } = list;
  const q = asOfWord(frame.query);
  const numbers = new Map(months.map(({ key, count: number }) => [key, number]));
  // Where counting was given up, nothing is known of the month that it had reached.
  if (!sums.complete) numbers.delete(months.at(-1)?.key ?? '');
  if (tiles.length === 0 && next === null && after === undefined)
    return (
      <div class="nothing">
        <Icon name="clip" />
        <h2>No attachments</h2>
        {frame.query.trim() !== '' && (
          <p>
            <a class="link" href="/files">
              All attachments
            </a>
          </p>
        )}
      </div>
    );
  return (
    <>
      {byMonth(tiles).map(({ key, files }) => {
        const number = numbers.get(key);
        return (
          <section key={key} aria-label={monthText(key)}>
            <h2>
              <b>{monthText(key)}</b>
              {number !== undefined && ` ${count(number)}`}
            </h2>
            <ul class="tiles">
              {files.map((tile) => (
                <Tile
                  key={tile.hash}
                  tile={tile}
                  q={q}
                  chosen={chosen === tile.hash}
                  href={addressOf(page, { a: tile.hash })}
                />
              ))}
            </ul>
          </section>
        );
      })}
      {(after !== undefined || next !== null) && (
        <nav class="pages" aria-label="Pages">
          {after !== undefined && (
            <a class="btn" href={addressOf(page, { after: undefined })}>
              To the newest
            </a>
          )}
          <span class="spacer" />
          {next !== null && (
            <a class="btn" rel="next" href={addressOf(page, { after: next })}>
              Older
            </a>
          )}
        </nav>
      )}
    </>
  );
}

function byMonth(tiles: readonly FileTile[]): { readonly key: string; files: FileTile[] }[] {
  const months: { readonly key: string; files: FileTile[] }[] = [];
  for (const tile of tiles) {
    const last = months.at(-1);
    if (last?.key === tile.month) last.files.push(tile);
    else months.push({ key: tile.month, files: [tile] });
  }
  return months;
}

/** The months that have attachments, each with a bar as long as it has many. */
function Months({
  page,
  months,
}: { readonly page: FilesPageData } & Pick<FilesList, 'months'>): VNode {
  const most = Math.max(1, ...months.map(({ count: number }) => number));
  return (
    <nav class="months" aria-label="Months">
      {months.map(({ key, after, count: number }, i) => (
        <a
          key={key}
          href={addressOf(page, { after: i === 0 ? undefined : after })}
          title={`${monthText(key)}: ${counted(number, 'attachment')}`}
        >
          <span class="vh">{monthText(key)}</span>
          <span aria-hidden="true">
            {monthLabel(key, months[i - 1]?.key.slice(0, 4) !== key.slice(0, 4))}
          </span>
          <svg viewBox="0 0 26 10" preserveAspectRatio="none" aria-hidden="true">
            <path d={`M0 0h${Math.max(1, (26 * number) / most).toFixed(1)}v10H0z`} />
          </svg>
        </a>
      ))}
    </nav>
  );
}

function Gone({ hash }: { readonly hash: string }): VNode {
  return (
    <>
      <h1>No message has this attachment</h1>
      <p class="muted">
        <span class="mono">{hash}</span>: it was forgotten with its messages, the archive did not
        have it at the moment that the query names, or it never had it.
      </p>
    </>
  );
}
