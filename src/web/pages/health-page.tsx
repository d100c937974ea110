import type { RenderableProps } from 'preact';
import { plainLine } from '../../core/terminal-safe.ts';
import {
  bytes,
  count,
  counted,
  dayText,
  KEEP_REASONS,
  PRUNE_REASONS,
  span,
} from '../../core/text.ts';
import { LATE_HOURS, LATE_MS } from '../../verify/issues.ts';
import {
  type FolderRow,
  HEALTH_TABS,
  type HealthTab,
  isFailed,
  type Linked,
  type ServiceCheckResult,
  type TabContent,
} from '../health.ts';
import type { ShownIssue } from '../issues.ts';
import { pageAddress } from '../query-text.ts';
import {
  Command,
  Fact,
  Icon,
  Link,
  Moment,
  PageNav,
  Strip,
  SumText,
  TablePanel,
} from './elements.tsx';
import { durationText, RunsTab } from './health-runs.tsx';
import type { PageOf } from './page.ts';
import { Shell } from './shell.tsx';

function Messages({ count: number, query }: Linked) {
  if (number === 0) return <span class="zero">0</span>;
  return query === null ? <span>{count(number)}</span> : <Link q={query}>{count(number)}</Link>;
}

function Ago({ at, now }: { at: string | number; now: number }) {
  const time = new Date(at);
  return (
    <time dateTime={time.toISOString()} title={time.toLocaleString('en-GB')}>
      {span(Math.max(0, now - time.getTime()))} ago
    </time>
  );
}

function Maybe({ at, never }: { at: string | number | null; never: string }) {
  return at === null ? <span class="zero">{never}</span> : <Moment ms={new Date(at).getTime()} />;
}

function Subject({ id = null, subject }: { id?: string | null; subject: string | null }) {
  const text = <bdi>{plainLine(subject ?? '(no subject)')}</bdi>;
  return id === null ? text : <Link to={`/m/${id}`}>{text}</Link>;
}

interface PageLinksProps {
  readonly path: string;
  readonly parameters?: Readonly<Record<string, string | undefined>>;
  readonly from: number;
  readonly step: number;
  readonly all: number;
}

function PageLinks({ path, parameters, from, step, all }: PageLinksProps) {
  if (all <= step && from === 0) return null;
  const to = (at: number): string =>
    pageAddress(path, { ...parameters, from: at <= 0 ? undefined : String(at) });
  return (
    <PageNav
      back={[
        [from > 0 ? to(from - step) : null, [<Icon key="icon" name="back" />, 'Before'], 'prev'],
      ]}
      forward={[[from + step < all ? to(from + step) : null, 'Next', 'next']]}
    >
      <span>
        {count(Math.min(all, from + 1))} to {count(Math.min(all, from + step))} of {count(all)}
      </span>
    </PageNav>
  );
}

