import type { VNode } from 'preact';
import { plainLine } from '../../mail/terminal-safe.ts';
import { bytes, count, counted } from '../../wording/amounts.ts';
import type { FileDetail } from '../reading/files-list.ts';
import { asOfWord, pageAddress } from '../reading/query-text.ts';
import { Picture } from './file-tile.tsx';
import { NO_TEXT, shownName, typeLabel } from './file-words.ts';
import { Icon } from './icons.tsx';
import { senderText } from './mail-row.tsx';
import { Marked } from './marked.tsx';
import { Moment } from './moment.tsx';
import { useParts } from './parts.ts';

interface OfFile {
  readonly file: FileDetail;
  readonly query: string;
  /** Of the page that shows it. */
  readonly address: string;
}

/** One content: what it is, its text with what was found, and the messages that have it. */
export function Detail({ file, query, address }: OfFile): VNode {
  const { Copy } = useParts();
  const { filename, type, size, first, message, number, hash, isPicture } = file;
  const label = typeLabel(type, filename);
  return (
    <>
      <header>
        <h1>
          <bdi>{shownName(filename)}</bdi>
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
      <States file={file} />
      {isPicture && (
        <p class="sheet large" aria-hidden="true">
          <Picture key={hash} hash={hash} q={asOfWord(query)} />
        </p>
      )}
      {!isPicture && <Text file={file} />}
      <Messages file={file} query={query} />
      <Proof file={file} />
    </>
  );
}

function States({ file }: Pick<OfFile, 'file'>): VNode {
  const { endedAt, read, isCutOff, isFound } = file;
  return (
    <>
      {!isFound && (
        <p class="strip">
          <Icon name="search" />
          <span>The query finds no message that has this attachment.</span>
        </p>
      )}
      {endedAt !== null && (
        <p class="strip ended">
          <Icon name="past" />
          <span>
            The service deleted this message on <Moment ms={endedAt} />. The attachment is kept
            here.
          </span>
        </p>
      )}
      {isCutOff && (
        <p class="strip warn">
          <Icon name="alert" />
          <span>The message ends before this attachment does: the rest of it never arrived.</span>
        </p>
      )}
      {read.state === 'damaged' && (
        <div class="strip bad" role="alert">
          <Icon name="alert" />
          <div>
            <p>
              <strong>These bytes are not what was stored.</strong> <bdi>{read.message}</bdi>
            </p>
            <p class="mono">mailkeep verify --repair</p>
          </div>
        </div>
      )}
    </>
  );
}

function Text({ file: { text } }: Pick<OfFile, 'file'>): VNode {
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
            <Marked text={part.text} matches={part.matches} />
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

function Messages({ file: { holders, messages }, query }: Omit<OfFile, 'address'>): VNode {
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

/** Says whether the bytes were read for this page and compared with what was stored. */
function Proof({ file: { hash, read, isCutOff } }: Pick<OfFile, 'file'>): VNode {
  const named = (
    <span class="mono" title={hash}>
      {hash.slice(0, 8)}…{hash.slice(-4)}
    </span>
  );
  return (
    <footer class="proof">
      {read.state === 'whole' ? (
        <>
          <Icon name="shield" />
          <span>Checked when it was opened, every byte is as stored: SHA-256 {named}</span>
        </>
      ) : (
        <span>
          {isCutOff ? 'Without a SHA-256 of its own' : <>SHA-256 {named}</>}
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
    : pageAddress(`/m/${message}`, { q: asOfWord(query) });
}
