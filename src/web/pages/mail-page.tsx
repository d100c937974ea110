import type { ComponentChild, ComponentType } from 'preact';
import type { HitCount, SearchHit } from '../../catalog/search.ts';
import type { Range } from '../../catalog/snippets.ts';
import { plainLine } from '../../core/terminal-safe.ts';
import { count, counted } from '../../core/text.ts';
import type { ArchiveState, FirstSync } from '../issues.ts';
import type { ListHit, MailList, NoResults, OtherQuery } from '../mail-list.ts';
import { addTerm, findTerm, pageAddress } from '../query-text.ts';
import {
  Command,
  Icon,
  Link,
  Mark,
  MarkedText,
  Moment,
  PageNav,
  Received,
  Strip,
  senderText,
} from './elements.tsx';
import { listAddress, messageAddress } from './message-props.ts';
import { listTitle, type Page, type PageOf, useParts } from './page.ts';
import { Shell } from './shell.tsx';

/** Maximum code units before the first match, since a narrow row shows about forty. */
const LEAD = 20;
const WORD = 16;

/** Starts a snippet shortly before the first match, so that the end of the row does not cut it off. */
export function rowSnippet(text: string, matches: readonly Range[]) {
  const first = matches[0]?.start ?? 0;
  if (first <= LEAD + 2) return { text, matches };
  const from = first - LEAD;
  const blank = text.indexOf(' ', from - 1);
  const begin =
    blank >= 0 && blank < Math.min(first, from + WORD) ? blank + 1 : wholeAt(text, from);
  const moved = begin - 2;
  return {
    text: `… ${text.slice(begin)}`,
    matches: matches.map(({ start, end }) => ({ start: start - moved, end: end - moved })),
  };
}

/** Moves a position that would split a surrogate pair. */
function wholeAt(text: string, at: number): number {
  return /[\uDC00-\uDFFF]/.test(text.charAt(at)) ? at + 1 : at;
}

export function rowClasses(hit: ListHit): string {
  return `row${isUnread(hit.line) ? ' unread' : ''}${deletionTime(hit) === null ? '' : ' ended'}`;
}

/** Returns when the service deleted a message, even if after the moment shown. Milliseconds since the epoch. */
function deletionTime({ line, since }: ListHit): number | null {
  if (line.endedAt !== null) return Date.parse(line.endedAt);
  return since?.kind === 'deleted' ? since.at : null;
}

function isUnread({ flags }: SearchHit['line']): boolean {
  return !flags.includes('\\Seen');
}

export function RowText({ hit }: { hit: ListHit }) {
  const { line, matches, attachmentMatches, conversation, since } = hit;
  const ended = deletionTime(hit);
  const attached = (line.attachments ?? []).some(({ inline }) => !inline);
  const [found] = line.matchedAttachments;
  const showsFound = found !== undefined && matches.length === 0;
  return (
    <>
      <span class="first">
        <span class="who">
          <bdi>{senderText(line.from)}</bdi>
        </span>
        {conversation !== undefined && (
          <span class="many">
            {count(conversation)}
            <span class="vh"> messages in the conversation</span>
          </span>
        )}
        <Received date={line.date} />
      </span>
      <span class="second">
        <span class="subj">
          <bdi>{plainLine(line.subject ?? '(no subject)')}</bdi>
        </span>
        <span class="marks">
          {isUnread(line) && <span class="vh">unread</span>}
          {line.flags.includes('\\Flagged') && (
            <>
              <Icon name="star" class="star" />
              <span class="vh">starred</span>
            </>
          )}
          {ended !== null && (
            <span class="tag ended">
              {line.endedAt === null ? 'deleted later, found ' : 'found gone '}
              <Moment ms={ended} day />
            </span>
          )}
          {since?.kind === 'moved' && (
            <span class="tag moved" title={`${since.mailbox} / ${since.folder}`}>
              now in <bdi>{since.folder}</bdi>
            </span>
          )}
          {attached && (
            <>
              <Icon name="clip" />
              <span class="vh">with attachments</span>
            </>
          )}
        </span>
      </span>
      <span class="snip">
        {showsFound ? (
          <>
            <Icon name="clip" />
            <bdi>{plainLine(found.filename ?? 'an attachment')}</bdi>:{' '}
            <MarkedText {...rowSnippet(found.snippet, attachmentMatches[0] ?? [])} />
          </>
        ) : (
          <MarkedText {...rowSnippet(line.snippet, matches)} />
        )}
      </span>
    </>
  );
}

