import { realFiles } from '../../archive/files/real-files.ts';
import { journalPurge } from '../../retention/carry-out.ts';
import { type PrunePlan, purgedFact } from '../../retention/collect.ts';
import { surveyPurge } from '../../retention/survey.ts';
import type { Writer } from '../archive/writer.ts';

/**
 * Says in the log what goes by a plan; from then on it is decided. Nothing else may commit meanwhile.
 *
 * @throws log-damaged, disk-full and its like: nothing is decided then
 */
export async function journalPrune(
  { dataDir, log, catalog }: Writer,
  { prune: going }: PrunePlan,
  signal: AbortSignal,
): Promise<void> {
  const wanted = { messages: new Set(going.map(({ id }) => id)), quarantined: new Map() };
  const survey = await surveyPurge(realFiles, dataDir, wanted, signal);
  const facts = going.map(({ id, places }) => purgedFact(id, 'pruned', places));
  catalog.foldBatch(await journalPurge(realFiles, dataDir, log, facts, survey));
}
