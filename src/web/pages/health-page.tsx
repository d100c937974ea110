import type { VNode } from 'preact';
import { bytes, count, counted } from '../../core/text.ts';
import {
  type FolderPages,
  type FolderRow,
  type HealthContent,
  type HealthTab,
  isFailed,
  type Look,
  type LookAnswer,
  type MailboxRow,
  type Overview,
  type Verifications,
} from '../health.ts';
import { LATE_HOURS, LATE_MS, type Matter } from '../issues.ts';
import { Command } from './frame.tsx';
import { HeldTab, QuarantineTab, RetentionTab } from './health-messages.tsx';
import { Ago, Fact, Maybe, Messages, PageLinks, SumText, TablePanel } from './health-parts.tsx';
import { RunsTab, tookOf } from './health-runs.tsx';
import { Icon, Link, Strip } from './icons.tsx';
import type { PageOf } from './page.ts';
import { Shell } from './shell.tsx';
import { Moment } from './time-band.tsx';

function FoldersTab({ groups, sort, from, step, all, now }: FolderPages & { now: number }) {
  const other = sort === 'age' ? '/health/folders' : '/health/folders?sort=age';
  return (
    <>
      <p class="note">
        {counted(all, 'folder')},{' '}
        {sort === 'age' ? 'those compared longest ago first' : 'in the order of their names'}.{' '}
        <Link to={other}>{sort === 'age' ? 'By name' : 'By age of the comparison'}</Link>. A message
        at two places of a folder counts once as a message and twice in the sum.
      </p>
      {groups.map(({ address, imported, folders }, at) => (
        <TablePanel
          key={at}
          title={<bdi>{address}</bdi>}
          note={imported ? 'imported from files' : undefined}
          rows={folders}
          columns={[
            [
              'Folder',
              ({ folder, unwatched }) => (
                <>
                  <bdi>{folder}</bdi>
                  {unwatched && <span class="tag">unwatched</span>}
                </>
              ),
              'head',
            ],
            ['Messages', ({ kept }) => <Messages {...kept} />, 'r'],
            ['Unread', ({ unread }) => <Messages {...unread} />, 'r'],
            ['Deleted there', ({ deleted }) => <Messages {...deleted} />, 'r'],
            [
              'Sum, in places',
              ({ stored, assumed, quarantined, held, forgotten }) =>
                !imported && (
                  <SumText
                    originTotal={stored + assumed + quarantined + forgotten}
                    {...{ stored, assumed, quarantined, held, forgotten }}
                  />
                ),
              (row) => (isOdd(row) ? 'odd' : undefined),
            ],
            [
              'Compared',
              ({ provenAt, complete }) =>
                imported ? null : provenAt === null ? (
                  <span class="odd">never</span>
                ) : (
                  <>
                    <Ago at={provenAt} now={now} />
                    {complete === false && <span class="odd">, not complete</span>}
                  </>
                ),
            ],
            ['Flags compared', ({ flagsAt }) => !imported && <Maybe at={flagsAt} never="never" />],
            [
              'Certificate',
              ({ certifiedAt }) => !imported && <Maybe at={certifiedAt} never="none yet" />,
            ],
          ]}
        />
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

function isOdd({ quarantined, held, forgotten, complete }: FolderRow): boolean {
  return quarantined + held + forgotten > 0 || complete === false;
}

interface OverviewProps extends Overview {
  readonly now: number;
  readonly whole: boolean;
  /** No mailbox is mirrored automatically, which is stated above; there are no other issues. */
  readonly isUnattended: boolean;
}

function OverviewTab({ matters, facts, mailboxes, more, now, whole, isUnattended }: OverviewProps) {
  const { verification, attachments } = facts;
  return (
    <>
      {matters.length === 0 ? (
        <Strip kind="ok" icon="shield">
          {isUnattended ? 'Nothing else needs you.' : 'Nothing needs you.'}
        </Strip>
      ) : (
        <Matters matters={matters} />
      )}
      <dl class="facts panel">
        <Fact name="Messages">
          <Link to="/mail">{count(facts.messages)}</Link>, {bytes(facts.bytes)} of mail
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
        rows={mailboxes}
        columns={[
          ['Mailbox', ({ address }) => <bdi>{address}</bdi>, 'head'],
          ['Folders', ({ folders }) => count(folders), 'r'],
          ['Messages', ({ kept }) => <Messages {...kept} />, 'r'],
          ['Deleted there', ({ deleted }) => <Messages {...deleted} />, 'r'],
          ['Compared', (mailbox) => <Compared mailbox={mailbox} now={now} />],
        ]}
      />
    </>
  );
}

function Matters({ matters }: { matters: readonly Matter[] }) {
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
              <Link to={link.href}>{link.text}</Link>
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}

function Compared({
  mailbox: { imported, unwatched, provenAt, complete },
  now,
}: {
  mailbox: MailboxRow;
  now: number;
}) {
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

function VerificationTab({
  last,
  messages,
  bytes: logBytes,
  runs,
  now,
}: Verifications & { now: number }) {
  return (
    <>
      {last === null ? (
        <Strip kind="warn" icon="alert">
          The archive was never verified. A verification reads all {bytes(logBytes)} of the log and
          compares every message with its hash.
        </Strip>
      ) : last.ok ? (
        <Strip kind="ok" icon="shield">
          No damage is known. Last checked <Moment ms={Date.parse(last.at)} /> (
          <Ago at={last.at} now={now} />
          ), {count(last.checked)} of {counted(last.of, 'message')}: {MODES[last.mode] ?? last.mode}
          .
        </Strip>
      ) : (
        <Damage last={last} />
      )}
      {last?.ok !== false && <Command>mailkeep verify</Command>}
      <dl class="facts panel">
        <Fact name="Messages in the archive">
          <Link to="/mail">{count(messages)}</Link>
        </Fact>
        <Fact name="Every byte last read">
          <Maybe at={last?.fullAt ?? null} never="never" />
        </Fact>
        <Fact name="Last drill">
          {last?.drill == null ? (
            'never'
          ) : (
            <>
              <Moment ms={Date.parse(last.drill.at)} />: {count(last.drill.checked)} of{' '}
              {counted(last.drill.of, 'message')} exported and read back
            </>
          )}
        </Fact>
      </dl>
      {runs.length > 0 && (
        <TablePanel
          title="Verifications by the daemon"
          note={`the last ${count(runs.length)}`}
          rows={runs}
          columns={[
            ['Began', ({ startedAt }) => <Moment ms={startedAt} />],
            ['Took', tookOf, 'r'],
            ['Messages read back', ({ messages: read }) => read !== null && count(read), 'r'],
            [
              'Result',
              (run) => (
                <bdi>{isFailed(run) ? (run.troubles[0]?.text ?? 'failed') : 'no damage found'}</bdi>
              ),
              (run) => (isFailed(run) ? 'wrap odd' : 'wrap'),
            ],
          ]}
        />
      )}
    </>
  );
}

/** Findings of one kind have the same text, since it contains no names. */
function distinct<F extends { readonly text: string }>(findings: readonly F[]): F[] {
  return [...new Map(findings.map((finding) => [finding.text, finding])).values()];
}

function Damage({ last }: { last: NonNullable<Verifications['last']> }) {
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
                <Link to={`/m/${id}`}>what of it is intact</Link>
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

export function HealthPage({ page }: { page: PageOf<'health'> }) {
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

/** A verdict on the archive, its last comparison with the service, and whether a daemon repeats it. */
function Verdict({ page }: { page: PageOf<'health'> }) {
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
            <Link to="/health">{counted(frame.matters, 'thing')} to look at</Link>
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

function isUnattended({ hasDaemon, frame }: PageOf<'health'>): boolean {
  return hasDaemon === false && frame.state.isMirror;
}

/** Makes the daemon start a sync run. */
function LookNow({ look: { token } }: { look: Look }) {
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

function LookStrip({ said }: { said: LookAnswer }) {
  if (said === 'asked')
    return (
      <Strip kind="ok" icon="pulse" role="status">
        <strong>The daemon was asked for a pass.</strong> What it finds appears by itself, and the
        pass stands among the{' '}
        <a href="/health/runs" class="link">
          runs
        </a>{' '}
        when it has ended.
      </Strip>
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
  tab: HealthTab;
  page: Pick<HealthContent, 'quarantined' | 'held'>;
}) {
  const number = tab === 'quarantine' ? quarantined : tab === 'held' ? held : 0;
  return number === 0 ? null : <span class="tag warn">{count(number)}</span>;
}

function Shown({ page }: { page: PageOf<'health'> }): VNode {
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
