import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'vitest';
import { mailkeep } from '../../cli/child.ts';
import { drawCuts, type Left, leftByCuts } from './cuts.ts';
import { writeTree } from './folder-tree.ts';
import { record } from './recording.ts';

/** Cuts of each command; by hand, hundreds: MAILKEEP_POWER_CUTS=200 MAILKEEP_SEED=5 npx vitest run test/e2e/power-cut */
const CUTS = Number(process.env.MAILKEEP_POWER_CUTS ?? 2);
const SEED = Number(process.env.MAILKEEP_SEED ?? 1);

export interface Trial {
  readonly name: string;
  /** Puts there what the command finds. */
  prepare(work: string): void | Promise<void>;
  args(work: string): string[];
  /** What has to hold when the power is back. */
  afterCut(work: string, left: Left): Promise<unknown>;
  /** What has to hold when the same command has finished. */
  afterEnd(work: string, left: Left): Promise<unknown>;
}

/** Milliseconds that a test may take with so many cuts: a watchdog. */
export const WATCHDOG = 120_000 + CUTS * 20_000;

/**
 * Runs a command once, then takes the power from it at many moments: each time everything is put back as the cut left
 * it, looked at, and the same command has to finish.
 */
export async function powerCuts(trial: Trial): Promise<void> {
  const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-power-'));
  await trial.prepare(work);
  const args = trial.args(work);
  const recording = await record(work, args);
  expect(`${recording.ended.code} ${recording.ended.stderr}`).toMatch(/^0 /);
  const { changes } = recording;
  for await (const left of leftByCuts(recording, drawCuts(recording, CUTS, SEED))) {
    const { cut, last } = left;
    try {
      writeTree(work, left.tree);
      await trial.afterCut(work, left);
      if (!left.goesOn) continue;
      const again = await mailkeep(args);
      expect(`${again.code} ${again.stderr}`).toMatch(/^0 /);
      await trial.afterEnd(work, left);
    } catch (error) {
      const seen =
        last === undefined ? 'nothing' : `${last.what} ${path.relative(work, last.path)}`;
      throw new Error(
        `${trial.name}, seed ${SEED}: power cut after ${cut.after} of ${changes.length} changes (${seen}), ` +
          `leaving ${cut.share} of what was not synced (seed ${cut.seed}), in ${work}`,
        { cause: error },
      );
    }
  }
  rmSync(work, { recursive: true, force: true });
  console.info(`${trial.name}: ${CUTS} power cuts among ${changes.length} changes, seed ${SEED}`);
}
