import { createHash } from 'node:crypto';
import type { LogReader } from '../archive/log-reader.ts';
import type { MessageId } from '../core/types.ts';
import type { RestoreConnection, SelectedFolder } from './imap-connection.ts';
import { unreadableReason } from './plan-export.ts';
import type { PlannedMessage, RestorePlan } from './plan-restore.ts';
import type { PlanJournal } from './restore-journal.ts';

const CR = 0x0d;
const LF = 0x0a;
const HEADER_END = '\r\n\r\n';

/** Bytes in memory, or a function that yields them from the start on every call. */
export type Content = Buffer | (() => AsyncIterable<Buffer>);

/** A message as sent. Every line ends in CRLF, as required by IMAP (RFC 9051, 2.2) and enforced by Cyrus. */
export interface SentForm {
  readonly content: Content;
  readonly size: number;
  readonly header: number;
  /** The header, or the start of a long header. */
  readonly head: Buffer;
  /** True if the source has lines that end in a bare LF. */
  readonly endings: boolean;
  /** True if the source contains NUL bytes, which Dovecot replaces. */
  readonly nul: boolean;
  /** True if the header has bytes above 127, which Cyrus replaces. */
  readonly wideHeader: boolean;
}

/** Converts a source for sending. Returns the source itself if nothing changes. */
export function sentForm(source: Buffer): SentForm & { readonly content: Buffer } {
  const content = withCrlf(source, false);
  return {
    ...headerForm(content),
    content,
    size: content.length,
    endings: content !== source,
    nul: source.includes(0),
  };
}

/** @param start the message as sent, or as many bytes of it as a header can have */
function headerForm(start: Buffer): Pick<SentForm, 'header' | 'head' | 'wideHeader'> {
  const head = headerOf(start);
  return { header: head.length, head, wideHeader: head.some((byte) => byte > 127) };
}

/**
 * Replaces every bare LF with CRLF. Returns the piece itself if it has none.
 *
 * @param isAfterCr whether the previous piece ends in CR
 */
function withCrlf(source: Buffer, isAfterCr: boolean): Buffer {
  const isBare = (at: number): boolean => (at === 0 ? !isAfterCr : source[at - 1] !== CR);
  let bare = 0;
  for (let at = source.indexOf(LF); at >= 0; at = source.indexOf(LF, at + 1))
    if (isBare(at)) bare += 1;
  if (bare === 0) return source;
  const bytes = Buffer.allocUnsafe(source.length + bare);
  let from = 0;
  let to = 0;
  for (let at = source.indexOf(LF); at >= 0; at = source.indexOf(LF, at + 1)) {
    if (!isBare(at)) continue;
    to += source.copy(bytes, to, from, at);
    bytes[to] = CR;
    to += 1;
    from = at;
  }
  source.copy(bytes, to, from);
  return bytes;
}

function headerOf(bytes: Buffer): Buffer {
  const end = bytes.indexOf(HEADER_END);
  return end < 0 ? bytes : bytes.subarray(0, end + 2);
}

/** Larger sources are read in pieces. This takes two reads, because IMAP requires the length first. */
const WHOLE_BYTES = 4 * 1024 * 1024;
const HEAD_BYTES = 1024 * 1024;

type SourceReader = Pick<LogReader, 'readMessage' | 'streamMessage'>;

/** Reads a message for sending and checks its hash, or returns why it is unavailable. */
export async function readForm(
  reader: SourceReader,
  { id, size }: Pick<PlannedMessage, 'id' | 'size'>,
): Promise<SentForm | 'damaged' | 'purged'> {
  try {
    if (size <= WHOLE_BYTES) return sentForm(reader.readMessage(id));
    return await formInPieces(() => reader.streamMessage(id));
  } catch (error) {
    const reason = unreadableReason(error);
    if (reason === undefined) throw error;
    return reason;
  }
}

