import type { ComponentChildren, VNode } from 'preact';
import { bytes, count, counted, span } from '../../core/text.ts';
import {
  type FolderPages,
  type FolderRow,
  isFailed,
  type MailboxRow,
  type Overview,
  type Verifications,
} from '../health.ts';
import type { HealthContent, HealthTab, Look, LookAnswer } from '../health-content.ts';
import type { Matter } from '../issues.ts';
import { LATE_HOURS, LATE_MS } from '../late.ts';
import { Command } from './frame.tsx';
import { HeldTab, QuarantineTab, RetentionTab } from './health-messages.tsx';
import {
  Ago,
  Fine,
  Maybe,
  Messages,
  PageLinks,
  Row,
  SumText,
  TablePanel,
} from './health-parts.tsx';
import { RunsTab } from './health-runs.tsx';
import { Icon } from './icons.tsx';
import type { PageOf } from './page.ts';
import { Shell } from './shell.tsx';
import { Moment } from './time-band.tsx';

const FOLDERS_HEAD = [
  ['Folder', false],
  ['Messages', true],
  ['Unread', true],
  ['Deleted there', true],
  ['Sum, in places', false],
  ['Compared', false],
  ['Flags compared', false],
  ['Certificate', false],
] as const;

/** Each folder with its sum and the age of its proof. */
function FoldersTab({
  groups,
  sort,
  from,
  step,
  all,
  now,
}: FolderPages & { readonly now: number }): VNode {
  const other = sort === 'age' ? '/health/folders' : '/health/folders?sort=age';
  return (
    <>
      <p class="note">
        {counted(all, 'folder')},{' '}
        {sort === 'age' ? 'those compared longest ago first' : 'in the order of their names'}.{' '}
        <a class="link" href={other}>
          {sort === 'age' ? 'By name' : 'By age of the comparison'}
        </a>
        . A message at two places of a folder counts once as a message and twice in the sum.
      </p>
      {groups.map(({ address, imported, folders }, at) => (
        <TablePanel
          key={at}
          title={<bdi>{address}</bdi>}
          note={imported ? 'imported from files' : undefined}
          head={FOLDERS_HEAD}
        >
          {folders.map((folder) => (
            <Folder key={folder.folder} folder={folder} imported={imported} now={now} />
          ))}
        </TablePanel>
      ))}
      <PageLinks
        path="/health/folders"
        parameters={{ sort: sort === 'age' ? 'age' : undefined }}
        from={from}
        step={step}
        all={all}
      />
    </>
  );
}

function Folder({
  folder,
  imported,
  now,
}: {
  readonly folder: FolderRow;
  readonly imported: boolean;
  readonly now: number;
}): VNode {
  const { stored, assumed, quarantined, held, forgotten, provenAt, complete } = folder;
  const originTotal = stored + assumed + quarantined + forgotten;
  const isOdd = quarantined + held + forgotten > 0 || complete === false;
  return (
    <Row head={FOLDERS_HEAD}>
      <th scope="row">
        <bdi>{folder.folder}</bdi>
        {folder.unwatched && <span class="tag">unwatched</span>}
      </th>
      <td class="r">
        <Messages {...folder.kept} />
      </td>
      <td class="r">
        <Messages {...folder.unread} />
      </td>
      <td class="r">
        <Messages {...folder.deleted} />
      </td>
      <td class={isOdd ? 'odd' : undefined}>
        {imported ? (
          ''
        ) : (
          <SumText {...{ originTotal, stored, assumed, quarantined, held, forgotten }} />
        )}
      </td>
      <td>
        {imported ? (
          ''
        ) : provenAt === null ? (
          <span class="odd">never</span>
        ) : (
          <>
            <Ago at={provenAt} now={now} />
            {complete === false && <span class="odd">, not complete</span>}
          </>
        )}
      </td>
      <td>{imported ? '' : <Maybe at={folder.flagsAt} never="never" />}</td>
      <td>{imported ? '' : <Maybe at={folder.certifiedAt} never="none yet" />}</td>
    </Row>
  );
}

const HEAD = [
  ['Mailbox', false],
  ['Folders', true],
  ['Messages', true],
  ['Deleted there', true],
  ['Compared', false],
] as const;

interface OverviewProps extends Overview {
  readonly now: number;
  readonly whole: boolean;
  /** Whether nothing mirrors by itself, which the line above says: nothing else needs a person. */
  readonly isUnattended: boolean;
}

