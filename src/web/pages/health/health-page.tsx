import type { VNode } from 'preact';
import { count, counted } from '../../../wording/amounts.ts';
import type {
  HealthContent,
  HealthTab,
  Look,
  LookAnswer,
} from '../../reading/health/health-content.ts';
import { LATE_HOURS, LATE_MS } from '../../reading/late.ts';
import { Command } from '../frame.tsx';
import { Icon } from '../icons.tsx';
import type { PageOf } from '../page.ts';
import { Shell } from '../shell.tsx';
import { FoldersTab } from './folders-tab.tsx';
import { OverviewTab } from './overview-tab.tsx';
import { Ago } from './parts.tsx';
import { RetentionTab } from './retention-tab.tsx';
import { RunsTab } from './runs-tab.tsx';
import { VerificationTab } from './verification-tab.tsx';
import { HeldTab, QuarantineTab } from './waiting-tabs.tsx';

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
