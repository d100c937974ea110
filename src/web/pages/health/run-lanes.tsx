import type { VNode } from 'preact';
import { count, counted } from '../../../wording/amounts.ts';
import { DAY_MS, type Lane, type Mark, type RunPages } from '../../reading/health/run-pages.ts';
import { Clock } from '../moment.tsx';

export const LANE_NAMES: Readonly<Record<Lane, string>> = {
  new: 'New mail',
  hint: 'Webhooks',
  sweep: 'Sweep',
  verify: 'Verification',
  chores: 'Upkeep',
};

/** Of the drawing; a lane is stretched to the width of the page, and its marks with it. */
const WIDTH = 1_440;
const HEIGHT = 24;
/** So that a run of a second can be seen. */
const NARROWEST = 2;
const HOURS = 3;

/** The last 24 hours, a lane for each kind of run. */
export function RunLanes({ lanes, until, recent, isCut }: RunPages): VNode {
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

function Bar({
  mark: { from, to, isChanged, isFailed },
  lane,
}: {
  readonly mark: Mark;
  readonly lane: Lane;
}): VNode {
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