/** What needs a person, then what the archive holds. */
function OverviewTab({
  matters,
  facts,
  mailboxes,
  more,
  now,
  whole,
  isUnattended,
}: OverviewProps): VNode {
  const { verification, attachments } = facts;
  return (
    <>
      {matters.length === 0 ? (
        <Fine>{isUnattended ? 'Nothing else needs you.' : 'Nothing needs you.'}</Fine>
      ) : (
        <Matters matters={matters} />
      )}
      <dl class="facts panel">
        <Fact name="Messages">
          <a class="link" href="/mail">
            {count(facts.messages)}
          </a>
          , {bytes(facts.bytes)} of mail
        </Fact>
        {whole && <Fact name="On disk">{bytes(facts.logBytes + facts.catalogBytes)}</Fact>}
        <Fact name="Text of attachments">
          {count(attachments.done)} searchable, {count(attachments.pending)} to be read,{' '}
          {count(attachments.failed)} not readable
        </Fact>
        {whole && (
          <Fact name="Last verification">
            {verification === null ? (
              'never'
            ) : (
              <>
                <Moment ms={Date.parse(verification.at)} />: {count(verification.checked)} of{' '}
                {counted(verification.of, 'message')} read and compared with
                {verification.checked === 1 ? ' its SHA-256' : ' their SHA-256'}
              </>
            )}
          </Fact>
        )}
        <Fact name="Commit">{count(facts.commit.number)}</Fact>
      </dl>
      <TablePanel
        title="Mailboxes"
        note={more > 0 ? `and ${count(more)} more; "mailkeep status" lists all` : undefined}
        head={HEAD}
      >
        {mailboxes.map((mailbox, at) => (
          <Row key={at} head={HEAD}>
            <th scope="row">
              <bdi>{mailbox.address}</bdi>
            </th>
            <td class="r">{count(mailbox.folders)}</td>
            <td class="r">
              <Messages {...mailbox.kept} />
            </td>
            <td class="r">
              <Messages {...mailbox.deleted} />
            </td>
            <td>
              <Compared mailbox={mailbox} now={now} />
            </td>
          </Row>
        ))}
      </TablePanel>
    </>
  );
}

