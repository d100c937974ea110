import type { ComponentChildren, VNode } from 'preact';
import { useMemo } from 'preact/hooks';
import { clockText, count, counted, dayText, weekdayText } from '../../core/text.ts';
import type { ArchiveState } from '../issues.ts';
import { asOfTermText, pageAddress, withAsOf } from '../query-text.ts';
import type { EarlierFolder, FolderTreeEntry, MailboxTree } from '../side-tree.ts';
import { Brand, folderIcon, Icon, type IconName, Link, Moment } from './elements.tsx';
import { type Frame, type PageKind, useParts } from './page.ts';

const TARGETS: readonly (readonly [here: PageKind, path: string, label: string, icon: IconName])[] =
  [
    ['mail', '/mail', 'Mail', 'mail'],
    ['files', '/files', 'Attachments', 'clip'],
    ['dashboard', '/dashboard', 'Dashboard', 'chart'],
    ['health', '/health', 'Health', 'pulse'],
  ];

type SideProps = Pick<Frame, 'tree' | 'query' | 'issues'> & { readonly here: PageKind };

/** If there are more mailboxes than this, only the first is unfolded by default. */
const MAX_UNFOLDED = 3;

function Side({ tree, query, here, issues }: SideProps) {
  const current = here === 'mail' ? query.trim() : null;
  return (
    <nav class="side" aria-label="Archive">
      <div class="drawer">
        <label for="drawer" class="drawer-close">
          <Icon name="cross" />
          Close
        </label>
        <div>
          <Entry entry={tree.all} icon="mail" level="strong" current={current} />
          {TARGETS.slice(1).map(([name, path, label, icon]) => {
            const queried = here === 'mail' ? query : asOfTermText(query);
            return (
              <a
                key={name}
                class="strong"
                href={name === 'files' ? pageAddress(path, { q: queried }) : path}
                aria-current={here === name ? 'page' : undefined}
              >
                <Icon name={icon} />
                <span>{label}</span>
                {name === 'health' && issues > 0 && (
                  <span class="n">
                    <span class="tag warn">{issues}</span>
                  </span>
                )}
              </a>
            );
          })}
        </div>
        {tree.saved.length > 0 && (
          <div>
            <h2>Saved searches</h2>
            {tree.saved.map(({ name, query: saved }) => (
              <a key={name} href={pageAddress('/mail', { q: saved })}>
                <Icon name="tag" />
                <span>
                  <bdi>{name}</bdi>
                </span>
              </a>
            ))}
          </div>
        )}
        <div>
          <h2>
            Mailboxes <span>unread, all</span>
          </h2>
          {tree.mailboxes.map((mailbox, at) => (
            <Mailbox
              key={mailbox.query ?? mailbox.name}
              {...{ mailbox, current, at }}
              isUnfolded={at === 0 || tree.mailboxes.length <= MAX_UNFOLDED}
            />
          ))}
        </div>
        <div>
          <h2>Deleted mail</h2>
          <Entry entry={tree.ended} icon="past" level="" current={current} />
        </div>
        <div class="drawer-only">
          <a href="/you">
            <Icon name="person" />
            <span>Settings</span>
          </a>
        </div>
      </div>
    </nav>
  );
}

interface MailboxProps {
  readonly mailbox: MailboxTree;
  readonly current: string | null;
  readonly at: number;
  readonly isUnfolded: boolean;
}

function Mailbox({ mailbox, current, at, isUnfolded }: MailboxProps) {
  const { isUnfolded: chosen } = useParts();
  const { folders, earlier, imported } = mailbox;
  const own = (
    <Entry entry={mailbox} icon={imported ? 'box' : 'mail'} level="strong" current={current} />
  );
  if (folders.length + earlier.length === 0) return own;
  const isCurrent = folders.some(({ query }) => query === current);
  const entry = (folder: FolderTreeEntry, icon: IconName, life?: EarlierFolder) => (
    <Entry
      key={folder.query ?? folder.name}
      {...{ entry: folder, icon, current, life }}
      level="l2"
    />
  );
  return (
    <div class="mailbox">
      {/* Not inside the summary: screen readers do not expose a link inside a button. */}
      {own}
      <details data-fold={at} open={chosen(String(at)) ?? (isUnfolded || isCurrent)}>
        <summary aria-label={`Folders of ${mailbox.name}`}>
          <Icon name="down" />
        </summary>
        {folders.map((folder) =>
          entry(folder, folderIcon(folder.path ?? folder.name, folder.specialUse)),
        )}
        {earlier.length > 0 && (
          <details class="earlier">
            <summary>Earlier folders</summary>
            {earlier.map((folder) => entry(folder, 'folder', folder))}
          </details>
        )}
      </details>
    </div>
  );
}

interface EntryProps {
  readonly entry: FolderTreeEntry;
  readonly icon: IconName;
  readonly level: 'strong' | 'l2' | '';
  /** Query of the list shown; null on other pages. */
  readonly current: string | null;
  readonly life?: Pick<EarlierFolder, 'from' | 'to'> | undefined;
}

