import type { KeptRun } from '../../core/state-runs.ts';
import { count, counted, span } from '../../core/text.ts';
import { DAY_MS, isFailed, type Lane, type Mark, type RunPages } from '../health.ts';
import { pageAddress } from '../query-text.ts';
import { SumText, TablePanel } from './health-parts.tsx';
import { Icon } from './icons.tsx';
import { Clock, Moment } from './time-band.tsx';

const LANE_NAMES: Readonly<Record<Lane, string>> = {
  new: 'New mail',
  hint: 'Webhooks',
  sweep: 'Sweep',
  verify: 'Verification',
  chores: 'Upkeep',
};

/** Size of the drawing; a lane and its marks are stretched to the width of the page. */
const WIDTH = 1_440;
const HEIGHT = 24;
/** Minimum width of a mark, so that a run of a second is visible. */
const NARROWEST = 2;
const HOURS = 3;

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
              {hours().map((hour) => (
                <line key={hour} x1={at(hour)} x2={at(hour)} y1={0} y2={HEIGHT} />
              ))}
              {marks.map((mark) => (
                <Bar key={mark.from} mark={mark} lane={lane} />
              ))}
            </svg>
          </div>
        ))}
        <div class="lane hours" aria-hidden="true">
          <span class="name" />
          <ol>
            {hours().map((hour) => (
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
  const x = (from / DAY_MS) * WIDTH;
  // Only the lanes of mail have a mark every few minutes, with or without a change.
  const isOften = lane === 'new' || lane === 'hint';
  const isHigh = isChanged || !isOften;
  const narrowest = isOften ? NARROWEST : 2 * NARROWEST;
  const width = Math.max(narrowest, ((to - from) / DAY_MS) * WIDTH);
  const shape = { x: x.toFixed(1), width: width.toFixed(1) };
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

function hours(): number[] {
  return Array.from({ length: 24 / HOURS + 1 }, (_, n) => n * HOURS);
}

function at(hour: number): string {
  return ((hour / 24) * WIDTH).toFixed(1);
}

const KINDS: Readonly<Record<string, string>> = {
  sync: 'new mail',
  hint: 'webhook',
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

/** Results of runs that count nothing. */
const CLOSINGS: Readonly<Record<string, string>> = {
  index: 'attachments read, log sealed',
  copy: 'brought up to date',
  'copy-check': 'no damage found',
  import: 'mail imported',
};
const OTHER_THAN_PASSES = new Set(Object.keys(CLOSINGS));

export function tookOf({ startedAt, endedAt }: KeptRun): string {
  return span(Math.max(0, endedAt - startedAt));
}

/** Shows a number of a run; a 0 is blank unless the run is a sync run. */
function number({ messages, kind }: KeptRun, of: number) {
  const isPass = messages === null && !OTHER_THAN_PASSES.has(kind);
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
            ['Took', tookOf, 'r'],
            [
              'Closing sentence',
              (run) => (
                <details>
                  <summary class={isFine(run) ? 'fine' : 'odd'}>
                    <Icon name={isFine(run) ? 'check' : 'alert'} />
                    <Closing run={run} />
                  </summary>
                  <RunDetails run={run} />
                </details>
              ),
              'sentence',
            ],
          ]}
        />
      )}
      <nav class="pages" aria-label="Pages">
        {lane !== null && (
          <a class="btn" href="/health/runs">
            All kinds
          </a>
        )}
        {isLater && (
          <a class="btn" href={address(undefined)}>
            To the newest
          </a>
        )}
        <span class="spacer" />
        {next !== null && (
          <a class="btn" href={address(next)} rel="next">
            Earlier runs
          </a>
        )}
      </nav>
    </>
  );
}

function isFine(run: KeptRun): boolean {
  return !isFailed(run) && run.outcome === 'done' && run.sum?.complete !== false;
}

function Closing({ run }: { run: KeptRun }) {
  const { outcome, troubles, failures, sum, messages, kind } = run;
  const [first] = troubles;
  if (outcome === 'interrupted') return <span>interrupted</span>;
  if (first !== undefined)
    return (
      <span>
        <bdi>{first.text ?? 'failed; the log has the reason'}</bdi>
        {failures > 1 && `, and ${counted(failures - 1, 'more failure')}`}
      </span>
    );
  if (sum !== null)
    return (
      <span>
        <SumText {...sum} />
        {!sum.complete && ', not complete'}
      </span>
    );
  if (messages !== null)
    return (
      <span>
        {counted(messages, 'message')} {kind === 'prune' ? 'removed' : 'read back'}
      </span>
    );
  return <span>{CLOSINGS[kind] ?? 'nothing compared'}</span>;
}

function RunDetails({ run }: { run: KeptRun }) {
  const { folders, sum, troubles, failures } = run;
  const more = (sum?.folders ?? 0) - folders.length;
  return (
    <div class="inner">
      {folders.length > 0 && (
        <ul>
          {folders.map((folder) => (
            <li key={`${folder.mailbox} ${folder.folder}`}>
              <bdi>{run.mailbox === null ? `${folder.mailbox} / ` : ''}</bdi>
              <bdi>{folder.folder}</bdi>: <SumText {...folder} />
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

function logLine({ folders, troubles, sum, mailbox, ...numbers }: KeptRun): string {
  const { startedAt, endedAt, ...rest } = numbers;
  const durationMs = endedAt - startedAt;
  return JSON.stringify({
    time: new Date(endedAt).toISOString(),
    ...rest,
    folders: sum?.folders ?? 0,
    durationMs,
  });
}
