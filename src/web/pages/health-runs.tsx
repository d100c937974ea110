import type { ComponentChildren } from 'preact';
import type { StoredRun } from '../../core/state-runs.ts';
import { count, counted, span } from '../../core/text.ts';
import { DAY_MS, isFailed, type Lane, type TabContent } from '../health.ts';
import { pageAddress } from '../query-text.ts';
import { Clock, Icon, Moment, PageNav, SumText, TablePanel } from './elements.tsx';

type RunPages = TabContent<'runs'>;
type Mark = RunPages['lanes'][number]['marks'][number];

const LANE_NAMES: Readonly<Record<Lane, string>> = {
  new: 'New mail',
  hint: 'Notifications',
  sweep: 'Sweep',
  verify: 'Verification',
  upkeep: 'Upkeep',
};

/** Size of a lane before it is stretched to the width of the page. */
const [WIDTH, HEIGHT] = [1_440, 24];
/** Minimum width, so that even a one-second run is visible. */
const NARROWEST = 2;
const HOURS = [0, 3, 6, 9, 12, 15, 18, 21, 24];

function RunLanes({ lanes, until, recent, isCut }: RunPages) {
  const { runs, requests, failed } = recent;
  return (
    <section class="panel">
      <h2>
        The last 24 hours
        <small>
          {isCut && 'the newest '}
          {counted(runs, 'run')}, {counted(requests, 'request')}
          {failed > 0 && `, ${count(failed)} with failures`}
        </small>
      </h2>
      <div class="lanes">
        {lanes.map(({ lane, marks }) => (
          <div key={lane} class="lane">
            <a class="name" href={`/health/runs?lane=${lane}`}>
              {LANE_NAMES[lane]}
            </a>
            <svg
              class={`lane-${lane}`}
              viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
              preserveAspectRatio="none"
              role="img"
              aria-label={summary(lane, marks)}
            >
              {HOURS.map((hour) => {
                const x = ((hour / 24) * WIDTH).toFixed(1);
                return <line key={hour} x1={x} x2={x} y1={0} y2={HEIGHT} />;
              })}
              {marks.map((mark) => (
                <Bar key={mark.from} mark={mark} lane={lane} />
              ))}
            </svg>
          </div>
        ))}
        <div class="lane hours" aria-hidden="true">
          <span class="name" />
          <ol>
            {HOURS.map((hour) => (
              <li key={hour}>
                {hour === 24 ? 'now' : <Clock ms={until - DAY_MS + hour * 3_600_000} />}
              </li>
            ))}
          </ol>
        </div>
      </div>
      <p class="small">
        Higher marks of mail changed something. A mark of the whole height with a gap: something
        failed.
      </p>
    </section>
  );
}

function Bar({ mark: { from, to, isChanged, isFailed }, lane }: { mark: Mark; lane: Lane }) {
  // Only these lanes have a mark every few minutes, whether or not anything changed.
  const isOften = lane === 'new' || lane === 'hint';
  const isHigh = isChanged || !isOften;
  const narrowest = isOften ? NARROWEST : 2 * NARROWEST;
  const width = Math.max(narrowest, ((to - from) / DAY_MS) * WIDTH);
  const shape = { x: ((from / DAY_MS) * WIDTH).toFixed(1), width: width.toFixed(1) };
  if (!isFailed)
    return <rect {...shape} y={isHigh ? 5 : 9} height={isHigh ? 14 : 6} class="done" />;
  return (
    <>
      <rect {...shape} y={1} height={13} class="failed" />
      <rect {...shape} y={18} height={5} class="failed" />
    </>
  );
}

function summary(lane: Lane, marks: readonly Mark[]): string {
  const runs = marks.reduce((sum, mark) => sum + mark.runs, 0);
  const failed = marks.filter(({ isFailed }) => isFailed).length;
  const text = `${LANE_NAMES[lane]}: ${counted(runs, 'run')}`;
  return failed === 0 ? text : `${text}, failures at ${counted(failed, 'time')}`;
}

const KINDS: Readonly<Record<string, string>> = {
  sync: 'new mail',
  hint: 'notification',
  hand: 'by hand',
  backlog: 'backlog',
  sweep: 'sweep',
  verify: 'verification',
  copy: 'copy',
  'copy-check': 'copy read back',
  import: 'import',
  prune: 'pruning',
  seal: 'sealing',
  index: 'text, sealing',
};

/** Results of runs that do not count messages, by kind. */
const RESULTS: Readonly<Record<string, string>> = {
  index: 'attachments read, log sealed',
  copy: 'brought up to date',
  'copy-check': 'no damage found',
  import: 'mail imported',
};

export function durationText({ startedAt, endedAt }: StoredRun): string {
  return span(Math.max(0, endedAt - startedAt));
}

