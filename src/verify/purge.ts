import { randomBytes } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { realFiles } from '../archive/file-system.ts';
import { forgottenId } from '../archive/format.ts';
import { withLock } from '../archive/lock.ts';
import { endPurge } from '../archive/purge-journal.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { RemovalEffect } from '../catalog/messages.ts';
import { type EngineContext, findPurgedMessage, openReaderAt } from '../catalog/open-reader.ts';
import type { Writer } from '../catalog/open-writer.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import { accountHosts, expandSaved, listSavedSearches } from '../catalog/saved-searches.ts';
import type { RetentionSettings } from '../core/config-schema.ts';
import { MailkeepError } from '../core/errors.ts';
import { matches } from '../core/names.ts';
import { type StateFile, scrubState } from '../core/state.ts';
import type { StoredRun } from '../core/state-runs.ts';
import type { MailboxKey, MessageId, Place } from '../core/types.ts';
import { IMPORT_HOST, importedMailbox } from '../mail/identity.ts';
import { listedMailboxes } from '../sync/sync-memory.ts';
import { retentionError, verifyError } from './errors.ts';
import { findPurgedRecords, type PurgeSearch } from './find-purged.ts';
import {
  type Compacted,
  clockProblem,
  compactPurged,
  journalPurge,
  type PrunePlan,
  type PurgedFact,
  pendingPurge,
  planPrune,
  purgedFact,
  removeSetAsideFiles,
} from './prune.ts';

const NONE: ReadonlySet<string> = new Set();

/** A message to forget. If it has a place, its id stands for the incomplete message there. */
export interface MessageToForget {
  readonly message: MessageId;
  readonly place?: Place;
}

interface ForgetPlan {
  readonly facts: readonly PurgedFact[];
  readonly purgeSearch: PurgeSearch;
}

/**
 * Finds the records to forget, skipping messages that are already gone.
 *
 * @param mailboxes only these lose the messages, and never get them again, known or not; all mailboxes by default
 * @throws log-damaged
 */
export async function planForget(
  writer: Writer,
  requests: readonly MessageToForget[],
  signal: AbortSignal,
  mailboxes?: readonly MailboxKey[],
): Promise<ForgetPlan> {
  if (mailboxes !== undefined) {
    const messages = requests.map(({ message }) => message);
    return planLoss(writer, new Set(messages), mailboxes, signal);
  }
  const { catalog, dataDir } = writer;
  const fresh: PurgedFact[] = [];
  const already: PurgedFact[] = [];
  const messages = new Set<MessageId>();
  const quarantined = new Map<MessageId, Place>();
  const open = requests.some(({ place }) => place !== undefined)
    ? new Set(catalog.quarantine.open().map(keyOf))
    : NONE;
  for (const request of requests) {
    const { message, place } = request;
    const purged = findPurgedMessage({ catalog }, message);
    const fact = purged === undefined ? freshFact(catalog, open, request) : bareFact(message);
    if (fact === undefined) continue;
    // Pruned messages can return, but forgotten ones cannot.
    (purged?.reason === 'forgotten' ? already : fresh).push(fact);
    if (place !== undefined && purged === undefined) quarantined.set(message, place);
    else messages.add(message);
  }
  const purgeSearch = await findPurgedRecords(
    realFiles,
    dataDir,
    { messages, quarantined },
    signal,
  );
  // A forgotten message may have arrived again, incomplete.
  const isDone = fresh.length === 0 && purgeSearch.records.size === 0;
  return { facts: isDone ? [] : [...fresh, ...already], purgeSearch };
}

async function planLoss(
  { catalog, dataDir }: Writer,
  messages: ReadonlySet<MessageId>,
  mailboxes: readonly MailboxKey[],
  signal: AbortSignal,
): Promise<ForgetPlan> {
  const fresh: PurgedFact[] = [];
  const already: PurgedFact[] = [];
  const whole = new Set<MessageId>();
  const lost: (MailboxKey & { readonly message: MessageId })[] = [];
  const isIn = (place: MailboxKey) => (at: MailboxKey) =>
    at.host === place.host && at.mailbox === place.mailbox;
  for (const message of messages) {
    const docid = catalog.messages.docidOf(message);
    const places = docid === undefined ? [] : catalog.ended.placesOf(docid);
    const isLast = places.every((place) => mailboxes.some(isIn(place)));
    if (isLast) whole.add(message);
    for (const { host, mailbox } of mailboxes) {
      const at = { host, mailbox };
      const inside = places.filter(isIn(at));
      const from = { ...at, message, ...(isLast ? { last: true as const } : {}) };
      const fact = { ...purgedFact(forgottenId(message, at), 'forgotten', inside), from };
      const isKnown =
        inside.length === 0 && catalog.messages.forgottenAs(message, at) !== undefined;
      (isKnown ? already : fresh).push(fact);
      lost.push({ ...at, message });
    }
  }
  const target = { messages: whole, quarantined: new Map(), lost };
  const purgeSearch = await findPurgedRecords(realFiles, dataDir, target, signal);
  const isDone = fresh.length === 0 && purgeSearch.records.size === 0;
  return { facts: isDone ? [] : [...fresh, ...already], purgeSearch };
}