async function formInPieces(source: () => AsyncIterable<Buffer>): Promise<SentForm> {
  let [size, endings, nul] = [0, false, false];
  let start: Buffer = Buffer.alloc(0);
  const noteEndings = (): void => {
    endings = true;
  };
  for await (const piece of toCrlf(source(), noteEndings)) {
    size += piece.length;
    nul ||= piece.includes(0);
    if (start.length < HEAD_BYTES && !start.includes(HEADER_END))
      start = Buffer.concat([start, piece]);
  }
  return { ...headerForm(start), content: () => toCrlf(source()), size, endings, nul };
}

async function* toCrlf(
  source: AsyncIterable<Buffer>,
  onChange?: () => void,
): AsyncGenerator<Buffer, void, undefined> {
  let isAfterCr = false;
  for await (const piece of source) {
    if (piece.length === 0) continue;
    const bytes = withCrlf(piece, isAfterCr);
    if (bytes !== piece) onChange?.();
    yield bytes;
    isAfterCr = piece.at(-1) === CR;
  }
}

export function piecesOf(content: Content): Iterable<Buffer> | AsyncIterable<Buffer> {
  return Buffer.isBuffer(content) ? [content] : content();
}

/** Returns a lower-case hexadecimal hash, or undefined for more than `most` bytes. */
async function sha256Of(
  pieces: Iterable<Buffer> | AsyncIterable<Buffer>,
  most: number,
): Promise<string | undefined> {
  const hash = createHash('sha256');
  let size = 0;
  for await (const piece of pieces) {
    size += piece.length;
    if (size > most) return undefined;
    hash.update(piece);
  }
  return hash.digest('hex');
}

export function messageIdOf(bytes: Buffer): string | null {
  const lines = headerOf(bytes)
    .toString('latin1')
    .replace(/\r\n(?=[ \t])/g, '')
    .split('\r\n');
  const line = lines.find((one) => /^message-id[ \t]*:/i.test(one));
  return line === undefined ? null : plainMessageId(line.slice(line.indexOf(':') + 1));
}

/** Removes brackets, surrounding text and white space, because programs unfold long lines differently. */
function plainMessageId(text: string | null): string | null {
  if (text === null) return null;
  const start = text.indexOf('<');
  const close = text.indexOf('>', start);
  const id = (start >= 0 && close > start ? text.slice(start + 1, close) : text).replace(/\s/g, '');
  return id === '' ? null : id;
}

/** Reports whether a server could have caused this difference in size by adding or removing CR bytes. */
export function isSimilarSize(sent: number, there: number): boolean {
  return Math.abs(sent - there) * 10 <= sent;
}

/**
 * Compares as many bytes as both sides have, and adds known server changes to `found`.
 *
 * @param sent the next bytes sent, empty only at the end
 * @param there the server's next bytes, also empty only at the end
 * @param headerBytes number of sent bytes that belong to the header
 * @returns number of bytes compared on each side; undefined if the messages differ
 */
function compareNext(sent: Buffer, there: Buffer, headerBytes: number, found: Set<Alteration>) {
  const shared = Math.min(sent.length, there.length);
  if (shared > 0 && sent.compare(there, 0, shared, 0, shared) === 0)
    return { sent: shared, there: shared };
  let [i, at] = [0, 0];
  const isOpen = (): boolean =>
    shared === 0 ? i < sent.length || at < there.length : i < sent.length && at < there.length;
  while (isOpen()) {
    const [ours, theirs] = [sent[i], there[at]];
    if (ours !== theirs && (ours === CR || theirs === CR)) {
      // Dovecot keeps bare LFs and stores CR CR LF as CR LF.
      found.add('carriage-returns');
      if (ours === CR) i += 1;
      else at += 1;
      continue;
    }
    if (ours !== theirs) {
      if (ours === undefined || theirs === undefined) return undefined;
      if (ours === 0) found.add('nul');
      else if (ours > 127 && i < headerBytes) found.add('header-bytes');
      else return undefined;
    }
    i += 1;
    at += 1;
  }
  return { sent: i, there: at };
}

