import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { realFiles } from '../archive/files/real-files.ts';
import { fetchAll } from '../archive/read/segment-store.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { RetentionSettings } from '../config/settings.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { retentionError } from '../errors/retention.ts';
import {
  type Compacted,
  compactPurged,
  decidedPurge,
  dropAsides,
  endPurge,
  journalPurge,
} from '../retention/carry-out.ts';
import { clockTrouble, type PrunePlan, planPrune, purgedFact } from '../retention/plan-prune.ts';
import { surveyPurge } from '../retention/survey.ts';
import { parseQuery } from '../search/parse.ts';
import { type StateFile, scrubState } from '../state/state-file.ts';
import { listedMailboxes } from '../sync/apply/memory/listed-mailboxes.ts';
import { withLock } from './archive/archive-folder.ts';
import { openReaderOf } from './archive/reader.ts';
import type { Writer } from './archive/writer.ts';
import type { EngineContext } from './context.ts';
import { rebuild } from './rebuild.ts';
import { accountHosts, savedIn, withSaved } from './saved-searches.ts';

/**
 * Says in the log what goes by a plan; from then on it is decided. Nothing else may commit meanwhile.
 *
 * @throws log-damaged, disk-full and its like: nothing is decided then
 */
export async function journalPrune(
  writer: Writer,
  { prune: going }: PrunePlan,
  signal: AbortSignal,
): Promise<void> {
  const { dataDir, log, catalog, segments } = writer;
  const wanted = { messages: new Set(going.map(({ id }) => id)), quarantined: new Map() };
  const survey = await surveyPurge(realFiles, dataDir, wanted, signal, segments);
  const facts = going.map(({ id, places }) => purgedFact(id, 'pruned', places));
  catalog.foldBatch(await journalPurge(realFiles, dataDir, log, facts, survey, writer));
}

/** What a plan is made with: the time, what a hold's query may name, and words for what is wrong with one. */
export type PlanningContext = Pick<EngineContext, 'now' | 'globals' | 'surroundings' | 'words'>;

/**
 * What the configuration lets go of now, with reasons.
 *
 * @throws retention-clock, retention-not-indexed, retention-bad-hold
 */
export function plannedPrune(
  context: PlanningContext,
  catalog: Catalog,
  state: Pick<StateFile, 'entries'> | undefined,
  settings: RetentionSettings,
): PrunePlan {
  const now = context.now();
  const { time } = catalog.reached();
  const direction = time === 0 ? undefined : clockTrouble(now, time);
  if (direction !== undefined) {
    throw retentionError('retention-clock', {
      direction,
      now: new Date(now).toISOString(),
      lastCommit: new Date(time).toISOString(),
    });
  }
  const reachable = new Set(
    listedMailboxes(state).map(({ host, resourceId }) => `${host}\0${resourceId}`),
  );
  return planPrune(settings, {
    ended: catalog.ended,
    now,
    held: heldByQueries(context, catalog, state, settings.hold),
    heldMailboxes: settings.hold.flatMap((hold) => ('mailbox' in hold ? [hold.mailbox] : [])),
    isReachable: (host, mailbox) => reachable.has(`${host}\0${mailbox}`),
  });
}

/** A hold that means something else than was intended holds nothing, so whatever is doubtful ends it. */
export function heldByQueries(
  context: PlanningContext,
  catalog: Catalog,
  state: Pick<StateFile, 'entries'> | undefined,
  holds: RetentionSettings['hold'],
): ReadonlySet<number> {
  const held = new Set<number>();
  const queries = holds.flatMap((hold) => ('query' in hold ? [hold.query] : []));
  if (queries.length === 0) return held;
  const pending = catalog.index.pendingCount() + catalog.attachments.counts().pending;
  if (pending > 0) throw retentionError('retention-not-indexed', { pending });
  for (const query of queries) {
    try {
      const { node, asOf } = parseQuery(
        withSaved(query, () => savedIn(state)),
        { now: context.now() },
      );
      const request = { node, accounts: accountHosts(node, context) };
      const [unknown] = catalog.explainSearch({ ...request, limit: 1, sort: 'newest' }).unknown;
      if (unknown !== undefined || asOf !== null) {
        const problem = unknown === undefined ? 'other-moment' : 'unknown-name';
        throw retentionError('retention-bad-hold', { query, problem });
      }
      for (const docid of catalog.foundDocids(request)) held.add(docid);
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.code === 'retention-bad-hold') throw error;
      if (error.family !== 'usage') throw error;
      throw retentionError('retention-bad-hold', { query, problem: context.words.error(error) });
    }
  }
  return held;
}

/**
 * Carries out a purge that was decided, whichever command decided it. Where something was to be forgotten, it closes
 * the writer it was given, since the catalog is rebuilt.
 *
 * @returns what was rewritten, and whether the writer is closed; undefined where nothing was decided
 * @throws purge-interrupted, disk-full and its like: the same command continues
 */
export async function finishPurge(
  { signal, report }: Pick<EngineContext, 'signal' | 'report'>,
  writer: Writer,
): Promise<(Compacted & { readonly closed: boolean }) | undefined> {
  const { dataDir, log, segments } = writer;
  const work = await decidedPurge(realFiles, dataDir, writer);
  if (work === undefined) return undefined;
  if (work.removing > 0) report({ event: 'purging', messages: work.removing });
  const compacted = await compactPurged(realFiles, dataDir, writer, work, signal);
  if (work.reason === 'pruned') {
    await endPurge(realFiles, dataDir, writer);
    return { ...compacted, closed: false };
  }
  // A rebuild reads the folder alone, and a store may close with its writer.
  await fetchAll(segments, log.segment);
  await writer.close();
  await withLock(dataDir, async () => {
    await dropAsides(realFiles, dataDir);
    report({ event: 'rebuilding-catalog', because: 'purge' });
    await rebuildClean(dataDir, signal);
    const reader = openReaderOf(dataDir);
    try {
      scrubState(dataDir, reader.catalog.folders.mailboxes());
    } finally {
      reader.close();
    }
    await endPurge(realFiles, dataDir, writer);
  });
  return { ...compacted, closed: true };
}

/** A new file, in which no page has what was forgotten, and none of those that repairs put aside. */
async function rebuildClean(dir: string, signal: AbortSignal): Promise<void> {
  await rebuild({ dir, signal });
  for (const name of readdirSync(dir)) {
    if (name.startsWith('catalog.sqlite.')) rmSync(path.join(dir, name));
  }
  await realFiles.syncFolder(dir);
}