/**
 * Records a forget in the log, which decides it. Nothing else may commit between planning and this call.
 *
 * @throws disk-full and similar errors: nothing is decided
 */
export async function journalForget(
  writer: Writer,
  { facts, purgeSearch }: ForgetPlan,
): Promise<void> {
  const { catalog, dataDir, log } = writer;
  catalog.foldBatch(await journalPurge(realFiles, dataDir, log, facts, purgeSearch));
}

function bareFact(message: MessageId): PurgedFact {
  return { fact: 'purged', message, reason: 'forgotten' };
}

function freshFact(
  { messages, ended }: Catalog,
  open: ReadonlySet<string>,
  { message, place }: MessageToForget,
): PurgedFact | undefined {
  if (place !== undefined) {
    return open.has(keyOf(place)) ? { ...bareFact(message), places: [place] } : undefined;
  }
  const docid = messages.docidOf(message);
  return docid === undefined ? undefined : purgedFact(message, 'forgotten', ended.placesOf(docid));
}

function keyOf({ host, mailbox, folder, generation, uid }: Place): string {
  return JSON.stringify([host, mailbox, folder, generation, uid]);
}

/**
 * Records a pruning plan in the log, which decides it. Nothing else may commit between planning and this call.
 *
 * @throws log-damaged, disk-full and similar errors: nothing is decided
 */
export async function journalPrune(
  writer: Writer,
  { prune: messages }: PrunePlan,
  signal: AbortSignal,
): Promise<void> {
  const { dataDir, log, catalog } = writer;
  const target = { messages: new Set(messages.map(({ id }) => id)), quarantined: new Map() };
  const purgeSearch = await findPurgedRecords(realFiles, dataDir, target, signal);
  const facts = messages.map(({ id, places }) => purgedFact(id, 'pruned', places));
  catalog.foldBatch(await journalPurge(realFiles, dataDir, log, facts, purgeSearch));
}

export type PlanningContext = Pick<EngineContext, 'now' | 'globals' | 'environment' | 'words'>;

/**
 * Returns the messages that the configuration allows to be removed now, with reasons.
 *
 * @throws retention-clock, retention-not-indexed, retention-bad-hold
 */
export function preparePrune(
  context: PlanningContext,
  catalog: Catalog,
  state: Pick<StateFile, 'entries'> | undefined,
  settings: RetentionSettings,
): PrunePlan {
  const now = context.now();
  const { time } = catalog.reached();
  const direction = time === 0 ? undefined : clockProblem(now, time);
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

/** Treats any doubt about a hold as an error, because a misinterpreted hold would protect nothing. */
function heldByQueries(
  context: PlanningContext,
  catalog: Catalog,
  state: Pick<StateFile, 'entries'> | undefined,
  holds: RetentionSettings['hold'],
): ReadonlySet<number> {
  const docids = new Set<number>();
  const queries = holds.flatMap((hold) => ('query' in hold ? [hold.query] : []));
  if (queries.length === 0) return docids;
  const pending = catalog.index.pendingCount() + catalog.attachments.counts().pending;
  if (pending > 0) throw retentionError('retention-not-indexed', { pending });
  for (const query of queries) {
    try {
      const { node, asOf } = parseQuery(
        expandSaved(query, () => listSavedSearches(state)),
        { now: context.now() },
      );
      const request = { node, accounts: accountHosts(node, context) };
      const search = catalog.prepare(request);
      const [unknown] = search.unknownNames();
      if (unknown !== undefined || asOf !== null) {
        const problem = unknown === undefined ? 'other-moment' : 'unknown-name';
        throw retentionError('retention-bad-hold', { query, problem });
      }
      for (const docid of search.docids()) docids.add(docid);
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.code === 'retention-bad-hold') throw error;
      if (error.family !== 'usage') throw error;
      throw retentionError('retention-bad-hold', { query, problem: context.words.error(error) });
    }
  }
  return docids;
}

/**
 * Completes a decided purge, whichever command decided it. If messages were forgotten, closes the writer to rebuild the
 * catalog.
 *
 * @returns the rewritten segments, and whether the writer is closed; undefined if no purge was decided
 * @throws purge-interrupted, disk-full and similar errors: the same command continues
 */