export async function changesIn(
  { header, content }: Pick<SentForm, 'header' | 'content'>,
  there: Iterable<Buffer> | AsyncIterable<Buffer>,
): Promise<readonly Alteration[] | undefined> {
  const found = new Set<Alteration>();
  const sides = { sent: new Side(piecesOf(content)), there: new Side(there) };
  try {
    for (let at = 0; ; ) {
      const [ours, theirs] = [await sides.sent.rest(), await sides.there.rest()];
      if (ours.length === 0 && theirs.length === 0) return [...found];
      const done = compareNext(ours, theirs, header - at, found);
      if (done === undefined) return undefined;
      at += done.sent;
      sides.sent.skip(done.sent);
      sides.there.skip(done.there);
    }
  } finally {
    await sides.sent.close();
    await sides.there.close();
  }
}

class Side {
  readonly #pieces: Iterator<Buffer> | AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(pieces: Iterable<Buffer> | AsyncIterable<Buffer>) {
    this.#pieces =
      Symbol.asyncIterator in pieces ? pieces[Symbol.asyncIterator]() : pieces[Symbol.iterator]();
  }

  async rest(): Promise<Buffer> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#pieces.next();
      if (done === true) break;
      this.#rest = value;
    }
    return this.#rest;
  }

  skip(bytes: number): void {
    this.#rest = this.#rest.subarray(bytes);
  }

  async close(): Promise<void> {
    await this.#pieces.return?.();
  }
}

/** Servers alter dates outside this range: Dovecot turns 1901 into 2037, Cyrus turns 1970-01-01 into the present. */
const FIRST_DATE = Date.UTC(1970, 0, 2);
const LAST_DATE = Date.UTC(2038, 0, 18);

/** Moves a received date (milliseconds since the epoch) into the range that servers can store. */
export function fitDate(received: number): { readonly date: number; readonly clamped: boolean } {
  const date = Math.min(LAST_DATE, Math.max(FIRST_DATE, received));
  return { date, clamped: date !== received };
}

