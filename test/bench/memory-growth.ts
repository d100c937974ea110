import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { prepareMailkeep } from './mailkeep.ts';
import { makeMessageSet } from './message-set.ts';
import { startSandbox } from './sandbox.ts';
import type { SourceStock } from './source-stock.ts';
import type { Workplace } from './workplace.ts';

/** Ten times the messages shall take the same memory. */
const COUNTS = [5_000, 50_000];

/** Peak memory of a first sync, by number of messages. */
export async function memoryByCount(
  work: Workplace,
  program: string,
  stock: (count: number) => SourceStock,
  seed: number,
  counts: readonly number[] = COUNTS,
): Promise<{ readonly messages: number; readonly peakBytes: number }[]> {
  const peaks: { messages: number; peakBytes: number }[] = [];
  for (const count of counts) {
    const maildir = join(work.folder, `maildir-${count}`);
    makeMessageSet(maildir, stock(count), count, seed);
    const sandbox = await startSandbox(work, program, maildir);
    try {
      const mailkeep = prepareMailkeep(work, program, sandbox);
      mailkeep.forget();
      const { peakBytes, stored } = await mailkeep.sync();
      if (stored !== count) throw new Error(`mailkeep stored ${stored} of ${count} messages`);
      if (peakBytes !== undefined) peaks.push({ messages: count, peakBytes });
    } finally {
      await sandbox.stop();
      rmSync(maildir, { recursive: true, force: true });
    }
  }
  return peaks;
}
