import { changesIn } from './comparison.ts';
import {
  isNear,
  messageIdOf,
  piecesOf,
  plainMessageId,
  type SentForm,
  sha256Of,
} from './content.ts';
import type { PlanJournal } from './journal.ts';
import type { PlannedMessage, RestorePlan } from './plan.ts';
import { type FoundMessage, matchPresent, uidsToRead, type WantedMessage } from './present.ts';
import type { SelectedFolder, ServerConnection } from './server.ts';

/** An APPEND whose answer was lost may still be carried out: the folder is not looked at earlier, in milliseconds. */
const UNKNOWN_FOR = 10_000;

/**
 * Returns for how many milliseconds a folder is not looked at yet.
 *
 * @param since when the APPEND was sent; later than now if the clock was set back
 */
export function restOfUnknown(since: number, now: number): number {
  return Math.min(UNKNOWN_FOR, Math.max(0, since + UNKNOWN_FOR - now));
}

export interface LookDeps {
  readonly plan: RestorePlan;
  readonly connection: ServerConnection;
  /** Null before a plan is journaled. */
  readonly journal: PlanJournal | null;
  /** Returns a message as it is sent; undefined where its bytes are not there or damaged. */
  readonly read: (message: PlannedMessage) => Promise<SentForm | undefined>;
}

/**
 * Finds out which messages of a folder the server has already. Those that the journal has appended are recognised by
 * their uids, others by Message-ID and size, and by their bytes where that says too little. One found message stands for
 * one planned message.
 *
 * @param folder its number in the plan
 * @returns how many journaled messages went with an earlier folder of that name
 */
export async function lookAtFolder(
  deps: LookDeps,
  folder: number,
  selected: SelectedFolder,
): Promise<number> {
  const { plan, connection, journal } = deps;
  const lost = journal?.lost(selected) ?? 0;
  const journaled = journaledUids(journal, selected);
  const found: FoundMessage[] = [];
  const there = new Set<number>();
  for await (const message of connection.messages(1)) {
    there.add(message.uid);
    if (!journaled.uids.has(message.uid)) found.push(message);
  }
  const wanted: PlannedMessage[] = [];
  for (const message of plan.due(folder)) {
    const uid = journaled.byId.get(message.id)?.find((one) => there.has(one));
    if (uid === undefined) wanted.push(message);
    else {
      there.delete(uid);
      plan.present(message.seq, uid, true);
    }
  }
  const listed = await settleMatches(deps, wanted, found, asListed);
  // Bare line feeds change the size, and a listing may lack a Message-ID that is in the header.
  const exact = await settleMatches(deps, near(listed), listed.found, (message) =>
    asSent(deps, message),
  );
  await settleChanged(deps, exact);
  for (const message of plan.due(folder))
    if (journaled.open.has(message.id)) plan.sentAgain(message.seq);
  return lost;
}

/** What the journal has appended to a folder. */
function journaledUids(journal: PlanJournal | null, selected: SelectedFolder) {
  const entries = journal?.entries(selected) ?? [];
  // From here on the folder's content says whether they are there.
  const open = new Set<string>();
  for (const { number, id, isSettled } of entries) {
    if (isSettled) continue;
    journal?.forget(number);
    open.add(id);
  }
  const uids = new Set<number>();
  const byId = new Map<string, number[]>();
  for (const { id, uid } of entries) {
    if (uid === null) continue;
    uids.add(uid);
    const known = byId.get(id);
    if (known === undefined) byId.set(id, [uid]);
    else known.push(uid);
  }
  return { uids, byId, open };
}

/** Messages that have not been found, and messages of the folder that nobody has claimed. */
interface Unsettled {
  readonly wanted: readonly PlannedMessage[];
  readonly found: readonly FoundMessage[];
}

/** Only wanted messages without a listed Message-ID, or with one that a found message has. */
function near({ wanted, found }: Unsettled): PlannedMessage[] {
  if (found.length === 0) return [];
  const ids = new Set(found.map(({ messageId }) => messageId));
  return wanted.filter(({ messageId }) => {
    const plain = plainMessageId(messageId);
    return plain === null || ids.has(plain);
  });
}

/** How many messages of the folder are read to find one of the archive there. */
const MOST_READ = 5;

/** Settles messages that the server has with other bytes, where it is known how servers change them. */
async function settleChanged(
  { plan, connection, read }: LookDeps,
  { wanted, found }: Unsettled,
): Promise<void> {
  if (found.length === 0) return;
  const free = new Map<string | null, FoundMessage[]>();
  for (const one of found) free.set(one.messageId, [...(free.get(one.messageId) ?? []), one]);
  for (const message of wanted) {
    const form = await read(message);
    if (form === undefined) continue;
    const candidates = free.get(messageIdOf(form.head)) ?? [];
    const away = ({ size }: FoundMessage): number => Math.abs(size - form.size);
    // Without a Message-ID, all that have none are candidates.
    const nearest = candidates
      .filter(({ size }) => isNear(form.size, size))
      .toSorted((a, b) => away(a) - away(b));
    for (const one of nearest.slice(0, MOST_READ)) {
      if ((await changesIn(form, connection.pieces(one.uid))) === undefined) continue;
      plan.present(message.seq, one.uid, false);
      candidates.splice(candidates.indexOf(one), 1);
      break;
    }
  }
}

async function settleMatches(
  { plan, connection }: LookDeps,
  messages: readonly PlannedMessage[],
  found: readonly FoundMessage[],
  describe: (message: PlannedMessage) => WantedMessage | Promise<WantedMessage>,
): Promise<Unsettled> {
  const wanted: WantedMessage[] = [];
  for (const message of messages) wanted.push(await describe(message));
  const hashes = new Map<number, string>();
  const sizes = new Map(found.map(({ uid, size }) => [uid, size]));
  for (const uid of uidsToRead(wanted, found)) {
    const hash = await sha256Of(connection.pieces(uid), sizes.get(uid) ?? 0);
    if (hash !== undefined) hashes.set(uid, hash);
  }
  const matched = matchPresent(wanted, found, (uid) => hashes.get(uid));
  for (const [position, uid] of matched) {
    const message = messages[position];
    if (message !== undefined) plan.present(message.seq, uid, false);
  }
  const taken = new Set(matched.values());
  return {
    wanted: messages.filter((_, position) => !matched.has(position)),
    found: found.filter(({ uid }) => !taken.has(uid)),
  };
}

function asListed({ id, messageId, size }: PlannedMessage): WantedMessage {
  return { id, messageId: plainMessageId(messageId), size };
}

async function asSent({ read }: LookDeps, message: PlannedMessage): Promise<WantedMessage> {
  const form = await read(message);
  if (form === undefined) return asListed(message);
  const id = (await sha256Of(piecesOf(form.content), form.size)) ?? message.id;
  return { id, messageId: messageIdOf(form.head), size: form.size };
}
