import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';
import { formatRatio, median } from './figures.ts';
import type { Row } from './report.ts';

const runSchema = z.object({
  at: z.string(),
  commit: z.string(),
  /** What has to be equal for two runs to be comparable: messages, cores, Node.js, kind of run. */
  setting: z.string(),
  /** Each line of the table that has a ratio: how it compares with what it is held against. */
  ratios: z.record(z.string(), z.object({ ratio: z.number(), higherIsBetter: z.boolean() })),
});

/** What is remembered of a run. */
export type RememberedRun = z.infer<typeof runSchema>;

/** Runs that `--history` shows, of one setting. */
const SHOWN = 10;
/** A ratio that is worse than the median of the runs before by more than this is marked: less is noise. */
const NOISE = 1.15;

/** Returns what is remembered of a run with these rows. */
export function remembered(
  rows: readonly Row[],
  run: Pick<RememberedRun, 'at' | 'commit' | 'setting'>,
): RememberedRun {
  const ratios: RememberedRun['ratios'] = {};
  for (const { work, ratio, target } of rows) {
    if (ratio !== undefined) ratios[work] = { ratio, higherIsBetter: target.startsWith('>') };
  }
  return { ...run, ratios };
}

/** Appends a run to the file, one a line. */
export function remember(file: string, run: RememberedRun): void {
  mkdirSync(dirname(file), { recursive: true });
  appendFileSync(file, `${JSON.stringify(run)}\n`);
}

/** Runs in the order in which they were made; none where there is no file. */
export function recall(file: string): RememberedRun[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => runSchema.parse(JSON.parse(line)));
}

/**
 * The last ten runs of the latest setting as a table, the newest on the right; a figure of the newest that is worse than
 * the median of those before by more than noise is marked with `!`.
 */
export function formatHistory(runs: readonly RememberedRun[]): string {
  const latest = runs.at(-1);
  if (latest === undefined) return 'No run is remembered yet.';
  const shown = runs.filter(({ setting }) => setting === latest.setting).slice(-SHOWN);
  const works = [...new Set(shown.flatMap(({ ratios }) => Object.keys(ratios)))];
  const widest = Math.max(...works.map((work) => work.length), 'Commit'.length);
  const line = (name: string, cells: readonly string[]): string =>
    [name.padEnd(widest), ...cells.map((cell) => cell.padStart(9))].join(' ');
  return [
    `Ratios of the last ${shown.length} runs: ${latest.setting}`,
    line(
      'Commit',
      shown.map(({ commit }) => commit),
    ),
    line(
      'Date',
      shown.map(({ at }) => at.slice(5, 10)),
    ),
    ...works.map((work) => line(work, cellsOf(work, shown))),
  ].join('\n');
}

function cellsOf(work: string, shown: readonly RememberedRun[]): string[] {
  const figures = shown.map(({ ratios }) => ratios[work]);
  const cells = figures.map((figure) => (figure === undefined ? '' : formatRatio(figure.ratio)));
  const last = figures.at(-1);
  const before = figures.slice(0, -1).flatMap((figure) => figure?.ratio ?? []);
  if (last === undefined || before.length === 0) return cells;
  const usual = median(before);
  const worse = last.higherIsBetter ? usual / last.ratio : last.ratio / usual;
  return worse > NOISE ? [...cells.slice(0, -1), `${cells.at(-1)}!`] : cells;
}