function Entry({ entry, icon, level, current, life }: EntryProps) {
  const { name, path, query, tag, unread } = entry;
  const shown = (
    <>
      <Icon name={icon} />
      <span>
        <bdi>{name}</bdi>
        {life !== undefined && (
          <time class="life">
            {dayText(life.from)} – {dayText(life.to)}
          </time>
        )}
      </span>
      {tag !== null && <span class={tag === 'incomplete' ? 'tag warn' : 'tag'}>{tag}</span>}
      {entry.count !== null && <span class="n">{count(entry.count)}</span>}
    </>
  );
  return (
    <div class="entry">
      {query === null ? (
        <span class={`unlinked ${level}`} title={path ?? name}>
          {shown}
        </span>
      ) : (
        <a
          class={level}
          href={pageAddress('/mail', { q: query })}
          aria-current={current === query ? 'page' : undefined}
          title={path ?? name}
        >
          {shown}
        </a>
      )}
      {unread !== null && (
        <a class="unread" href={pageAddress('/mail', { q: unread.query })} title="Unread">
          {count(unread.count)}
          <span class="vh"> unread in {name}</span>
        </a>
      )}
    </div>
  );
}

/** The main links at the bottom of a narrow window, within reach of a thumb. */
function BottomNav({ here, query, issues }: Omit<SideProps, 'tree'>) {
  const current = here === 'message' ? 'mail' : here;
  return (
    <nav class="bottom" aria-label="Main">
      {TARGETS.map(([name, path, label, icon]) => (
        <a
          key={name}
          href={name === 'mail' || name === 'files' ? pageAddress(path, { q: query }) : path}
          aria-current={current === name ? 'page' : undefined}
        >
          <span class="icon">
            <Icon name={icon} />
            {name === 'health' && issues > 0 && <span class="badge" aria-hidden="true" />}
          </span>
          {label}
          {name === 'health' && issues > 0 && (
            <span class="vh">{`${count(issues)} need attention`}</span>
          )}
        </a>
      ))}
    </nav>
  );
}

function StateLink({ state, issues }: Pick<Frame, 'state' | 'issues'>) {
  const { level, provenAt, now } = state;
  const title =
    provenAt === null
      ? undefined
      : `Each folder was compared on ${dayText(provenAt)}${clockText(provenAt)} or later`;
  return (
    <a class="stat wide state" href="/health" title={title}>
      <span class={`dot ${level}`} />
      {stateText(state, issues, now)}
    </a>
  );
}

/** Returns the archive's state in a few words. @param now milliseconds since the epoch */
export function stateText(
  { level, provenAt, isMirror }: Pick<ArchiveState, 'level' | 'provenAt' | 'isMirror'>,
  issues: number,
  now: number,
): string {
  if (level === 'bad') return 'Damage';
  if (level === 'warn') return counted(issues, 'issue');
  if (provenAt !== null) return `Healthy, backed up ${ago(now - provenAt)}`;
  return isMirror ? 'Not backed up yet' : 'Healthy';
}

function ago(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  return `${Math.floor(minutes / 60)} h ago`;
}

interface ShellProps {
  readonly frame: Frame;
  readonly here: PageKind;
  /** Whether the page has no message pane. */
  readonly isList?: boolean;
  readonly children: ComponentChildren;
}

export function Shell({ frame, here, isList = false, children }: ShellProps) {
  const { query, tree, past, consistency, issues } = frame;
  const { QueryBox, AfterBar, TimeBand } = useParts();
  // Most elements are in the sidebar, and few keystrokes change it.
  const side = useMemo(
    () => <Side tree={tree} query={query} here={here} issues={issues} />,
    [tree, query, here, issues],
  );
  return (
    <>
      <a class="skip" href="#results">
        Skip to the results
      </a>
      {(here === 'mail' || here === 'message') && !isList && (
        <a class="skip" href="#message">
          Skip to the message
        </a>
      )}
      <div class="app">
        <header class="bar">
          <input type="checkbox" id="drawer" class="vh toggle" aria-label="Folders" />
          <label for="drawer" class="stat drawer-button">
            <Icon name="lines" />
            <span class="vh">Folders</span>
          </label>
          <Brand home />
          <QueryBox frame={frame} here={here} />
          <a class={past === null ? 'stat as-now' : 'stat past'} href="#then">
            <Icon name="past" />
            {past === null ? 'History' : ['As of ', <Moment key="then" ms={past.asOf} />]}
          </a>
          <StateLink state={frame.state} issues={issues} />
          <a class="stat wide" href="/you" title="Settings">
            <Icon name="person" />
            <span class="vh">Settings</span>
          </a>
        </header>
        {AfterBar && <AfterBar />}
        {side}
        <main class="main" id="results" tabindex={-1}>
          <TimeBand frame={frame} />
          {children}
        </main>
        <Foot {...{ consistency, past, state: frame.state }} deleted={tree.ended.count} />
        <BottomNav here={here} query={query} issues={issues} />
        <label for="drawer" class="scrim" aria-hidden="true">
          <span class="vh">Close</span>
        </label>
      </div>
    </>
  );
}

