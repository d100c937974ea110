import type { KeptRun } from '../../../state/runs.ts';
import type { StateFile } from '../../../state/state-file.ts';

/** The lanes of the last 24 hours, with the kinds of runs in each. */
export const LANES = {
  new: ['sync', 'hand', 'backlog'],
  hint: ['hint'],
  sweep: ['sweep'],
  verify: ['verify'],
  chores: ['index', 'seal', 'prune', 'copy', 'copy-check', 'import'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type Lane = keyof typeof LANES;

/** Runs of one lane that began within one column. */
export interface Mark {
  /** Milliseconds since the beginning of the 24 hours. */
  readonly from: number;
  readonly to: number;
  readonly runs: number;
  readonly isChanged: boolean;
  readonly isFailed: boolean;
}

export interface RunPages {
  /** When the 24 hours end: milliseconds since the epoch. */
  readonly until: number;
  readonly lanes: readonly { readonly lane: Lane; readonly marks: readonly Mark[] }[];
  /** Of the last 24 hours. */
  readonly recent: { readonly runs: number; readonly requests: number; readonly failed: number };
  /** More runs than were read. */
  readonly isCut: boolean;
  readonly lane: Lane | null;
  readonly runs: readonly KeptRun[];
  /** The run to continue before; null on the last page. */
  readonly next: number | null;
  /** Whether this is a later page. */
  readonly isLater: boolean;
}

export const DAY_MS = 86_400_000;
/** Runs that begin within one column are one mark: no screen shows more. */
const COLUMN_MS = DAY_MS / 480;
/** Runs of the last 24 hours that are read: ten times those of a schedule of five minutes. */
const MOST_RECENT = 3_000;
/** Rows of a page. */
const ROWS = 50;

/** Reads the runs of the last 24 hours, and a page of all. */
export function runPages(
  state: Pick<StateFile, 'runs'> | undefined,
  now: number,
  { before, lane }: { readonly before: number | undefined; readonly lane: Lane | null },
): RunPages {
  const since = now - DAY_MS;
  const recent = state?.runs.list({ limit: MOST_RECENT, since }) ?? [];
  const kinds = lane === null ? undefined : LANES[lane];
  const found = state?.runs.list({ limit: ROWS + 1, before, kinds }) ?? [];
  const runs = found.slice(0, ROWS);
  return {
    until: now,
    lanes: laneNames().map((name) => ({
      lane: name,
      marks: marksOf(
        recent.filter(({ kind }) => isIn(name, kind)),
        since,
      ),
    })),
    recent: {
      runs: recent.length,
      requests: recent.reduce((sum, { requests }) => sum + requests, 0),
      failed: recent.filter(isFailed).length,
    },
    isCut: recent.length === MOST_RECENT,
    lane,
    runs,
    next: found.length > ROWS ? (runs.at(-1)?.id ?? null) : null,
    isLater: before !== undefined,
  };
}

/** Returns the lane of that name; null for any other text. */
export function laneNamed(text: string | undefined): Lane | null {
  return laneNames().find((name) => name === text) ?? null;
}

/** Whether something went wrong in a run. */
export function isFailed({ outcome, failures }: Pick<KeptRun, 'outcome' | 'failures'>): boolean {
  return outcome === 'failed' || failures > 0;
}

function laneNames(): Lane[] {
  const names: Lane[] = [];
  let name: Lane;
  for (name in LANES) names.push(name);
  return names;
}

function isIn(lane: Lane, kind: string): boolean {
  return LANES[lane].some((known) => known === kind);
}

function marksOf(runs: readonly KeptRun[], since: number): Mark[] {
  const columns = Map.groupBy(runs, ({ startedAt }) =>
    Math.max(0, Math.floor((startedAt - since) / COLUMN_MS)),
  );
  return [...columns]
    .toSorted(([a], [b]) => a - b)
    .map(([, all]) => ({
      from: Math.max(0, Math.min(...all.map(({ startedAt }) => startedAt)) - since),
      to: Math.min(DAY_MS, Math.max(...all.map(({ endedAt }) => endedAt)) - since),
      runs: all.length,
      isChanged: all.some(({ added, ended, flagsChanged }) => added + ended + flagsChanged > 0),
      isFailed: all.some(isFailed),
    }));
}
