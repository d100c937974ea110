import { realFiles } from '../archive/files/real-files.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { MessageId, Place } from '../mail/words.ts';
import { journalPurge, type PurgedFact } from '../retention/carry-out.ts';
import { purgedFact } from '../retention/plan-prune.ts';
import { type Survey, surveyPurge } from '../retention/survey.ts';
import { purgedMessage } from './archive/purged-message.ts';
import type { Writer } from './archive/writer.ts';

const NONE: ReadonlySet<string> = new Set();

/** A message that is to be forgotten; with a place, what is in quarantine there, for which the id stands. */
export interface Forgetting {
  readonly message: MessageId;
  readonly place?: Place;
}

/** What a forget records, and where the data are that go; without facts, nothing is left to do. */
export interface ForgetPlan {
  readonly facts: readonly PurgedFact[];
  readonly survey: Survey;
}

/**
 * Finds in the log what is to be forgotten. What is not in the archive any more is left out.
 *
 * @throws log-damaged
 */
export async function planForget(
  { catalog, dataDir, segments }: Writer,
  chosen: readonly Forgetting[],
  signal: AbortSignal,
): Promise<ForgetPlan> {
  const fresh: PurgedFact[] = [];
  const already: PurgedFact[] = [];
  const messages = new Set<MessageId>();
  const quarantined = new Map<MessageId, Place>();
  const open = chosen.some(({ place }) => place !== undefined)
    ? new Set(catalog.quarantine.open().map(keyOf))
    : NONE;
  for (const one of chosen) {
    const { message, place } = one;
    const purged = purgedMessage({ catalog }, message);
    const fact = purged === undefined ? freshFact(catalog, open, one) : bareFact(message);
    if (fact === undefined) continue;
    // What was pruned may come back, until it is forgotten.
    (purged?.reason === 'forgotten' ? already : fresh).push(fact);
    if (place !== undefined && purged === undefined) quarantined.set(message, place);
    else messages.add(message);
  }
  const survey = await surveyPurge(realFiles, dataDir, { messages, quarantined }, signal, segments);
  // What had been forgotten can have been in quarantine since, when it came again.
  const isDone = fresh.length === 0 && survey.records.size === 0;
  return { facts: isDone ? [] : [...fresh, ...already], survey };
}

/**
 * Says in the log what is forgotten; from then on it is decided. Nothing else may commit between the plan and this.
 *
 * @throws disk-full and its like: nothing is decided then
 */
export async function journalForget(
  { catalog, dataDir, log, purges, segments }: Writer,
  { facts, survey }: ForgetPlan,
): Promise<void> {
  const places = { purges, segments };
  catalog.foldBatch(await journalPurge(realFiles, dataDir, log, facts, survey, places));
}

function bareFact(message: MessageId): PurgedFact {
  return { fact: 'purged', message, reason: 'forgotten' };
}

function freshFact(
  { messages, ended }: Catalog,
  open: ReadonlySet<string>,
  { message, place }: Forgetting,
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