function Foot({
  consistency,
  past,
  state,
  deleted,
}: Pick<Frame, 'consistency' | 'past' | 'state'> & {
  /** Counts messages, like the link: a moved message has left a folder but is not deleted. */
  deleted: number | null;
}) {
  if (past !== null)
    return (
      <footer class="foot">
        <span class="sum">
          As of <Moment ms={past.asOf} />:{' '}
          {past.messages !== null && (
            <Link q={withAsOf('', past.asOf)}>
              <b>{count(past.messages)}</b> {past.messages === 1 ? 'message' : 'messages'} known
            </Link>
          )}
          {past.ended !== null && (
            <>
              ,{' '}
              <Link q={`is:deleted ${withAsOf('', past.asOf)}`}>
                <b>{count(past.ended)}</b> of them deleted at the service by then
              </Link>
            </>
          )}
        </span>
      </footer>
    );
  const { imported, writtenAt } = consistency;
  const { atService, terms, pending, unread, isEqual } = state.equation;
  const isMirror = atService + pending > 0 || unread !== '';
  return (
    <footer class="foot">
      {isMirror || imported === 0 ? (
        <span class="sum">
          {unread === '' && (
            <>
              <b>{count(atService)}</b> {atService === 1 ? 'message' : 'messages'} at the service{' '}
              {isEqual ? '=' : '≠'}{' '}
            </>
          )}
          {terms.map(({ kind, count: messages, text }, i) => (
            <>
              {i > 0 && ' + '}
              <b key={kind}>{count(messages)}</b> {text}
            </>
          ))}
          {unread !== '' && ` of ${counted(atService, 'message')} listed at the service; ${unread}`}
          {pending > 0 && `; ${counted(pending, 'pending deletion')}`}
        </span>
      ) : (
        <span class="sum">
          <b>{count(imported)}</b> imported from files
        </span>
      )}
      {isMirror && imported > 0 && (
        <span class="faint">· {count(imported)} imported from files</span>
      )}
      {deleted !== null && deleted > 0 && (
        <a class="faint" href={pageAddress('/mail', { q: 'is:deleted' })}>
          · and {count(deleted)} deleted there, kept only here
        </a>
      )}
      <span class="spacer" />
      {writtenAt !== null && (
        <span>
          last written <Moment ms={writtenAt} />
        </span>
      )}
    </footer>
  );
}

const DAY_MS = 86_400_000;

const AGO = [
  [1, 'a day ago'],
  [7, 'a week ago'],
  [30, 'a month ago'],
  [365, 'a year ago'],
] as const;

/** The history bar. Without a script, it moves in steps of a day. */
export function HistoryBar({ frame }: { frame: Frame }) {
  const { past, query, state } = frame;
  const then = (moment: number | null): string =>
    pageAddress('/mail', { q: withAsOf(query, moment) });
  // The link next to the query box opens it.
  if (past === null)
    return (
      <section class="history-bar at-now" id="then" aria-label="As it was">
        <p class="steps">
          As it was
          {AGO.map(([days, words]) => (
            <a key={days} class="step" href={then(state.now - days * DAY_MS)}>
              {words}
            </a>
          ))}
        </p>
      </section>
    );
  return (
    <HistoryBarFrame
      moment={past.asOf}
      back={then(null)}
      since={<ChangesSince frame={frame} />}
      track={<div class="track" />}
    >
      <a class="step" href={then(past.asOf - DAY_MS)}>
        − day
      </a>
      <a class="step" href={then(past.asOf + DAY_MS)}>
        + day
      </a>
    </HistoryBarFrame>
  );
}

export function ChangesSince({ frame: { past, query } }: { frame: Frame }) {
  if (past === null) return null;
  const { messages, ended, later, day } = past;
  const then = asOfTermText(query) || withAsOf('', past.asOf);
  const link = (q: string, text: string) => <Link q={q}>{text}</Link>;
  return (
    <span>
      {day !== null && (
        <b>
          On {day.name}: {link(day.stored.query, `${count(day.stored.count)} new`)},{' '}
          {link(day.deleted.query, `${count(day.deleted.count)} deleted`)}
        </b>
      )}
      {messages !== null && link(then, `${counted(messages, 'message')} known`)}
      {ended !== null && ended > 0 && (
        <>, {link(`is:deleted ${then}`, `${count(ended)} deleted at the service by then`)}</>
      )}
      {later !== null && later.count > 0 && (
        <>; {link(later.query, `${count(later.count)} stored since`)}</>
      )}
    </span>
  );
}

interface BandProps {
  /** Milliseconds since the epoch. */
  readonly moment: number;
  readonly back: string;
  readonly children: ComponentChildren;
  readonly track?: VNode;
  readonly since?: VNode;
}

export function HistoryBarFrame({ moment, back, children, track, since }: BandProps) {
  return (
    <section class="history-bar" id="then" aria-label="As it was">
      <div class="then">
        <p class="small">As it was on</p>
        <p class="when">
          {weekdayText(moment)} <Moment ms={moment} />
        </p>
        <p class="steps">{children}</p>
      </div>
      {track}
      <div class="now">
        <a class="btn primary" href={back}>
          <Icon name="past" />
          Back to now
        </a>
        {since}
      </div>
    </section>
  );
}
