import { count, counted } from '../../core/text.ts';
import type { ArchiveState, FirstSync } from '../issues.ts';
import { Command, Icon, Link, Mark, Strip } from './icons.tsx';
import { type Page, type PageOf, titleOf, useParts } from './page.ts';
import { Shell } from './shell.tsx';
import { Moment } from './time-band.tsx';

function MailPage({ page }: { page: PageOf<'mail'> }) {
  const { frame, list, message, sort, after, pending } = page;
  const { query, problem } = frame;
  const { List, Chips, Problem, Message } = useParts();
  const { state, tree } = frame;
  const isAll = query.trim() === '';
  const isEmpty = isAll && tree.mailboxes.length === 0;
  const isFirst = state.first !== null && isAll;
  const isShown = !isEmpty && !(isFirst && state.first.messages === 0);
  return (
    <Shell frame={frame} here="mail">
      {message === null && <h1 class="vh">{titleOf(query)}</h1>}
      <Chips frame={frame} />
      <div class="split">
        <section class={problem === null ? 'listcol' : 'listcol stale'} aria-label="Results">
          {problem && Problem && <Problem query={query} problem={problem} path="/mail" />}
          <SilentStrip state={state} />
          {isFirst && <FirstSyncNote first={state.first} />}
          {isEmpty && !isFirst && <NoMailbox />}
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
  const { Later } = useParts();
  return page.kind === 'mail' ? <MailPage page={page} /> : <Later page={page} />;
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

/** Progress of the first sync, above the list or, while the list is empty, in its place. */
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
