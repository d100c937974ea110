import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, it } from 'vitest';
import { type History, history } from './history.ts';
import { REGRESSIONS } from './regressions.ts';
import { runHistory } from './run-history.ts';

/**
 * The same histories each time, so that a change is judged by what it changes. `MAILKEEP_HISTORIES=3000` runs as
 * many, new ones unless `MAILKEEP_HISTORY_SEED` says which.
 */
const { MAILKEEP_HISTORIES: wanted, MAILKEEP_HISTORY_SEED: chosen } = process.env;
const SEED_OF_EVERY_DAY = 20_261_120;
const drawn = wanted === undefined ? SEED_OF_EVERY_DAY : Math.floor(Math.random() * 2 ** 31);
const RUNS = {
  numRuns: Number(wanted ?? 150),
  seed: chosen === undefined ? drawn : Number(chosen),
};

async function runInFolder(script: History): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'mailkeep-history-'));
  try {
    await runHistory(script, dir);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

describe('any history', () => {
  it.each(Object.entries(REGRESSIONS))('%s', (_what, script) => runInFolder(script));

  it('leaves a mirror that equals the origin after passes at rest', {
    timeout: 3_600_000,
  }, async () => {
    console.log(`histories ${RUNS.numRuns}, seed ${RUNS.seed}`);
    await fc.assert(fc.asyncProperty(history, runInFolder), {
      ...RUNS,
      endOnFailure: process.env.MAILKEEP_NO_SHRINK !== undefined,
    });
  });
});
