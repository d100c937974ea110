import type { SeenMessage, ServerConnection } from './imap-connection.ts';
import type { AppendedMessage, NamedMessage, PlannedMessage, RestorePlan } from './plan-restore.ts';
import {
  type Alteration,
  changesIn,
  fitDate,
  fitFlags,
  isNear,
  type SentForm,
} from './restore-comparison.ts';

/** One message in so many is fetched and compared by its bytes, and the first ones of each folder. */
const SAMPLED = 100;
const FIRST = 3;

/** A message that the server has once more than it should: its answer was lost, and it was sent again. */
export interface DoubledMessage extends NamedMessage {
  /** On the server. */
  readonly doubleUid: number;
}

export interface SecondLook {
  /** Messages whose uid, size, flags and date were compared. */
  readonly compared: number;
  /** Messages whose bytes were fetched and compared. */
  readonly fetched: number;
  /** Messages that the server has taken and does not show. */
  readonly lost: readonly NamedMessage[];
  readonly doubled: readonly DoubledMessage[];
}

/** A message whose bytes may have to be compared. */
interface Due {
  readonly message: AppendedMessage;
  /** Bytes as the server lists it. */
  readonly size: number;
  /** False of what an earlier run has sent: its source says whether servers change it. */
  readonly isSure: boolean;
}

interface LookDeps {
  readonly plan: RestorePlan;
  readonly read: (message: PlannedMessage) => Promise<SentForm | 'damaged' | 'purged'>;
  readonly inTurn: <T>(size: number, act: () => Promise<T>) => Promise<T>;
}

/**
 * Looks at the selected folder once everything is in it: at uid, size, flags and date of every message that this plan
 * has appended, and at the bytes of a sample and of all that servers are known to change. May be repeated.
 */
export async function secondLook(
  deps: LookDeps,
  connection: ServerConnection,
  folder: number,
  permanentFlags: readonly string[] | null,
): Promise<SecondLook> {
  const { plan } = deps;
  const strangers: { readonly uid: number; readonly size: number }[] = [];
  const due: Due[] = [];
  const again = [...plan.again(folder)];
  let compared = 0;
  for await (const seen of connection.looks(1)) {
    const message = plan.appendedAs(folder, seen.uid);
    if (message === undefined) {
      if (again.length > 0) strangers.push(seen);
      continue;
    }
    compared += 1;
    plan.seen(message.seq);
    const altered = alterationsSeen(message, seen, permanentFlags);
    if (altered.length > 0) plan.alter(message.seq, altered);
    const isSure =
      compared <= FIRST ||
      Number.parseInt(message.id.slice(0, 6), 16) % SAMPLED === 0 ||
      (message.sent !== null && message.sent !== seen.size) ||
      message.isDelicate;
    if (isSure || message.sent === null) due.push({ message, size: seen.size, isSure });
  }
  let fetched = 0;
  for (const one of due) {
    await deps.inTurn(one.message.size, async () => {
      if (await compareBytes(deps, connection, one)) fetched += 1;
    });
  }
  const lost = [...plan.unseen(folder)].map(({ seq }) => plan.named(seq));
  return { compared, fetched, lost, doubled: await doubles(deps, connection, strangers, again) };
}

/** What flags and date of a message differ in from what was sent. */
function alterationsSeen(
  { flags, received }: PlannedMessage,
  seen: SeenMessage,
  permanentFlags: readonly string[] | null,
): Alteration[] {
  const there = new Set([...seen.flags].map((flag) => flag.toLowerCase()));
  const { kept } = fitFlags(flags, permanentFlags);
  const altered: Alteration[] = [];
  if (kept.some((flag) => !there.has(flag.toLowerCase()))) altered.push('flags');
  // Servers keep whole seconds.
  const sent = received === null ? null : Math.floor(fitDate(received).date / 1000);
  if (sent !== null && sent !== Math.floor(seen.date / 1000)) altered.push('date');
  return altered;
}

/** False where nothing was fetched: it need not be, the message is gone by now, or its source cannot be read. */
async function compareBytes(
  { plan, read }: LookDeps,
  connection: ServerConnection,
  { message, size, isSure }: Due,
): Promise<boolean> {
  const form = await read(message);
  if (typeof form === 'string') return false;
  if (!isSure && form.size === size && !form.nul && !form.wideHeader) {
    if (form.endings) plan.alter(message.seq, ['line-endings']);
    return false;
  }
  let isThere = false;
  const there = async function* () {
    for await (const piece of connection.pieces(message.uid)) {
      isThere = true;
      yield piece;
    }
  };
  const changes = await changesIn(form, there());
  if (!isThere) return false;
  const altered: Alteration[] = form.endings ? ['line-endings'] : [];
  altered.push(...(changes ?? ['bytes']));
  if (altered.length > 0) plan.alter(message.seq, altered);
  return true;
}

/** Messages that nobody but this run can have put there twice. */
async function doubles(
  { plan, read }: LookDeps,
  connection: ServerConnection,
  strangers: readonly { readonly uid: number; readonly size: number }[],
  again: readonly PlannedMessage[],
): Promise<DoubledMessage[]> {
  const doubled: DoubledMessage[] = [];
  const taken = new Set<number>();
  for (const message of again) {
    const form = await read(message);
    if (typeof form === 'string') continue;
    for (const { uid, size } of strangers) {
      if (taken.has(uid) || !isNear(form.size, size)) continue;
      if ((await changesIn(form, connection.pieces(uid))) === undefined) continue;
      taken.add(uid);
      doubled.push({ ...plan.named(message.seq), doubleUid: uid });
    }
  }
  return doubled;
}
