import { listedText } from '../../mail/encoded-words.ts';
import { foldWord } from '../../search/normalise.ts';
import type { Connection } from '../connection.ts';
import { ROLE } from '../people.ts';
import { isAmong, isVisible, type Scope } from '../scope.ts';

/** Somebody whose address or name begins with what was typed. */
export interface Person {
  readonly address: string;
  /** As the newest of their messages gives it; null where none does. */
  readonly name: string | null;
  /** Messages sent to the address, and by it. */
  readonly received: number;
  readonly sent: number;
}

/** Rows between questions for the time. */
const ASKED_AFTER = 256;
/** People of the newest messages that are counted for one answer. */
const MOST_NAMED = 64;

/**
 * Returns people whose address begins so, or who are called so in the newest messages; those who were written to most
 * come first.
 *
 * @param mayContinue where it says no, addresses that come later in the alphabet are left out
 */
export function peopleCalled(
  connection: Connection,
  typed: string,
  limit: number,
  scope: Scope | null,
  mayContinue: () => boolean,
): Person[] {
  const prefix = typed.toLowerCase();
  const counts = new Map<string, { received: number; sent: number }>();
  let rows = 0;
  for (const { address, role, messages } of connection.text<Counted>(BY_ADDRESS(scope), [
    prefix,
    `${prefix}\u{10ffff}`,
  ])) {
    const sums = counts.get(address) ?? { received: 0, sent: 0 };
    counts.set(address, sums);
    sums[role === ROLE.recipient ? 'received' : 'sent'] += messages;
    rows += 1;
    if (rows % ASKED_AFTER === 0 && !mayContinue()) break;
  }
  const recent = recentSenders(connection, scope);
  for (const address of recent.called(typed).slice(0, MOST_NAMED)) {
    if (counts.has(address)) continue;
    const sums = { received: 0, sent: 0 };
    for (const { role, messages } of connection.text<Counted>(OF_ADDRESS(scope), [address]))
      sums[role === ROLE.recipient ? 'received' : 'sent'] += messages;
    // Nothing is recorded of an address whose messages are not indexed, or were forgotten.
    if (sums.received + sums.sent > 0) counts.set(address, sums);
  }
  return [...counts]
    .map(([address, sums]) => ({ address, name: recent.nameOf(address), ...sums }))
    .sort((a, b) => b.received - a.received || b.sent - a.sent || (a.address < b.address ? -1 : 1))
    .slice(0, limit);
}

interface Counted {
  readonly address: string;
  readonly role: number;
  readonly messages: number;
}

const counted = (scope: Scope | null, where: string) =>
  `SELECT a.address, c.role, c.messages
   FROM addresses a CROSS JOIN correspondents c ON c.address_id = a.id
   WHERE ${where} AND a.address NOT LIKE '@%'
     ${scope === null ? '' : `AND ${isAmong('c.mailboxes', scope)}`}`;
const BY_ADDRESS = (scope: Scope | null) =>
  `${counted(scope, 'a.address >= ? AND a.address < ?')} ORDER BY a.address`;
const OF_ADDRESS = (scope: Scope | null) => counted(scope, 'a.address = ?');

/** Messages whose senders are read for one answer. */
const READ = 2_000;
/** People that are remembered. */
const MOST_PEOPLE = 10_000;
/** Characters of a name, and words, that are looked at: strangers choose its length. */
const MOST_CHARACTERS = 200;
const MOST_WORDS = 12;

interface Sender {
  readonly docid: number;
  readonly sender_name: string | null;
  readonly sender_address: string | null;
}

interface RecentSender {
  readonly name: string | null;
  readonly words: readonly string[];
  messages: number;
}

/**
 * Who sent the newest messages, under which name: nothing else in the catalog knows names by their words. It reads some
 * more messages, further back, with each question.
 */
class RecentSenders {
  readonly #senders = new Map<string, RecentSender>();
  #newest = -1;
  #oldest = Number.MAX_SAFE_INTEGER;
  #forgotten = 0;

  constructor(private readonly connection: Connection) {}

  readFurther(scope: Scope | null): void {
    const forgotten = this.connection.first<number>('SELECT count(*) FROM tombstones', []) ?? 0;
    if (forgotten !== this.#forgotten) this.#clear();
    this.#forgotten = forgotten;
    const visible = scope === null ? '' : ` AND ${isVisible(scope)}`;
    const select = `SELECT docid, sender_name, sender_address FROM messages m WHERE`;
    const newer = this.connection.text<Sender>(
      `${select} docid > ?${visible} ORDER BY docid DESC LIMIT ${READ}`,
      [BigInt(this.#newest)],
    );
    const [first, ...rest] = newer;
    if (first !== undefined) {
      // So many at once leave a gap that nothing fills.
      if (this.#newest >= 0 && rest.length === READ - 1) this.#clear();
      for (const sender of [first, ...rest].reverse()) this.#note(sender, true);
    }
    if (this.#senders.size >= MOST_PEOPLE || (first !== undefined && rest.length === READ - 1))
      return;
    const older = this.connection.text<Sender>(
      `${select} docid < ?${visible} ORDER BY docid DESC LIMIT ${READ}`,
      [BigInt(this.#oldest)],
    );
    for (const sender of older) this.#note(sender, false);
  }

  /** Addresses of which a word of the name, or of the address, begins so; with several words, all of them. */
  called(typed: string): string[] {
    const wanted = wordsOf(typed);
    if (wanted.length === 0 && typed !== '') return [];
    return [...this.#senders]
      .filter(([, { words }]) =>
        wanted.every((start) => words.some((word) => word.startsWith(start))),
      )
      .sort(([, a], [, b]) => b.messages - a.messages)
      .map(([address]) => address);
  }

  nameOf(address: string): string | null {
    return this.#senders.get(address)?.name ?? null;
  }

  #note({ docid, sender_name, sender_address }: Sender, isNewer: boolean): void {
    this.#newest = Math.max(this.#newest, docid);
    this.#oldest = Math.min(this.#oldest, docid);
    const address = sender_address?.toLowerCase() ?? '';
    if (address === '') return;
    const known = this.#senders.get(address);
    if (known !== undefined) known.messages += 1;
    if (known !== undefined && !isNewer) return;
    const name = sender_name === null || sender_name === '' ? null : listedText(sender_name);
    const words = [...wordsOf(name ?? ''), ...wordsOf(address)];
    this.#senders.set(address, { name, words, messages: known?.messages ?? 1 });
  }

  #clear(): void {
    this.#senders.clear();
    this.#newest = -1;
    this.#oldest = Number.MAX_SAFE_INTEGER;
  }
}

function wordsOf(text: string): string[] {
  return (foldWord(text.slice(0, MOST_CHARACTERS)).match(/[\p{L}\p{N}\p{M}]+/gu) ?? []).slice(
    0,
    MOST_WORDS,
  );
}

/** Limits to mailboxes whose senders are remembered. */
const MOST_SCOPES = 16;
const RECENT = new WeakMap<Connection, Map<string, RecentSenders>>();

function recentSenders(connection: Connection, scope: Scope | null): RecentSenders {
  const known = RECENT.get(connection) ?? new Map<string, RecentSenders>();
  RECENT.set(connection, known);
  const key = scope === null ? 'all' : scope.mailboxes.join();
  const recent = known.get(key) ?? new RecentSenders(connection);
  if (known.size >= MOST_SCOPES) known.clear();
  known.set(key, recent);
  recent.readFurther(scope);
  return recent;
}
