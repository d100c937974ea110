import { plainLine } from '../../core/terminal-safe.ts';
import { bytes, count, counted } from '../../core/text.ts';
import { FILE_GROUPS, type FileGroup } from '../../core/types.ts';
import type { FileDetail, FilesList, FileTile } from '../files.ts';
import { asOfTermText, pageAddress } from '../query-text.ts';
import {
  DamageStrip,
  displayName,
  GROUP_NAMES,
  monthLabel,
  monthText,
  NO_TEXT,
  ShortHash,
  typeLabel,
} from './conversation.tsx';
import { Icon, Link, MarkedText, Moment, PageNav, Strip, senderText } from './elements.tsx';
import { MAX_FILES } from './message-props.ts';
import { type PageOf, useParts } from './page.ts';
import { BackToNow, Problem } from './query-box.tsx';
import { Shell } from './shell.tsx';

type FilesPageData = PageOf<'files'>;

function Tile({ tile, page }: { tile: FileTile; page: FilesPageData }) {
  const { filename, type, size, from, date, endedAt, messages } = tile;
  return (
    <li>
      <a
        class={endedAt === null ? 'tile' : 'tile ended'}
        href={addressOf(page, { a: tile.hash })}
        aria-current={page.chosen === tile.hash ? 'true' : undefined}
      >
        <span class="sheet" aria-hidden="true">
          <Sheet tile={tile} q={asOfTermText(page.frame.query)} />
          <span class="ty">{typeLabel(type, filename)}</span>
        </span>
        <span class="nm">
          <bdi>{displayName(filename)}</bdi>
        </span>
        <span class="meta">
          <bdi>{senderText(from)}</bdi>
        </span>
        <span class="meta when">
          {bytes(size)}
          {date !== null && (
            <>
              {' · '}
              <Moment ms={date} day />
            </>
          )}
          {endedAt !== null && ', deleted'}
          {messages.count > 1 && (
            <>
              {' · '}
              <span aria-hidden="true">×{count(messages.count)}</span>
              <span class="vh">in {counted(messages.count, 'message')}</span>
              {!messages.complete && ' or more'}
            </>
          )}
        </span>
      </a>
    </li>
  );
}

function Sheet({ tile: { sheet, hash }, q }: { tile: FileTile; q: string }) {
  switch (sheet.kind) {
    case 'picture':
      return <Picture hash={hash} q={q} />;
    case 'text':
      return (
        <span class="small-page" dir="auto">
          <MarkedText text={sheet.excerpt.text} matches={sheet.excerpt.matches} />
        </span>
      );
    case 'none':
      return (
        <span class="none">
          {sheet.why !== 'later' && ['No preview', <br key="br" />]}
          {NO_TEXT[sheet.why]}
        </span>
      );
  }
}

/** A picture over its substitute text. With an empty `alt`, browsers draw nothing for a missing picture. */
function Picture({ hash, q }: { hash: string; q: string }) {
  const search = q === '' ? '' : `?${new URLSearchParams({ q })}`;
  return (
    <>
      <span class="none">{NO_TEXT.picture}</span>
      <img src={`/files/${hash}/preview${search}`} alt="" loading="lazy" decoding="async" />
    </>
  );
}

interface OfFile {
  readonly file: FileDetail;
  readonly query: string;
}

function Detail({ file, query, address }: OfFile & { address: string }) {
  const { Copy } = useParts();
  const { filename, type, size, first, message, number, hash, isPicture } = file;
  const label = typeLabel(type, filename);
  return (
    <>
      <header>
        <h1>
          <bdi>{displayName(filename)}</bdi>
        </h1>
        <p class="muted">
          <bdi title={type}>{label === '' ? type : label}</bdi>, {bytes(size)}
          {first !== null && (
            <>
              . First seen <Moment ms={first} day />
            </>
          )}
        </p>
        <p class="acts">
          <a class="btn primary" href={`/m/${message}/attachments/${number}`} download>
            <Icon name="save" />
            Save
          </a>
          <a class="btn" href={messageLink(file, query)}>
            <Icon name="mail" />
            Open message
          </a>
          <Copy text={address} isAddress label="Copy link" icon="link" />
        </p>
      </header>
      <States {...file} />
      {isPicture ? (
        <p class="sheet large" aria-hidden="true">
          <Picture key={hash} hash={hash} q={asOfTermText(query)} />
        </p>
      ) : (
        <Text text={file.text} />
      )}
      <Messages file={file} query={query} />
      <Proof {...file} />
    </>
  );
}

