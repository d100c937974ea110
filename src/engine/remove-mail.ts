import { randomBytes } from 'node:crypto';
import { realFiles } from '../archive/files/real-files.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Removable } from '../catalog/removable.ts';
import type { RetentionSettings } from '../config/settings.ts';
import { importUnknownRun } from '../errors/import.ts';
import { retentionError } from '../errors/retention.ts';
import { IMPORT_HOST } from '../mail/import-host.ts';
import { importedMailbox } from '../mail/imported.ts';
import { matches } from '../mail/name-selection.ts';
import type { PurgedFact } from '../retention/carry-out.ts';
import { surveyPurge } from '../retention/survey.ts';
import type { KeptRun } from '../state/runs.ts';
import type { StateFile } from '../state/state-file.ts';
import type { Writer } from './archive/writer.ts';
import type { ForgetPlan } from './forget.ts';
import { heldByQueries, type PlanningContext } from './purge.ts';

/** An import that can be undone. */
interface ImportRun {
  /** The first of its commits, which names it. */
  readonly run: number;
  readonly mailbox: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly interrupted: boolean;
  /** Messages that it added. */
  readonly added: number;
  readonly commits: readonly [first: number, last: number];
}

/** Returns the imports that the state knows, the newest first. One that was killed ends where the next one begins. */
export function importRuns(state: Pick<StateFile, 'runs'> | undefined): ImportRun[] {
  const kept = state?.runs.list({ limit: Number.MAX_SAFE_INTEGER, kinds: ['import'] }) ?? [];
  let next = Number.MAX_SAFE_INTEGER;
  return kept.flatMap(({ commits, mailbox, startedAt, outcome, added }: KeptRun) => {
    if (commits === undefined || commits === null || mailbox === null) return [];
    const { first, last } = commits;
    const until = Math.min(last ?? Number.MAX_SAFE_INTEGER, next - 1);
    next = first;
    if (until < first) return [];
    const interrupted = outcome === 'interrupted';
    return [{ run: first, mailbox, startedAt, interrupted, added, commits: [first, until] }];
  });
}

/** Returns what an import added and is still there. */
export function remainsOf({ ended }: Pick<Catalog, 'ended'>, run: ImportRun): Removable {
  const { mailbox } = importedMailbox(run.mailbox);
  return ended.removable([{ host: IMPORT_HOST, mailbox, commits: run.commits }]);
}

/** Returns the import of this number. @throws import-unknown-run */
export function importRun(state: Pick<StateFile, 'runs'> | undefined, wanted: number): ImportRun {
  const runs = importRuns(state);
  const found = runs.find(({ run }) => run === wanted);
  if (found === undefined) throw importUnknownRun(wanted, runs.length);
  return found;
}

/**
 * Refuses to remove what is on hold.
 *
 * @throws forget-on-hold; retention-not-indexed, retention-bad-hold where a hold cannot be evaluated
 */
export function refuseHeld(
  context: PlanningContext,
  catalog: Catalog,
  state: Pick<StateFile, 'entries'> | undefined,
  holds: RetentionSettings['hold'],
  { parts, going }: Removable,
): void {
  const boxes = catalog.folders.mailboxes();
  const affected = boxes.filter((box) =>
    parts.some(({ host, mailbox }) => host === box.host && mailbox === box.mailbox),
  );
  for (const hold of holds) {
    if ('mailbox' in hold) {
      const { mailbox: name } = hold;
      const held = affected.find(
        ({ address, mailbox }) => matches(name, address) || matches(name, mailbox),
      );
      if (held === undefined) continue;
      throw retentionError('forget-on-hold', { hold: `mailbox ${name}`, messages: going.length });
    }
    const found = heldByQueries(context, catalog, state, [hold]);
    const messages = going.filter(({ docid }) => found.has(docid)).length;
    if (messages > 0) throw retentionError('forget-on-hold', { hold: hold.query, messages });
  }
}

/**
 * Finds in the log what goes with parts of mailboxes: every fact about them, and the messages that nothing else has.
 * These may come back, from a service or by another import.
 *
 * @throws log-damaged
 */
export async function planRemoval(
  { dataDir, segments }: Writer,
  { parts, going }: Removable,
  signal: AbortSignal,
): Promise<ForgetPlan> {
  // A fact needs a message: a number that names none.
  const message = randomBytes(32).toString('hex');
  const facts: PurgedFact[] = [
    { fact: 'purged', message, reason: 'forgotten', removed: parts },
    ...going.map(({ id }): PurgedFact => ({ fact: 'purged', message: id, reason: 'pruned' })),
  ];
  const wanted = {
    messages: new Set(going.map(({ id }) => id)),
    quarantined: new Map(),
    removed: { message, parts },
  };
  return { facts, survey: await surveyPurge(realFiles, dataDir, wanted, signal, segments) };
}