export async function finishPurge(
  { signal, report }: Pick<EngineContext, 'signal' | 'report'>,
  writer: Writer,
): Promise<(Compacted & { readonly closed: boolean }) | undefined> {
  const { dataDir } = writer;
  const work = await pendingPurge(realFiles, dataDir);
  if (work === undefined) return undefined;
  if (work.removing > 0) report({ event: 'purging', messages: work.removing });
  const compacted = await compactPurged(realFiles, dataDir, writer, work, signal);
  if (work.reason === 'pruned') {
    await endPurge(realFiles, dataDir);
    return { ...compacted, closed: false };
  }
  await writer.close();
  await withLock(dataDir, async () => {
    await removeSetAsideFiles(realFiles, dataDir);
    report({ event: 'rebuilding-catalog', because: 'purge' });
    await rebuildClean(dataDir, signal);
    const reader = openReaderAt(dataDir);
    try {
      scrubState(dataDir, reader.catalog.folders.mailboxes());
    } finally {
      reader.close();
    }
    await endPurge(realFiles, dataDir);
  });
  return { ...compacted, closed: true };
}

/** Builds a new catalog file, so that no page retains forgotten data. Removes files set aside by repairs. */
async function rebuildClean(dir: string, signal: AbortSignal): Promise<void> {
  const { rebuildWithExtractors } = await import('../catalog/rebuild.ts');
  await rebuildWithExtractors({ dir, signal });
  for (const name of readdirSync(dir)) {
    if (name.startsWith('catalog.sqlite.')) rmSync(path.join(dir, name));
  }
  await realFiles.syncFolder(dir);
}

type ImportRun = ReturnType<typeof listImportRuns>[number];

/**
 * Returns the imports that can be undone, newest first. `run` is an import's first commit, and `commits` are its first
 * and last. A killed import extends to the start of the next one.
 */
export function listImportRuns(state: Pick<StateFile, 'runs'> | undefined) {
  const runs = state?.runs.list({ limit: Number.MAX_SAFE_INTEGER, kinds: ['import'] }) ?? [];
  let next = Number.MAX_SAFE_INTEGER;
  return runs.flatMap(({ commits, mailbox, startedAt, outcome, added }: StoredRun) => {
    if (commits === undefined || commits === null || mailbox === null) return [];
    const { first, last } = commits;
    const until = Math.min(last ?? Number.MAX_SAFE_INTEGER, next - 1);
    next = first;
    if (until < first) return [];
    const interrupted = outcome === 'interrupted';
    const range: readonly [first: number, last: number] = [first, until];
    return [{ run: first, mailbox, startedAt, interrupted, added, commits: range }];
  });
}

export function listImportRemains(
  { ended }: Pick<Catalog, 'ended'>,
  run: ImportRun,
): RemovalEffect {
  const { mailbox } = importedMailbox(run.mailbox);
  return ended.removable([{ host: IMPORT_HOST, mailbox, commits: run.commits }]);
}

/** @throws import-unknown-run */
export function findImportRun(
  state: Pick<StateFile, 'runs'> | undefined,
  number: number,
): ImportRun {
  const runs = listImportRuns(state);
  const found = runs.find(({ run }) => run === number);
  if (found === undefined)
    throw verifyError('import-unknown-run', { run: number, runs: runs.length });
  return found;
}

/**
 * Refuses to remove messages on hold.
 *
 * @throws forget-on-hold; retention-not-indexed, retention-bad-hold if a hold cannot be evaluated
 */
export function refuseHeld(
  context: PlanningContext,
  catalog: Catalog,
  state: Pick<StateFile, 'entries'> | undefined,
  holds: RetentionSettings['hold'],
  { parts, going }: RemovalEffect,
): void {
  const boxes = catalog.folders.mailboxes();
  const affected = boxes.filter((box) =>
    parts.some(({ host, mailbox }) => host === box.host && mailbox === box.mailbox),
  );
  for (const hold of holds) {
    if ('mailbox' in hold) {
      const { mailbox: name } = hold;
      const match = affected.find(
        ({ address, mailbox }) => matches(name, address) || matches(name, mailbox),
      );
      if (match === undefined) continue;
      throw retentionError('forget-on-hold', { hold: `mailbox ${name}`, messages: going.length });
    }
    const found = heldByQueries(context, catalog, state, [hold]);
    const messages = going.filter(({ docid }) => found.has(docid)).length;
    if (messages > 0) throw retentionError('forget-on-hold', { hold: hold.query, messages });
  }
}

/**
 * Finds the records to remove along with parts of mailboxes: all facts about them, and messages that no other part
 * uses. These messages can return from a service or another import.
 *
 * @throws log-damaged
 */
export async function planRemoval(
  { dataDir }: Writer,
  { parts, going }: RemovalEffect,
  signal: AbortSignal,
): Promise<ForgetPlan> {
  const message = randomBytes(32).toString('hex');
  const facts: PurgedFact[] = [
    { fact: 'purged', message, reason: 'forgotten', removed: parts },
    ...going.map(({ id }): PurgedFact => ({ fact: 'purged', message: id, reason: 'pruned' })),
  ];
  const target = {
    messages: new Set(going.map(({ id }) => id)),
    quarantined: new Map(),
    removed: { message, parts },
  };
  return {
    facts,
    purgeSearch: await findPurgedRecords(realFiles, dataDir, target, signal),
  };
}
