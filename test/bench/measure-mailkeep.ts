import { availableParallelism } from 'node:os';
import { catalogBytes, sealLog } from './archive-sizes.ts';
import type { Participant } from './entry.ts';
import { searchInProcess } from './in-process.ts';
import { type Mailkeep, prepareMailkeep, type SyncRun } from './mailkeep.ts';
import { AGAIN_RUNS, flush } from './measure-peers.ts';
import { type CoreFigures, type MailkeepFigures, perTerm } from './measurements.ts';
import type { MessageSet } from './message-set.ts';
import { Peak } from './process-cost.ts';
import { startSandbox } from './sandbox.ts';
import { queryText } from './search-terms.ts';
import type { Workplace } from './workplace.ts';

/** What a first sync is measured on besides, on a machine that has more. */
const CORES: readonly number[] = [2, 4, 8];

/** A message that is on no newest page: older ones have the lower uids. */
const DELETED_UID = 17;

/** mailkeep against its own service with the same files. */
export async function openMailkeep(
  work: Workplace,
  program: string,
  messages: MessageSet,
): Promise<Participant<MailkeepFigures> & { readonly mailkeep: Mailkeep }> {
  const sandbox = await startSandbox(work, program, messages.maildir);
  const mailkeep = prepareMailkeep(work, program, sandbox);
  const first: SyncRun[] = [];
  const rebuildMs: number[] = [];
  const rebuildAttachmentsMs: number[] = [];
  const peak = new Peak();
  let firstRequests = 0;
  let grown = 0;
  return {
    mailkeep,
    async round() {
      mailkeep.forget();
      flush();
      await sandbox.takeRequests();
      const run = await mailkeep.sync();
      firstRequests = await sandbox.takeRequests();
      if (run.stored !== messages.count)
        throw new Error(`mailkeep stored ${run.stored} of ${messages.count} messages`);
      first.push(run);
      peak.note(run.peakBytes);
      // Before the rebuild, which recreates it.
      grown = catalogBytes(mailkeep.data);
      flush();
      const rebuilt = await mailkeep.rebuild();
      rebuildMs.push(rebuilt.wallMs);
      rebuildAttachmentsMs.push(rebuilt.attachmentsMs);
    },
    async figures() {
      const onCores: CoreFigures[] = [];
      for (const cores of CORES.filter((count) => count < availableParallelism())) {
        mailkeep.forget();
        flush();
        const { fetchMs, searchableMs, wallMs, peakBytes } = await mailkeep.sync(cores);
        onCores.push({ cores, fetchMs, searchableMs, wallMs, peakBytes });
      }
      mailkeep.forget();
      flush();
      const shellPeakBytes = (await mailkeep.syncFromShell()).peakBytes;
      const again: SyncRun[] = [];
      await sandbox.takeRequests();
      for (let run = 0; run < AGAIN_RUNS; run++) again.push(await mailkeep.sync());
      const againRequests = (await sandbox.takeRequests()) / AGAIN_RUNS;
      await sandbox.remove('INBOX', DELETED_UID);
      const deletion = await mailkeep.sync();
      const deletionRequests = await sandbox.takeRequests();
      const found = perTerm((term) =>
        searchInProcess(mailkeep.data, queryText(messages.terms, term)),
      );
      return {
        wallMs: first.map(({ wallMs }) => wallMs),
        searchableMs: first.map(({ searchableMs }) => searchableMs),
        fetchMs: first.map(({ fetchMs }) => fetchMs),
        indexMs: first.map(({ indexMs }) => indexMs),
        cpuMs: first.map(({ cpuMs }) => cpuMs ?? Number.NaN),
        threadMs: first.map(({ threadMs }) => threadMs),
        onCores,
        peakBytes: peak.bytes,
        shellPeakBytes,
        stored: messages.count,
        firstRequests,
        againMs: again.map(({ wallMs }) => wallMs),
        againRequests,
        ...(deletion.ended === 1 && { deletionRequests }),
        rebuildMs,
        rebuildAttachmentsMs,
        hits: perTerm((term) => found[term].hits),
        inProcessMs: perTerm((term) => found[term].ms),
        catalogBytes: grown,
        ...(await sealLog(mailkeep.data)),
      };
    },
    close: () => sandbox.stop(),
  };
}