function States({ endedAt, read, isCutOff, isFound }: FileDetail) {
  return (
    <>
      {!isFound && (
        <Strip icon="search">The query finds no message that has this attachment.</Strip>
      )}
      {endedAt !== null && (
        <Strip kind="ended" icon="past">
          The service deleted this message on <Moment ms={endedAt} />. The attachment is kept here.
        </Strip>
      )}
      {isCutOff && (
        <Strip kind="warn" icon="alert">
          The message ends before this attachment does: the rest of it never arrived.
        </Strip>
      )}
      {read.state === 'damaged' && <DamageStrip message={read.message} />}
    </>
  );
}

function Text({ text }: Pick<FileDetail, 'text'>) {
  if ('why' in text)
    return (
      <section>
        <h2>Its text</h2>
        <p class="muted">
          No preview: {NO_TEXT[text.why]}. Its name is searchable, its text is not
          {text.why !== 'damaged' && '; the file is kept whole'}.
        </p>
      </section>
    );
  const { parts, hits, complete, truncated } = text;
  const shown = parts.reduce((sum, { matches }) => sum + matches.length, 0);
  const last = parts.at(-1);
  return (
    <section>
      <h2>
        Its text
        {hits > 0 &&
          `, ${shown < hits ? `${count(shown)} of ` : ''}${complete ? '' : 'more than '}${counted(hits, 'hit')}`}
      </h2>
      <div class="extract" dir="auto" tabindex={0}>
        {parts.map((part, i) => (
          <p key={i}>
            {part.before && '… '}
            <MarkedText text={part.text} matches={part.matches} />
            {part.after && ' …'}
          </p>
        ))}
      </div>
      {(truncated || (hits === 0 && last?.after === true)) && (
        <p class="small">The file has more text than is shown here.</p>
      )}
    </section>
  );
}

function Messages({ file: { holders, messages }, query }: OfFile) {
  return (
    <section>
      <h2>
        In {!messages.complete && 'more than '}
        {counted(messages.count, 'message')}, stored once
      </h2>
      <ul class="holders">
        {holders.map(({ id, number, from, date, subject, endedAt }) => (
          <li key={`${id} ${number}`} class={endedAt === null ? undefined : 'ended'}>
            <a href={pageAddress(`/m/${id}`, { q: query })}>
              <span class="who">
                <bdi>{senderText(from)}</bdi>
              </span>
              {date !== null && <Moment ms={date} />}
              <span class="subj">
                <bdi>{plainLine(subject ?? '(no subject)')}</bdi>
                {endedAt !== null && (
                  <span class="tag ended">
                    found gone <Moment ms={endedAt} day />
                  </span>
                )}
              </span>
            </a>
          </li>
        ))}
      </ul>
      {messages.count > holders.length && (
        <p class="small">Only the newest {count(holders.length)} are listed.</p>
      )}
    </section>
  );
}

function Proof({ hash, read, isCutOff }: FileDetail) {
  const sha256 = (
    <>
      SHA-256 <ShortHash hash={hash} />
    </>
  );
  return (
    <footer class="proof">
      {read.state === 'whole' ? (
        <>
          <Icon name="shield" />
          <span>Checked when it was opened, every byte is as stored: {sha256}</span>
        </>
      ) : (
        <span>
          {isCutOff ? 'Without a SHA-256 of its own' : sha256}
          {NOT_READ[read.state]}
        </span>
      )}
    </footer>
  );
}

const NOT_READ = {
  large: ': too large to be read back for this page; saving it reads it back',
  unreadable: ': the message cannot be parsed to its end',
  other: ': not compared',
  purged: ': purged',
  damaged: ': damaged',
} as const;

function messageLink({ message, isFound }: FileDetail, query: string): string {
  return isFound
    ? pageAddress('/mail', { q: query, m: message.slice(0, 16) })
    : pageAddress(`/m/${message}`, { q: asOfTermText(query) });
}