export interface ListProps extends Pick<PageOf<'mail'>, 'sort' | 'after' | 'pending'> {
  readonly query: string;
  readonly list: MailList;
  readonly chosen: string | undefined;
}

export function ListPages({ list, query, sort, after, chosen, pending }: ListProps) {
  const [earlier, later] = sort === 'newest' ? ['Newer', 'Older'] : ['Older', 'Newer'];
  const place = { page: 'mail', query, sort: sort === 'newest' ? undefined : sort, after } as const;
  const pageOf = (from: string): string => listAddress({ ...place, after: from });
  return (
    <>
      <ListHead {...{ list, query, sort }} />
      <PendingNote messages={pending} />
      {list.hits.length === 0 ? (
        <EmptyList query={query} nothing={list.nothing} />
      ) : (
        <ol class="rows">
          {list.hits.map((hit) => (
            <li key={hit.line.id} class={rowClasses(hit)}>
              <a
                href={messageAddress(place, hit.line.id, 'thread')}
                aria-current={chosen === hit.line.id ? 'true' : undefined}
              >
                <RowText hit={hit} />
              </a>
            </li>
          ))}
        </ol>
      )}
      {(list.before != null || list.next !== null) && (
        <PageNav
          back={[
            [list.before ? pageOf('') : null, `To the ${sort}`],
            [list.before == null ? null : pageOf(list.before), earlier, 'prev'],
          ]}
          forward={[[list.next === null ? null : pageOf(list.next.slice(0, 16)), later, 'next']]}
        />
      )}
    </>
  );
}

interface ListHeadProps extends Pick<ListProps, 'query' | 'sort'> {
  readonly list: Pick<MailList, 'all' | 'ended'>;
  readonly live?: { readonly fresh: ComponentChild; readonly density: ComponentChild };
}

export function ListHead({ list, query, sort, live }: ListHeadProps) {
  const other = sort === 'newest' ? 'oldest' : undefined;
  // With a script, the same link is next to the filters, except in a narrow window.
  const exported = live
    ? { class: 'btn quiet narrow-only' }
    : { class: 'btn quiet', 'data-act': 'export' };
  return (
    <div class="listhead">
      <Found {...list} query={query} />
      {live?.fresh}
      <span class="spacer" />
      <a {...exported} href={pageAddress('/export', { q: query })}>
        Export
      </a>
      <a class="btn quiet" href={pageAddress('/mail', { q: query, sort: other })}>
        {sort === 'newest' ? 'Newest first' : 'Oldest first'}
      </a>
      {live?.density}
    </div>
  );
}

function Found({ all, ended, query }: Pick<MailList, 'all' | 'ended'> & { query: string }) {
  if (all === null) return <span aria-busy="true">…</span>;
  const deleted = (
    <>
      <b>{count(ended ?? 0)}</b> deleted
    </>
  );
  return (
    <span>
      {!all.complete && 'more than '}
      <b>{count(all.count)}</b> {all.count === 1 ? 'message' : 'messages'}
      {ended !== null && ended > 0 && (
        <>
          ,{' '}
          {findTerm(query, 'is:deleted') === undefined ? (
            <Link q={addTerm(query, 'is:deleted')}>{deleted}</Link>
          ) : (
            deleted
          )}
        </>
      )}
    </span>
  );
}

export function PendingNote({ messages }: { messages: number }) {
  if (messages === 0) return null;
  return (
    <Strip kind="warn" icon="alert">
      <strong>{counted(messages, 'message')} cannot be found by words yet.</strong> Folder, flags,
      date and size already find them.
    </Strip>
  );
}

export function EmptyList({ query, nothing }: { query: string; nothing?: NoResults | undefined }) {
  const { without, beginning, spelling } = nothing ?? {};
  return (
    <div class="nothing">
      <Icon name="search" />
      <h2>{query.trim() === '' ? 'No mail yet' : 'Nothing found'}</h2>
      {nothing?.notes.map((note) => (
        <p key={note}>
          <bdi>{note}</bdi>
        </p>
      ))}
      {spelling != null && (
        <p>
          Did you mean{' '}
          <Link q={spelling.query}>
            <bdi class="mono">{spelling.query}</bdi>
          </Link>
          ? It finds <MessageCount {...spelling.found} />.
        </p>
      )}
      <OtherQueryNote word="Without" other={without} />
      <OtherQueryNote word="With" other={beginning} />
      {query.trim() === '' ? (
        <>
          <p>The first "mailkeep sync" brings the newest mail first. Without a configuration:</p>
          <Command>mailkeep init</Command>
        </>
      ) : (
        <p>
          <Link to="/mail">All mail</Link>
        </p>
      )}
    </div>
  );
}