function Panel({ title, children }: RenderableProps<{ title: string }>) {
  return (
    <section class="panel">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function FoldersTab({
  groups,
  sort,
  from,
  step,
  all,
  now,
}: TabContent<'folders'> & { now: number }) {
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
              ({ stored, assumed, quarantined, held, forgotten, listed, unfinished }) =>
                !imported && (
                  <SumText
                    {...{ stored, assumed, quarantined, held, forgotten }}
                    listed={{
                      messages: listed,
                      folders: 1,
                      unfinished: Number(unfinished),
                      unreadMailboxes: 0,
                    }}
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
        {...{ from, step, all }}
      />
    </>
  );
}

function isOdd({ quarantined, held, forgotten, complete, unfinished }: FolderRow): boolean {
  return quarantined + held + forgotten > 0 || complete === false || unfinished;
}

function OverviewTab({ shown, page }: { shown: TabContent<'overview'>; page: PageOf<'health'> }) {
  const { issues, facts, mailboxes, more } = shown;
  const { verification, attachments } = facts;
  const { now, whole } = page;
  return (
    <>
      {issues.length === 0 ? (
        <Strip kind="ok" icon="shield">
          {isUnattended(page) ? 'Nothing else needs you.' : 'Nothing needs you.'}
        </Strip>
      ) : (
        <IssueList issues={issues} />
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
          ['Compared', (mailbox) => comparisonText(mailbox, now)],
        ]}
      />
    </>
  );
}

function IssueList({ issues }: { issues: readonly ShownIssue[] }) {
  return (
    <ul class="issues">
      {issues.map(({ level, title, text, command, link }) => (
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

function comparisonText(
  {
    imported,
    unwatched,
    leftBehindAt,
    provenAt,
    complete,
  }: TabContent<'overview'>['mailboxes'][number],
  now: number,
) {
  if (imported) return 'imported from files';
  return (
    <>
      {provenAt === null ? 'not completely compared yet' : <Ago at={provenAt} now={now} />}
      {complete && ', complete'}
      {leftBehindAt === null
        ? unwatched && ', unwatched'
        : `, left behind on ${dayText(Date.parse(leftBehindAt))}`}
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

function VerificationTab({ shown, now }: { shown: TabContent<'verification'>; now: number }) {
  const { last, messages, runs } = shown;
  return (
    <>
      {last === null ? (
        <Strip kind="warn" icon="alert">
          The archive was never verified. A verification reads all {bytes(shown.bytes)} of the log
          and compares every message with its hash.
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
            ['Took', durationText, 'r'],
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

function Damage({ last }: { last: NonNullable<TabContent<'verification'>['last']> }) {
  const { found, damagedSince } = last;
  // Findings of one kind have the same text, which contains no names.
  const findings = [...new Map(last.findings.map((one) => [one.text, one])).values()];
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
          {findings.map(({ what, id, text }, at) => (
            <li key={at}>
              <bdi>{text}</bdi>{' '}
              {id !== null && what === 'message' && (
                <Link to={`/m/${id}`}>what of it is intact</Link>
              )}
            </li>
          ))}
        </ul>
        {found > findings.length && (
          <p>There are {counted(found, 'finding')}; "mailkeep verify" lists all of them.</p>
        )}
        <Command>mailkeep verify --repair</Command>
      </div>
    </div>
  );
}

const WHY: Readonly<Record<string, string>> = {
  short: 'the download ended early',
  'size-disagrees': 'the size differs from the one that the service lists',
  'not-mail': 'the download is not a message',
  refused: 'the service refuses the download',
  'too-large': 'larger than the limit',
  missing: 'listed, but not there when it was requested',
};

function isCode(detail: string): boolean {
  return /^[a-z]+([.-][a-z0-9]+)+$/.test(detail);
}

function QuarantineTab({ messages, from, step, all }: TabContent<'quarantine'>) {
  if (all === 0)
    return (
      <Strip kind="ok" icon="shield">
        Every message was fetched completely.
      </Strip>
    );
  return (
    <>
      <p class="note">
        The service lists these messages, but they could not be fetched completely. They block
        nothing. Each "mailkeep sync" tries them again at once, the daemon after growing intervals;
        a message that is fetched leaves the list. To stop the warning about messages you know:
      </p>
      <Command>mailkeep quarantine ack --mailbox ADDRESS --folder PATH --uid N</Command>
      <TablePanel
        title={counted(all, 'incomplete message')}
        note="by folder and uid"
        rows={messages}
        columns={[
          [
            'Message',
            ({ subject, date }) => (
              <>
                <Subject subject={subject} />
                {date !== null && (
                  <>
                    <br />
                    <span class="small">
                      <Moment ms={date} />
                    </span>
                  </>
                )}
              </>
            ),
            'wrap',
          ],
          [
            'Place',
            ({ address, folder, uid }) => (
              <>
                <bdi>{address}</bdi> / <bdi>{folder}</bdi>, uid {uid}
              </>
            ),
            'wrap',
          ],
          ['Size', ({ size }) => bytes(size), 'r'],
          ['Since', ({ since }) => <Moment ms={since} />],
          [
            'Why',
            ({ reason, detail, acknowledged }) => (
              <>
                <bdi>
                  {WHY[reason] ?? reason}
                  {!isCode(detail) && `: ${detail}`}
                </bdi>
                {acknowledged && <span class="tag">acknowledged</span>}
              </>
            ),
            'wrap',
          ],
          ['Tries', ({ tries }) => count(tries), 'r'],
          ['Next try', ({ nextAt }) => <Maybe at={nextAt} never="with the next pass" />],
        ]}
      />
      <PageLinks path="/health/quarantine" from={from} step={step} all={all} />
    </>
  );
}

function HeldTab({ folders, all, shown }: TabContent<'held'>) {
  if (all === 0)
    return (
      <Strip kind="ok" icon="shield">
        No deletions are pending.
      </Strip>
    );
  return (
    <>
      <p class="note">
        So many messages disappeared at the service at once that none of them is marked as deleted
        before a later sync confirms it. The messages stay in the archive either way. If you deleted
        them yourself, there is no need to wait:
      </p>
      <Command>mailkeep sync --accept-endings</Command>
      {shown < all && (
        <p class="note">
          The first {count(shown)} of {counted(all, 'message')}; "mailkeep list --held" lists all.
        </p>
      )}
      {folders.map((folder, at) => (
        <TablePanel
          key={at}
          title={
            <>
              <bdi>{folder.address}</bdi> / <bdi>{folder.folder}</bdi>:{' '}
              {counted(folder.messages.length, 'message')}
            </>
          }
          note={recheckText(folder)}
          rows={folder.messages}
          columns={[
            ['Received', ({ date }) => <Maybe at={date} never="unknown" />],
            [
              'Sender',
              ({ from }) => <bdi>{from === null ? '' : plainLine(from.name) || from.address}</bdi>,
            ],
            ['Subject', Subject, 'wrap'],
          ]}
        />
      ))}
    </>
  );
}

function recheckText({ since, lookAt }: TabContent<'held'>['folders'][number]) {
  if (since === null) return 'pending';
  return (
    <>
      pending since <Moment ms={since} />;{' '}
      {lookAt === null ? (
        'a later sync checks again'
      ) : (
        <>
          the first sync after <Moment ms={lookAt} /> checks again
        </>
      )}
    </>
  );
}

type Policy = NonNullable<TabContent<'retention'>['policy']>;

function RetentionTab({ policy, deleted }: TabContent<'retention'>) {
  return (
    <>
      <p class="note">
        <Messages {...deleted} /> messages were deleted at the service everywhere and are kept only
        here. Nothing is ever removed here unless the configuration allows it.
      </p>
      {policy === null ? (
        <Strip icon="shield">
          No configuration of this archive was found, so nothing is known of its retention.
          "mailkeep web --config FILE" shows it.
        </Strip>
      ) : (
        <>
          <Words {...policy} />
          <Holds {...policy} />
          <WouldRemove preview={policy.preview} />
        </>
      )}
    </>
  );
}

function Words({ settings, schedule }: Policy) {
  const { endedAfterDays, draftsAfterDays, rules, keepAtLeast } = settings;
  const days = (value: number): string => counted(value, 'day');
  const sentences = [
    endedAfterDays === null
      ? 'Messages that were deleted at the service are kept without a limit.'
      : `A message may be removed ${days(endedAfterDays)} after it was deleted at the service.`,
    ...(draftsAfterDays === null
      ? []
      : [
          `Versions of drafts, which were never in another folder, may be removed after ${days(draftsAfterDays)}.`,
        ]),
    ...rules.map(({ mailbox, folder, endedAfterDays: after }) => {
      const place = [
        ...(folder === undefined ? [] : [`the folder ${folder}`]),
        ...(mailbox === undefined ? [] : [`the mailbox ${mailbox}`]),
      ].join(' of ');
      const scope = place === '' ? 'everything' : place;
      return after === null
        ? `Of ${scope}, nothing is removed.`
        : `Of ${scope}, messages may be removed ${days(after)} after they were deleted.`;
    }),
    ...(keepAtLeast === 0
      ? []
      : [`The newest ${count(keepAtLeast)} deleted messages of each folder stay, however old.`]),
    'A deletion counts only once a complete comparison of the folder at least 7 days later confirmed it.',
    schedule === null
      ? 'Nothing is removed before somebody runs "mailkeep prune --apply".'
      : `The daemon removes by its schedule, ${schedule}.`,
  ];
  return (
    <Panel title="The policy">
      <ul class="words">
        {sentences.map((sentence) => (
          <li key={sentence}>
            <bdi>{sentence}</bdi>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Holds({ holds, settings }: Policy) {
  const all = settings.hold.length;
  if (all === 0)
    return (
      <Panel title="Holds">
        <p>No query and no mailbox is on hold.</p>
      </Panel>
    );
  return (
    <TablePanel
      title="Holds"
      note={holds.length < all ? `the first ${count(holds.length)} of ${count(all)}` : undefined}
      labelled={false}
      rows={holds}
      columns={[
        [
          'What no pruning removes',
          ({ text, isMailbox, problem }) => (
            <>
              {isMailbox ? 'mailbox ' : ''}
              <code>
                <bdi>{text}</bdi>
              </code>
              {problem !== null && (
                <p class="odd">
                  <bdi>{problem}</bdi>
                </p>
              )}
            </>
          ),
          'wrap',
        ],
        ['Messages', ({ kept }) => (kept === null ? '?' : <Messages {...kept} />), 'r'],
      ]}
    />
  );
}

function WouldRemove({ preview }: Pick<Policy, 'preview'>) {
  if (preview.kind === 'refused')
    return (
      <Strip kind="warn" icon="alert">
        <bdi>{preview.problem}</bdi> <bdi>{preview.hint}</bdi>
      </Strip>
    );
  if (preview.kind === 'too-many')
    return (
      <Panel title="What would be removed now">
        <p>
          More than {count(preview.most)} messages were deleted, which takes too long to judge for a
          page. The command lists what would be removed, and changes nothing:
        </p>
        <Command>mailkeep prune</Command>
      </Panel>
    );
  const { messages, bytes: size, removed, kept, list } = preview;
  if (removed.length + kept.length === 0)
    return (
      <Panel title="What would be removed now">
        <p>Nothing: no message was deleted everywhere.</p>
      </Panel>
    );
  return (
    <>
      <TablePanel
        title={`Now ${counted(messages, 'message')} would be removed, ${bytes(size)}`}
        note="this page changes nothing"
        labelled={false}
        rows={[
          ...removed.map((sum) => ({
            ...sum,
            why: `removed: ${reasonText(PRUNE_REASONS, sum.reason)}`,
          })),
          ...kept.map((sum) => ({ ...sum, why: `kept: ${reasonText(KEEP_REASONS, sum.reason)}` })),
        ]}
        columns={[
          ['', ({ why }) => why, 'wrap'],
          ['Messages', (sum) => count(sum.messages), 'r'],
          ['Bytes', (sum) => bytes(sum.bytes), 'r'],
        ]}
      />
      {messages > 0 && <Command>mailkeep prune --apply</Command>}
      {list.length > 0 && (
        <TablePanel
          title="These would be removed"
          note={
            list.length < messages
              ? `the first ${count(list.length)} of ${count(messages)}; "mailkeep prune --json" lists all`
              : undefined
          }
          rows={list}
          columns={[
            ['Subject', Subject, 'wrap'],
            ['Deleted', ({ endedAt }) => <Maybe at={endedAt} never="unknown" />],
            ['Size', (message) => bytes(message.size), 'r'],
            ['Why', ({ reason }) => reasonText(PRUNE_REASONS, reason), 'wrap'],
          ]}
        />
      )}
    </>
  );
}

function reasonText(reasons: Readonly<Record<string, string>>, reason: string): string {
  return reasons[reason] ?? reason;
}

export function HealthPage({ page }: { page: PageOf<'health'> }) {
  const { frame, whole, shown, look } = page;
  return (
    <Shell frame={frame} here="health">
      <div class="page health">
        <header class="phead">
          <h1>Health</h1>
          <Verdict page={page} />
          {look !== null && <LookNow token={look.token} />}
        </header>
        {look !== null && look.said !== null && <LookStrip said={look.said} />}
        <nav class="tabs" aria-label="Health">
          {HEALTH_TABS.filter(({ isOfAll }) => whole || !isOfAll).map(({ tab, name }) => (
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

function Verdict({ page }: { page: PageOf<'health'> }) {
  const { frame, lastPassAt, now, shown } = page;
  const { level, provenAt } = frame.state;
  const [worst] = shown.tab === 'overview' ? shown.issues : [];
  return (
    <p class="verdict">
      {level === 'fine' ? (
        <strong class="fine">Healthy</strong>
      ) : (
        <strong class="odd">
          {level === 'bad' ? 'Damaged' : 'Needs attention'}:{' '}
          {worst === undefined ? (
            <Link to="/health">{counted(frame.issues, 'thing')} to look at</Link>
          ) : (
            <bdi>{worst.title}</bdi>
          )}
          {worst !== undefined && frame.issues > 1 && ` and ${count(frame.issues - 1)} more`}
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

function LookNow({ token }: { token: string }) {
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

function LookStrip({ said }: { said: ServiceCheckResult }) {
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

function Badge({ tab, page }: { tab: HealthTab; page: PageOf<'health'> }) {
  const number = tab === 'quarantine' ? page.quarantined : tab === 'held' ? page.held : 0;
  return number === 0 ? null : <span class="tag warn">{count(number)}</span>;
}

function Shown({ page }: { page: PageOf<'health'> }) {
  const { shown, now } = page;
  switch (shown.tab) {
    case 'overview':
      return <OverviewTab shown={shown} page={page} />;
    case 'folders':
      return <FoldersTab {...shown} now={now} />;
    case 'runs':
      return <RunsTab {...shown} />;
    case 'quarantine':
      return <QuarantineTab {...shown} />;
    case 'held':
      return <HeldTab {...shown} />;
    case 'verification':
      return <VerificationTab shown={shown} now={now} />;
    case 'retention':
      return <RetentionTab {...shown} />;
  }
}