export function FilesPage({ page }: { page: FilesPageData }) {
  const { frame, list, chosen, detail, pending } = page;
  const { query, problem } = frame;
  return (
    <Shell frame={frame} here="files">
      <Filters page={page} />
      <div class="gallery">
        <section class="tiles-of" aria-label="Attachments" tabindex={0}>
          <Head {...page} />
          {problem !== null && <Problem query={query} problem={problem} path="/files" />}
          {pending > 0 && (
            <Strip kind="warn" icon="alert">
              <strong>The attachments of {counted(pending, 'message')} are not listed yet.</strong>{' '}
              The next sync lists them.
            </Strip>
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
                <>
                  <h1>No message has this attachment</h1>
                  <p class="muted">
                    <span class="mono">{chosen}</span>: it was forgotten with its messages, the
                    archive did not have it at the moment that the query names, or it never had it.
                  </p>
                </>
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

type AddressParts = Partial<Pick<FilesPageData, 'group' | 'inlinePictures' | 'after'>>;

/** Returns the address of this page with changed parameters, and without the chosen attachment. */
function addressOf(
  { frame, ...page }: FilesPageData,
  change: AddressParts & { readonly a?: string },
  path = '/files',
): string {
  const { group, inlinePictures, after, a } = { ...page, a: undefined, ...change };
  return pageAddress(path, {
    q: frame.query,
    type: group ?? undefined,
    inline: inlinePictures ? '1' : undefined,
    after,
    a,
  });
}

function Head({ list, group, chosen }: FilesPageData) {
  const number = list === null ? 0 : countListed(list, group);
  const text =
    list === null ? (
      'Attachments'
    ) : (
      <>
        {!list.sums.complete && 'more than '}
        <b>{count(number)}</b> {number === 1 ? 'attachment' : 'attachments'}
      </>
    );
  return chosen === null ? <h1 class="number">{text}</h1> : <p class="number">{text}</p>;
}

function countListed({ sums: { groups } }: FilesList, group: FileGroup | null): number {
  return group === null ? FILE_GROUPS.reduce((sum, one) => sum + groups[one], 0) : groups[group];
}

function Filters({ page }: { page: FilesPageData }) {
  const { frame, list, group, inlinePictures, messages } = page;
  const { query } = frame;
  const more = list?.sums.complete === false ? 'more than ' : '';
  const number = list === null ? 0 : countListed(list, group);
  const chip = (name: string, to: FileGroup | null, files: number) => (
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
      <BackToNow query={query} path="/files" />
      {list !== null && (
        <>
          {chip('All', null, countListed(list, null))}
          {FILE_GROUPS.filter((one) => countListed(list, one) > 0 || one === group).map((one) =>
            chip(GROUP_NAMES[one], one, countListed(list, one)),
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
      {more === '' && number > 0 && number <= MAX_FILES && (
        <a class="chip" href={addressOf(page, {}, '/files/all.zip')}>
          <Icon name="save" />
          Save all <b>{count(number)}</b>
        </a>
      )}
    </nav>
  );
}

function Tiles({ page, list }: { page: FilesPageData; list: FilesList }) {
  const { after, frame } = page;
  const { tiles, next, months, sums } = list;
  const numbers = new Map(months.map(({ key, count: number }) => [key, number]));
  // The last month is incomplete if counting hit its time limit.
  if (!sums.complete) numbers.delete(months.at(-1)?.key ?? '');
  if (tiles.length === 0 && next === null && after === undefined)
    return (
      <div class="nothing">
        <Icon name="clip" />
        <h2>No attachments</h2>
        {frame.query.trim() !== '' && (
          <p>
            <Link to="/files">All attachments</Link>
          </p>
        )}
      </div>
    );
  return (
    <>
      {[...Map.groupBy(tiles, ({ month }) => month)].map(([key, files]) => {
        const number = numbers.get(key);
        return (
          <section key={key} aria-label={monthText(key)}>
            <h2>
              <b>{monthText(key)}</b>
              {number !== undefined && ` ${count(number)}`}
            </h2>
            <ul class="tiles">
              {files.map((tile) => (
                <Tile key={tile.hash} tile={tile} page={page} />
              ))}
            </ul>
          </section>
        );
      })}
      {(after !== undefined || next !== null) && (
        <PageNav
          back={[
            [after === undefined ? null : addressOf(page, { after: undefined }), 'To the newest'],
          ]}
          forward={[[next === null ? null : addressOf(page, { after: next }), 'Older', 'next']]}
        />
      )}
    </>
  );
}

function Months({ page, months }: { page: FilesPageData } & Pick<FilesList, 'months'>) {
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