function OtherQueryNote({ word, other }: { word: string; other?: OtherQuery | null | undefined }) {
  if (other == null) return null;
  const { term, query, found } = other;
  return (
    <p>
      {word} <bdi class="mono">{term}</bdi> there would be{' '}
      <Link q={query}>
        <MessageCount {...found} />
      </Link>
      .
    </p>
  );
}

function MessageCount({ count: messages, complete }: HitCount) {
  return (
    <>
      {!complete && 'more than '}
      {counted(messages, 'message')}
    </>
  );
}

function MailPage({ page }: { page: PageOf<'mail'> }) {
  const { frame, list, message, sort, after, pending } = page;
  const { query, problem } = frame;
  const { List, Chips, Problem, Message } = useParts();
  const { state, tree } = frame;
  const isAll = query.trim() === '';
  const isEmpty = isAll && tree.mailboxes.length === 0;
  const first = isAll ? state.first : null;
  const isShown = !isEmpty && first?.messages !== 0;
  return (
    <Shell frame={frame} here="mail">
      {message === null && <h1 class="vh">{listTitle(query)}</h1>}
      <Chips frame={frame} />
      <div class="split">
        <section class={problem === null ? 'listcol' : 'listcol stale'} aria-label="Results">
          {problem && Problem && <Problem query={query} problem={problem} path="/mail" />}
          <SilentStrip state={state} />
          {first !== null && <FirstSyncNote first={first} />}
          {isEmpty && first === null && <NoMailbox />}
          {list !== null && isShown && (
            <List {...{ list, query, sort, after, pending }} chosen={message?.id} />
          )}
        </section>
        <section class="read" id="message" tabindex={-1} aria-label="Message">
          {message === null ? (
            <p class="empty">Choose a message to read it here.</p>
          ) : (
            <Message {...message} />
          )}
        </section>
      </div>
    </Shell>
  );
}

export function PageView({ page }: { page: Page }) {
  const { pages } = useParts();
  if (page.kind === 'mail') return <MailPage page={page} />;
  const OtherPage = pages[page.kind] as ComponentType<{ page: Page }>;
  return <OtherPage page={page} />;
}

function SilentStrip({ state: { silentSince, provenAt } }: { state: ArchiveState }) {
  if (silentSince === null) return null;
  return (
    <Strip kind="warn" icon="pulse">
      <strong>
        The daemon has made no pass since <Moment ms={silentSince} />.
      </strong>{' '}
      Reading and searching go on; nothing new comes.{' '}
      {provenAt !== null && (
        <>
          Last compared <Moment ms={provenAt} />.{' '}
        </>
      )}
      <Link to="/health/runs">See the runs</Link>
    </Strip>
  );
}

/** Shows the first sync's progress above the list, or in its place while the list is empty. */
export function FirstSyncNote({ first }: { first: FirstSync }) {
  const { mailboxes, folders, done, messages } = first;
  const far = (
    <>
      {folders === 0
        ? `${counted(mailboxes, 'mailbox', 'mailboxes')} found`
        : `${count(done)} of ${counted(folders, 'folder')} compared`}
      , {counted(messages, 'message')} here so far.
    </>
  );
  const bar = folders > 0 && <progress value={done} max={folders} aria-label="Folders compared" />;
  if (messages > 0)
    return (
      <Strip kind="note first-sync" icon="save">
        <strong>The first sync is not complete yet.</strong> {far} The newest mail comes first, and
        what is here can be read already.
        {bar}
      </Strip>
    );
  return (
    <div class="nothing first-sync">
      <Mark />
      <h2>The newest mail comes first</h2>
      {bar}
      <p>{far} What is here can be read already.</p>
    </div>
  );
}

function NoMailbox() {
  return (
    <div class="nothing">
      <Icon name="mail" />
      <h2>No mailbox yet</h2>
      <p>This sets one up. The first sync fetches the newest mail first:</p>
      <Command>mailkeep init</Command>
    </div>
  );
}
