import { sealedSizes } from './archive-sizes.ts';
import { coldLatencies } from './latency.ts';
import { prepareMailkeep, type SyncRun } from './mailkeep.ts';
import { AGAIN_RUNS, countLines, flush, queryText } from './measure-peers.ts';
import { type MailkeepFigures, type Measured, perTerm } from './measurements.ts';
import type { MessageSet } from './message-set.ts';
import { timeProgram } from './process-cost.ts';
import { startSandbox } from './sandbox.ts';
import type { Workplace } from './workplace.ts';

/** mailkeep against its own service with the same files, `runs` times from nothing. */
export async function measureMailkeep(
  work: Workplace,
  program: string,
  messages: MessageSet,
  runs: number,
): Promise<Measured<MailkeepFigures>> {
  const sandbox = await startSandbox(work, program, messages.maildir);
  try {
    const mailkeep = prepareMailkeep(work, program, sandbox);
    const first: SyncRun[] = [];
    let firstRequests = 0;
    for (let run = 0; run < runs; run++) {
      mailkeep.forget();
      flush();
      await sandbox.takeRequests();
      first.push(await mailkeep.sync());
      firstRequests = await sandbox.takeRequests();
    }
    const stored = first.at(-1)?.stored ?? 0;
    if (stored !== messages.count)
      throw new Error(`mailkeep stored ${stored} of ${messages.count} messages`);
    const again: SyncRun[] = [];
    for (let run = 0; run < AGAIN_RUNS; run++) again.push(await mailkeep.sync());
    const againRequests = (await sandbox.takeRequests()) / AGAIN_RUNS;

    const query = perTerm((term) => queryText(messages, term));
    const [common = 0, rare = 0, phrase = 0] = coldLatencies([
      mailkeep.newest(query.common),
      mailkeep.newest(query.rare),
      mailkeep.newest(query.phrase),
    ]);
    const hits = perTerm((term) => countLines(timeProgram(mailkeep.all(query[term])).stdout));
    const sizes = await sealedSizes(mailkeep.data);
    const rebuildMs: number[] = [];
    for (let run = 0; run < runs; run++) {
      flush();
      rebuildMs.push((await mailkeep.rebuild()).wallMs);
    }
    return {
      value: {
        wallMs: first.map(({ wallMs }) => wallMs),
        fetchMs: first.map(({ fetchMs }) => fetchMs),
        indexMs: first.map(({ indexMs }) => indexMs),
        peakBytes: Math.max(...first.map(({ peakBytes }) => peakBytes ?? 0)) || undefined,
        stored,
        firstRequests,
        againMs: again.map(({ wallMs }) => wallMs),
        againRequests,
        ...sizes,
        rebuildMs,
        hits,
        coldMs: { common, rare, phrase },
        inProcessMs: perTerm(() => Number.NaN),
      },
    };
  } finally {
    await sandbox.stop();
  }
}