const NEVER_SENT: ReadonlySet<string> = new Set(['\\recent', '\\deleted']);
/** A keyword is an atom (RFC 9051, section 9): no spaces, quotes, brackets, wildcards or non-ASCII letters. */
const FLAG = /^\\?[!#$&'+,\-./0-9:;<=>?@A-Z[^_`a-z|}~]+$/;

/**
 * Sorts a message's flags. Omits `\Recent`, which only servers set, and `\Deleted`, because clients would expunge the
 * message. Refuses flags that the folder does not store or IMAP cannot express.
 *
 * @param permanent the folder's PERMANENTFLAGS; null if the server sent none, which allows all flags (RFC 3501, 7.1)
 */
export function fitFlags(flags: readonly string[], permanent: readonly string[] | null) {
  const allowed = permanent === null ? null : new Set(permanent.map((flag) => flag.toLowerCase()));
  const [kept, leftOut, refused]: [string[], string[], string[]] = [[], [], []];
  for (const flag of flags) {
    const key = flag.toLowerCase();
    const isKeyword = !flag.startsWith('\\');
    const isAllowed =
      FLAG.test(flag) &&
      (allowed === null || allowed.has(key) || (isKeyword && allowed.has('\\*')));
    if (NEVER_SENT.has(key)) leftOut.push(flag);
    else if (isAllowed) kept.push(flag);
    else refused.push(flag);
  }
  return { kept, leftOut, refused };
}

export function fitMessage(
  { flags, received }: { readonly flags: readonly string[]; readonly received: number | null },
  permanent: readonly string[] | null,
): {
  readonly flags: readonly string[];
  /** Null makes the server use the current time. */
  readonly date: Date | null;
  readonly altered: readonly Alteration[];
} {
  const altered: Alteration[] = [];
  const { kept, refused } = fitFlags(flags, permanent);
  if (refused.length > 0) altered.push('flags');
  const fitted = received === null ? null : fitDate(received);
  if (fitted === null || fitted.clamped) altered.push('date');
  return { flags: kept, date: fitted === null ? null : new Date(fitted.date), altered };
}

export type Alteration =
  /** Lines ending in a bare LF were sent with CRLF. */
  'line-endings' | 'carriage-returns' | 'nul' | 'header-bytes' | 'bytes' | 'date' | 'flags';

/** Limits in bytes; null if the server advertises none. */
interface SizeLimits {
  readonly appendLimit: number | null;
  readonly quotaLeft: number | null;
}

type SizeRefusal = 'append-limit' | 'quota';

/**
 * Predicts why the server will refuse each message, or null. Skips messages that would exceed the quota, so that
 * smaller messages after them may still fit.
 *
 * @param sizes bytes as sent, in sending order
 */
export function fitSizes(
  sizes: readonly number[],
  { appendLimit, quotaLeft }: SizeLimits,
): (SizeRefusal | null)[] {
  let left = quotaLeft ?? Number.POSITIVE_INFINITY;
  return sizes.map((size) => {
    if (appendLimit !== null && size > appendLimit) return 'append-limit';
    if (size > left) return 'quota';
    left -= size;
    return null;
  });
}

interface ExpectedMessage {
  readonly id: MessageId;
  readonly messageId: string | null;
  readonly size: number;
}

export interface FoundMessage {
  readonly uid: number;
  readonly messageId: string | null;
  readonly size: number;
}

interface Group {
  readonly wanted: number[];
  readonly found: FoundMessage[];
  readonly ids: Set<MessageId>;
}

/**
 * Returns the uid of each wanted message already on the server, by position in `expected`. A message wanted twice must
 * be there twice. Message-ID and size identify a message, unless it has no Message-ID, or a different wanted message
 * has the same ones. Then its bytes must be compared.
 *
 * @param idOf reads a message and returns its id; undefined if it has since been removed
 */
export async function matchExisting(
  expected: readonly ExpectedMessage[],
  found: readonly FoundMessage[],
  idOf: (uid: number) => Promise<MessageId | undefined>,
): Promise<Map<number, number>> {
  const groups = new Map<string, Group>();
  for (const [position, message] of expected.entries()) {
    const key = toKey(message);
    const group = groups.get(key) ?? { wanted: [], found: [], ids: new Set() };
    groups.set(key, group);
    group.wanted.push(position);
    group.ids.add(message.id);
  }
  for (const message of found) groups.get(toKey(message))?.found.push(message);
  const matched = new Map<number, number>();
  for (const group of groups.values()) {
    const [only, another] = group.ids;
    const free = new Map<MessageId, number[]>();
    for (const { uid, messageId } of group.found) {
      const id = another === undefined && messageId !== null ? only : await idOf(uid);
      if (id !== undefined) free.set(id, [...(free.get(id) ?? []), uid]);
    }
    for (const position of group.wanted) {
      const id = expected[position]?.id;
      const uid = id === undefined ? undefined : free.get(id)?.shift();
      if (uid !== undefined) matched.set(position, uid);
    }
  }
  return matched;
}

function toKey({ messageId, size }: Pick<FoundMessage, 'messageId' | 'size'>): string {
  return JSON.stringify([messageId, size]);
}

/**
 * Milliseconds to wait before checking a folder. The server may still be executing an APPEND whose response was lost.
 */
const UNKNOWN_FOR = 10_000;

/**
 * Returns how many milliseconds to wait before checking a folder.
 *
 * @param since time of the APPEND, possibly in the future if the clock was set back
 */
export function msUntilSettled(since: number, now: number): number {
  return Math.min(UNKNOWN_FOR, Math.max(0, since + UNKNOWN_FOR - now));
}

interface LookDeps {
  readonly plan: RestorePlan;
  readonly connection: RestoreConnection;
  readonly journal: PlanJournal | null;
  readonly read: (message: PlannedMessage) => Promise<SentForm | undefined>;
}

/**
 * Finds messages that the server already has in a folder. Matches journaled messages by uid, others by Message-ID and
 * size, and by bytes if necessary. Each message on the server matches at most one planned message.
 *
 * @param folder number in the plan
 * @returns the number of journaled messages that were lost when the folder was deleted
 */
export async function matchFolder(
  deps: LookDeps,
  folder: number,
  selected: SelectedFolder,
): Promise<number> {
  const { plan, connection, journal } = deps;
  const lost = journal?.lost(selected) ?? 0;
  const journaled = journaledUids(journal, selected);
  const found: FoundMessage[] = [];
  const there = new Set<number>();
  for (const message of await connection.messages(1)) {
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
  const listed = await settleMatches(deps, wanted, found, toListed);
  // Bare LFs change the size, and a listing can lack the Message-ID that the header has.
  const exact = await settleMatches(deps, possibleMatches(listed), listed.found, (message) =>
    toSent(deps, message),
  );
  await settleChanged(deps, exact);
  for (const message of plan.due(folder))
    if (journaled.open.has(message.id)) plan.sentAgain(message.seq);
  return lost;
}

function journaledUids(journal: PlanJournal | null, selected: SelectedFolder) {
  const entries = journal?.entries(selected) ?? [];
  // Forget these entries: the folder's contents now show whether the messages arrived.
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
    const entry = byId.get(id);
    if (entry === undefined) byId.set(id, [uid]);
    else entry.push(uid);
  }
  return { uids, byId, open };
}

interface Unsettled {
  readonly wanted: readonly PlannedMessage[];
  readonly found: readonly FoundMessage[];
}

/** Returns the wanted messages that may be among the found ones. */
function possibleMatches({ wanted, found }: Unsettled): PlannedMessage[] {
  if (found.length === 0) return [];
  const ids = new Set(found.map(({ messageId }) => messageId));
  return wanted.filter(({ messageId }) => {
    const id = plainMessageId(messageId);
    return id === null || ids.has(id);
  });
}

/** Maximum number of messages to read from the server to find one archived message. */
const MAX_READ = 5;

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
    const distance = ({ size }: FoundMessage): number => Math.abs(size - form.size);
    // Messages without a Message-ID are candidates for one another.
    const nearest = candidates
      .filter(({ size }) => isSimilarSize(form.size, size))
      .toSorted((a, b) => distance(a) - distance(b));
    for (const one of nearest.slice(0, MAX_READ)) {
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
  describe: (message: PlannedMessage) => ExpectedMessage | Promise<ExpectedMessage>,
): Promise<Unsettled> {
  const wanted: ExpectedMessage[] = [];
  for (const message of messages) wanted.push(await describe(message));
  const sizes = new Map(found.map(({ uid, size }) => [uid, size]));
  const matched = await matchExisting(wanted, found, (uid) =>
    sha256Of(connection.pieces(uid), sizes.get(uid) ?? 0),
  );
  for (const [position, uid] of matched) {
    const message = messages[position];
    if (message !== undefined) plan.present(message.seq, uid, false);
  }
  const uids = new Set(matched.values());
  return {
    wanted: messages.filter((_, position) => !matched.has(position)),
    found: found.filter(({ uid }) => !uids.has(uid)),
  };
}

function toListed({ id, messageId, size }: PlannedMessage): ExpectedMessage {
  return { id, messageId: plainMessageId(messageId), size };
}

async function toSent({ read }: LookDeps, message: PlannedMessage): Promise<ExpectedMessage> {
  const form = await read(message);
  if (form === undefined) return toListed(message);
  const id = (await sha256Of(piecesOf(form.content), form.size)) ?? message.id;
  return { id, messageId: messageIdOf(form.head), size: form.size };
}