function Matters({ matters }: { readonly matters: readonly Matter[] }): VNode {
  return (
    <ul class="matters">
      {matters.map(({ level, title, text, command, link }) => (
        <li key={title} class={`panel ${level}`}>
          <h2>
            <Icon name="alert" />
            <bdi>{title}</bdi>
          </h2>
          <p>
            <bdi>{text}</bdi>
          </p>
          {command !== null && <Command>{`mailkeep ${command}`}</Command>}
          {link !== null && (
            <p>
              <a class="link" href={link.href}>
                {link.text}
              </a>
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}

function Fact({
  name,
  children,
}: {
  readonly name: string;
  readonly children: ComponentChildren;
}): VNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Compared({
  mailbox: { imported, unwatched, provenAt, complete },
  now,
}: {
  readonly mailbox: MailboxRow;
  readonly now: number;
}): VNode {
  if (imported) return <>imported from files</>;
  return (
    <>
      {provenAt === null ? 'not completely compared yet' : <Ago at={provenAt} now={now} />}
      {complete && ', complete'}
      {unwatched && ', unwatched'}
    </>
  );
}

const MODES: Readonly<Record<string, string>> = {
  full: 'every byte was read, and each message compared with its SHA-256',
  repair: 'every byte was read, each message compared with its SHA-256, and damage repaired',
  quick: 'the log was read, without hashing large attachments and complete messages',
  sample: 'a sample of them was read, and each of these compared with its SHA-256',
  drill: 'they were exported, read from the export, and compared',
  rebuild: 'the catalog was rebuilt from the log',
};

const RUNS_HEAD = [
  ['Began', false],
  ['Took', true],
  ['Messages read back', true],
  ['Result', false],
] as const;

/** What was read back, when, and what is damaged. */
function VerificationTab({
  last,
  messages,
  bytes: logBytes,
  runs,
  now,
}: Verifications & { readonly now: number }): VNode {
  return (
    <>
      {last === null ? (
        <p class="strip warn">
          <Icon name="alert" />
          <span>
            The archive was never verified. A verification reads all {bytes(logBytes)} of the log
            and compares every message with its hash.
          </span>
        </p>
      ) : last.ok ? (
        <p class="strip ok">
          <Icon name="shield" />
          <span>
            No damage is known. Last checked <Moment ms={Date.parse(last.at)} /> (
            <Ago at={last.at} now={now} />
            ), {count(last.checked)} of {counted(last.of, 'message')}:{' '}
            {MODES[last.mode] ?? last.mode}.
          </span>
        </p>
      ) : (
        <Damage last={last} />
      )}
      {last?.ok !== false && <Command>mailkeep verify</Command>}
      <dl class="facts panel">
        <div>
          <dt>Messages in the archive</dt>
          <dd>
            <a class="link" href="/mail">
              {count(messages)}
            </a>
          </dd>
        </div>
        <div>
          <dt>Every byte last read</dt>
          <dd>
            <Maybe at={last?.fullAt ?? null} never="never" />
          </dd>
        </div>
        <div>
          <dt>Last drill</dt>
          <dd>
            {last?.drill == null ? (
              'never'
            ) : (
              <>
                <Moment ms={Date.parse(last.drill.at)} />: {count(last.drill.checked)} of{' '}
                {counted(last.drill.of, 'message')} exported and read back
              </>
            )}
          </dd>
        </div>
      </dl>
      {runs.length > 0 && (
        <TablePanel
          title="Verifications by the daemon"
          note={`the last ${count(runs.length)}`}
          head={RUNS_HEAD}
        >
          {runs.map((run) => (
            <Row key={run.id} head={RUNS_HEAD}>
              <td>
                <Moment ms={run.startedAt} />
              </td>
              <td class="r">{span(Math.max(0, run.endedAt - run.startedAt))}</td>
              <td class="r">{run.messages === null ? '' : count(run.messages)}</td>
              <td class={isFailed(run) ? 'wrap odd' : 'wrap'}>
                <bdi>{isFailed(run) ? (run.troubles[0]?.text ?? 'failed') : 'no damage found'}</bdi>
              </td>
            </Row>
          ))}
        </TablePanel>
      )}
    </>
  );
}

/** Findings of one kind read the same, since what they name is not remembered. */
function distinct<F extends { readonly text: string }>(findings: readonly F[]): F[] {
  return [...new Map(findings.map((finding) => [finding.text, finding])).values()];
}

function Damage({ last }: { readonly last: NonNullable<Verifications['last']> }): VNode {
  const { found, findings, damagedSince } = last;
  return (
    <div class="strip bad">
      <Icon name="alert" />
      <div>
        <p>
          <strong>The archive is damaged: {counted(found, 'finding')}.</strong>{' '}
          {damagedSince !== null && (
            <>
              First found on <Moment ms={Date.parse(damagedSince)} />. It stays here until a repair
              or a clean verification.
            </>
          )}
        </p>
        <ul>
          {distinct(findings).map(({ what, id, text }, at) => (
            <li key={at}>
              <bdi>{text}</bdi>{' '}
              {id !== null && what === 'message' && (
                <a class="link" href={`/m/${id}`}>
                  what of it is intact
                </a>
              )}
            </li>
          ))}
        </ul>
        {found > distinct(findings).length && (
          <p>There are {counted(found, 'finding')}; "mailkeep verify" lists all of them.</p>
        )}
        <Command>mailkeep verify --repair</Command>
      </div>
    </div>
  );
}

const TABS: readonly (readonly [tab: HealthTab, name: string, isOfAll: boolean])[] = [
  ['overview', 'Overview', false],
  ['folders', 'Folders', false],
  ['runs', 'Runs', true],
  ['quarantine', 'Incomplete', false],
  ['held', 'Pending deletions', false],
  ['verification', 'Verification', true],
  ['retention', 'Retention', true],
];

/** How the archive is and what was done, in tabs. */
export function HealthPage({ page }: { readonly page: PageOf<'health'> }): VNode {
  const { frame, whole, shown, look } = page;
  return (
    <Shell frame={frame} here="health">
      <div class="page health">
        <header class="phead">
          <h1>Health</h1>
          <Verdict page={page} />
          {look !== null && <LookNow look={look} />}
        </header>
        {look !== null && look.said !== null && <LookStrip said={look.said} />}
        <nav class="tabs" aria-label="Health">
          {TABS.filter(([, , isOfAll]) => whole || !isOfAll).map(([tab, name]) => (
            <a
              key={tab}
              href={tab === 'overview' ? '/health' : `/health/${tab}`}
              aria-current={shown.tab === tab ? 'page' : undefined}
            >
              {name}
              <Badge tab={tab} page={page} />
            </a>
          ))}
        </nav>
        <Shown page={page} />
      </div>
    </Shell>
  );
}

/** A verdict on the archive, when it was last compared with the service, and whether a daemon keeps comparing it. */
function Verdict({ page }: { readonly page: PageOf<'health'> }): VNode {
  const { frame, lastPassAt, now, shown } = page;
  const { level, provenAt } = frame.state;
  const [worst] = shown.tab === 'overview' ? shown.matters : [];
  return (
    <p class="verdict">
      {level === 'fine' ? (
        <strong class="fine">Healthy</strong>
      ) : (
        <strong class="odd">
          {level === 'bad' ? 'Damaged' : 'Needs you'}:{' '}
          {worst === undefined ? (
            <a class="link" href="/health">
              {counted(frame.matters, 'thing')} to look at
            </a>
          ) : (
            <bdi>{worst.title}</bdi>
          )}
          {worst !== undefined && frame.matters > 1 && ` and ${count(frame.matters - 1)} more`}
        </strong>
      )}
      {lastPassAt !== null && (
        <>
          , last run <Ago at={lastPassAt} now={now} />
        </>
      )}
      {level === 'fine' &&
        provenAt !== null &&
        now - provenAt < LATE_MS &&
        `, every folder compared within ${LATE_HOURS} h`}
      .{' '}
      {isUnattended(page) && (
        <>
          <strong>No daemon runs</strong>: new mail comes only when "mailkeep sync" is started.
        </>
      )}
    </p>
  );
}

/** Whether this is a mirror that no daemon keeps. */
function isUnattended({ hasDaemon, frame }: PageOf<'health'>): boolean {
  return hasDaemon === false && frame.state.isMirror;
}

/** Asks the daemon for a pass: one of the few things that the pages change. */
function LookNow({ look: { token } }: { readonly look: Look }): VNode {
  return (
    <form class="look" method="post" action="/look">
      <input type="hidden" name="token" value={token} />
      <button
        type="submit"
        class="btn"
        title="Has the daemon compare all mailboxes with the service now"
      >
        <Icon name="pulse" />
        Check for new mail
      </button>
    </form>
  );
}

/** Says what became of a request for a pass. */
function LookStrip({ said }: { readonly said: LookAnswer }): VNode {
  if (said === 'asked')
    return (
      <p class="strip ok" role="status">
        <Icon name="pulse" />
        <span>
          <strong>The daemon was asked for a pass.</strong> What it finds appears by itself, and the
          pass stands among the{' '}
          <a href="/health/runs" class="link">
            runs
          </a>{' '}
          when it has ended.
        </span>
      </p>
    );
  return (
    <div class="strip warn" role="status">
      <Icon name="alert" />
      <div>
        <strong>
          {said === 'nobody'
            ? 'No daemon runs for this archive.'
            : 'The daemon is another version of mailkeep.'}
        </strong>{' '}
        {said === 'nobody'
          ? 'This starts one, which makes passes from then on:'
          : 'Restart it, so that both are the same. This runs it in a terminal:'}
        <Command>mailkeep daemon</Command>
      </div>
    </div>
  );
}

function Badge({
  tab,
  page: { quarantined, held },
}: {
  readonly tab: HealthTab;
  readonly page: Pick<HealthContent, 'quarantined' | 'held'>;
}): VNode | null {
  const number = tab === 'quarantine' ? quarantined : tab === 'held' ? held : 0;
  return number === 0 ? null : <span class="tag warn">{count(number)}</span>;
}

function Shown({ page }: { readonly page: PageOf<'health'> }): VNode {
  const { shown, now, whole } = page;
  switch (shown.tab) {
    case 'overview':
      return <OverviewTab {...shown} {...{ now, whole, isUnattended: isUnattended(page) }} />;
    case 'folders':
      return <FoldersTab {...shown} now={now} />;
    case 'runs':
      return <RunsTab {...shown} />;
    case 'quarantine':
      return <QuarantineTab {...shown} />;
    case 'held':
      return <HeldTab {...shown} />;
    case 'verification':
      return <VerificationTab {...shown} now={now} />;
    case 'retention':
      return <RetentionTab {...shown} />;
  }
}