/** Formats a count. Zero is blank except in a sync run. */
function number({ messages, kind }: StoredRun, of: number) {
  const isPass = messages === null && !Object.hasOwn(RESULTS, kind);
  return of === 0 ? <span class="zero">{isPass && '0'}</span> : count(of);
}

export function RunsTab(pages: RunPages) {
  const { lane, runs, next, isLater } = pages;
  const address = (before: number | undefined) =>
    pageAddress('/health/runs', {
      lane: lane ?? undefined,
      before: before === undefined ? undefined : String(before),
    });
  return (
    <>
      <RunLanes {...pages} />
      {runs.length === 0 ? (
        <p class="note">
          No run is known. The daemon and "mailkeep sync" keep theirs in the archive's state.
        </p>
      ) : (
        <TablePanel
          title={lane === null ? 'Runs' : `Runs: ${LANE_NAMES[lane]}`}
          note="newest first, kept for 400 days"
          rows={runs}
          columns={[
            ['Began', ({ startedAt }) => <Moment ms={startedAt} />],
            ['Kind', ({ kind }) => KINDS[kind] ?? kind],
            [
              'Mailboxes',
              ({ mailbox, mailboxes }) => (
                <bdi>{mailbox ?? (mailboxes === 0 ? '' : count(mailboxes))}</bdi>
              ),
            ],
            ['New', (run) => number(run, run.added), 'r'],
            ['Deleted', (run) => number(run, run.ended), 'r'],
            ['Flags', (run) => number(run, run.flagsChanged), 'r'],
            ['Requests', (run) => number(run, run.requests), 'r'],
            ['Took', durationText, 'r'],
            [
              'Closing sentence',
              (run) => (
                <details>
                  <summary class={isFine(run) ? 'fine' : 'odd'}>
                    <Icon name={isFine(run) ? 'check' : 'alert'} />
                    <span>{resultText(run)}</span>
                  </summary>
                  <RunDetails run={run} />
                </details>
              ),
              'sentence',
            ],
          ]}
        />
      )}
      <PageNav
        back={[
          [lane === null ? null : '/health/runs', 'All kinds'],
          [isLater ? address(undefined) : null, 'To the newest'],
        ]}
        forward={[[next === null ? null : address(next), 'Earlier runs', 'next']]}
      />
    </>
  );
}

function isFine(run: StoredRun): boolean {
  return !isFailed(run) && run.outcome === 'done' && run.sum?.complete !== false;
}

function resultText(run: StoredRun): ComponentChildren {
  const { outcome, troubles, failures, sum, messages, kind } = run;
  const [first] = troubles;
  if (outcome === 'interrupted') return 'interrupted';
  if (first !== undefined)
    return (
      <>
        <bdi>{first.text ?? 'failed; the log has the reason'}</bdi>
        {failures > 1 && `, and ${counted(failures - 1, 'more failure')}`}
      </>
    );
  if (sum !== null)
    return (
      <>
        <SumText {...sum} listed={sum.originTotal} />
        {!sum.complete && ', not complete'}
      </>
    );
  if (messages === null) return RESULTS[kind] ?? 'nothing compared';
  return `${counted(messages, 'message')} ${kind === 'prune' ? 'removed' : 'read back'}`;
}

function RunDetails({ run }: { run: StoredRun }) {
  const { folders, sum, troubles, failures } = run;
  const more = (sum?.folders ?? 0) - folders.length;
  return (
    <div class="inner">
      {folders.length > 0 && (
        <ul>
          {folders.map((folder) => (
            <li key={`${folder.mailbox} ${folder.folder}`}>
              <bdi>{run.mailbox === null ? `${folder.mailbox} / ` : ''}</bdi>
              <bdi>{folder.folder}</bdi>: <SumText {...folder} listed={folder.originTotal} />
              {!folder.complete && <span class="odd">, not complete</span>}
            </li>
          ))}
        </ul>
      )}
      {more > 0 && (
        <p>
          {folders.length === 0
            ? `${counted(more, 'folder')} compared, without a change.`
            : `${counted(more, 'more folder')} compared.`}
        </p>
      )}
      {troubles.length > 0 && (
        <ul>
          {troubles.map(({ mailbox, folder, text }, at) => (
            <li key={at}>
              <bdi>{[mailbox, folder].filter((name) => name !== null).join(' / ')}</bdi>{' '}
              <bdi>{text ?? 'failed; the log has the reason'}</bdi>
            </li>
          ))}
        </ul>
      )}
      {failures > troubles.length && (
        <p>{counted(failures - troubles.length, 'more failure')}; the log has them.</p>
      )}
      <code class="line">{logLine(run)}</code>
    </div>
  );
}

function logLine({
  folders,
  troubles,
  sum,
  mailbox,
  startedAt,
  endedAt,
  ...rest
}: StoredRun): string {
  return JSON.stringify({
    time: new Date(endedAt).toISOString(),
    ...rest,
    folders: sum?.folders ?? 0,
    durationMs: endedAt - startedAt,
  });
}
