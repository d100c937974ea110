import { createHash } from 'node:crypto';
import type { Holder, Note } from '../registry/hints.ts';

/** That something may be new in an account. Names no address: whoever may connect to the database can listen. */
export interface FleetHint {
  readonly archive: number;
  /** What `mailboxMark` returns for the mailbox; null if it is not known which one it is. */
  readonly mailbox: string | null;
  /** The message in INBOX that it is about. */
  readonly uid: number | null;
}

/** The hints of one note. */
export interface HintNote {
  /** The process that sends. */
  readonly sender: string;
  /** How many hints it has sent to this session, these among them: a gap is what was lost. */
  readonly sum: number;
  readonly hints: readonly FleetHint[];
}

const MARK_BYTES = 8;
/** NOTIFY takes less than 8,000 bytes; all of a note is ASCII. */
const MOST_BYTES = 7_900;
const NOTE = /^([\w-]{1,22}) (\d{1,15}) (.+)$/;
const HINT = /^(\d{1,15})\/([\w-]{11})?\/(\d{1,16})?$/;

/**
 * Returns what a mailbox is called in hints, by its resource id or its address: a hash, so that notes have no addresses.
 *
 * @param fleet the UUID of the fleet
 */
export function mailboxMark(fleet: string, idOrAddress: string): string {
  const hash = createHash('sha256').update(`${fleet} ${idOrAddress.toLowerCase()}`).digest();
  return hash.subarray(0, MARK_BYTES).toString('base64url');
}

interface Marked {
  readonly resourceId: string;
  readonly address: string;
}

/** The mailboxes of an account by what hints call them, as long as the account lists the same. */
export class MailboxMarks {
  #marks: ReadonlyMap<string, Marked> = new Map();
  #of = '';

  constructor(private readonly fleet: string) {}

  /** Returns the mailboxes that a mark stands for: one, or none. */
  named<Mailbox extends Marked>(listed: readonly Mailbox[], mark: string): readonly Mailbox[] {
    const of = JSON.stringify(listed.map(({ resourceId, address }) => [resourceId, address]));
    if (of !== this.#of) {
      this.#of = of;
      this.#marks = new Map(
        listed.flatMap((one) =>
          [one.address, one.resourceId].map((text) => [mailboxMark(this.fleet, text), one]),
        ),
      );
    }
    const found = this.#marks.get(mark)?.resourceId;
    return listed.filter(({ resourceId }) => resourceId === found);
  }
}

/** Counts what a process sent to each session. Sessions never come back, so only the latest are remembered. */
export class SentSums {
  readonly #sums = new Map<string, number>();

  constructor(private readonly most = 10_000) {}

  /** Adds hints to a session, and returns their number so far. */
  add(session: string, hints: number): number {
    const sum = (this.#sums.get(session) ?? 0) + hints;
    this.#sums.delete(session);
    this.#sums.set(session, sum);
    const [oldest] = this.#sums.keys();
    if (this.#sums.size > this.most && oldest !== undefined) this.#sums.delete(oldest);
    return sum;
  }
}

/**
 * Returns the notes that have hints for those who hold the accounts: one a session, more only if it would be too long. Pure
 * but for the sums.
 */
export function notesFor(
  hints: readonly FleetHint[],
  holders: readonly Holder[],
  sender: string,
  sums: SentSums,
): Note[] {
  const sessionOf = new Map(holders.map(({ archive, session }) => [archive, session]));
  const bySession = new Map<string, string[]>();
  for (const hint of hints) {
    const session = sessionOf.get(hint.archive);
    if (session === undefined) continue;
    const texts = bySession.get(session) ?? [];
    texts.push(textOf(hint));
    bySession.set(session, texts);
  }
  return [...bySession].flatMap(([session, texts]) =>
    inParts(texts).map((part) => {
      const sum = sums.add(session, part.length);
      return { session, payload: `${sender} ${sum} ${part.join(',')}` };
    }),
  );
}

function inParts(texts: readonly string[]): string[][] {
  const parts: string[][] = [[]];
  let bytes = 0;
  // The sender and the sum take 40 bytes at most.
  const room = MOST_BYTES - 40;
  for (const text of texts) {
    if (bytes + text.length + 1 > room) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)?.push(text);
    bytes += text.length + 1;
  }
  return parts;
}

/** Reads a note; undefined for anything else that somebody may have sent. */
export function readNote(payload: string): HintNote | undefined {
  const [, sender, sum, list] = NOTE.exec(payload) ?? [];
  if (sender === undefined || list === undefined) return undefined;
  const hints: FleetHint[] = [];
  for (const text of list.split(',')) {
    const [whole, archive, mailbox = null, uid] = HINT.exec(text) ?? [];
    if (whole === undefined) return undefined;
    hints.push({
      archive: Number(archive),
      mailbox,
      uid: uid === undefined ? null : Number(uid),
    });
  }
  return { sender, sum: Number(sum), hints };
}

/** What a session heard from each sender, and so what it did not hear. */
export class HeardSums {
  readonly #sums = new Map<string, number>();

  constructor(private readonly most = 1_000) {}

  /** Returns how many hints were lost between the last note of the sender and this one. */
  lostBefore({ sender, sum, hints }: HintNote): number {
    // The first note to a session has only its own hints, and a session listens before it claims.
    const before = this.#sums.get(sender) ?? 0;
    this.#sums.delete(sender);
    this.#sums.set(sender, sum);
    const [oldest] = this.#sums.keys();
    if (this.#sums.size > this.most && oldest !== undefined) this.#sums.delete(oldest);
    return Math.max(0, sum - before - hints.length);
  }
}

function textOf({ archive, mailbox, uid }: FleetHint): string {
  return `${archive}/${mailbox ?? ''}/${uid ?? ''}`;
}
