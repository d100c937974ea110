/**
 * The commands of a mirror: LIST, STATUS, EXAMINE, UNSELECT, UID SEARCH, UID FETCH with PEEK, NOOP and GETQUOTAROOT.
 * None of them changes anything at the server. Answers are parsed strictly: what does not add up is an error, never a
 * shorter answer.
 */
import type { CountedFlag, FlagSet, Listing } from '../core/types.ts';
import type { ImapSession, SelectedFolder } from './connection.ts';
import { codeOf, lossError, PIECE_BYTES } from './connection-errors.ts';
import { imapError } from './errors.ts';
import { readEnvelope, readFlags, stableIds } from './listing-record.ts';
import {
  astring,
  type DataResponse,
  decimal,
  decodeMailbox,
  encodeMailbox,
  formatDay,
  formatUidSet,
  isList,
  MAX_UINT32,
  MalformedResponse,
  objectId,
  pairs,
  parseDateTime,
  parseUidSet,
  quoted,
  type StatusResponse,
  sortedUids,
  uint32,
  type Value,
} from './response.ts';

/** Response codes of a tagged OK whose answer is not complete (RFC 9738; RFC 5530; RFC 2180). */
const INCOMPLETE: ReadonlySet<string> = new Set(['MESSAGELIMIT', 'LIMIT', 'EXPUNGEISSUED']);
/** More than any real mailbox has. Each folder costs memory throughout a sync run. */
const MAX_FOLDERS = 20_000;
const MAX_NAME_BYTES = 16 * 1024 * 1024;
/** Messages of one folder. Their uids take four bytes each. */
const MAX_UIDS = 10_000_000;
const UIDS_PER_SEARCH = 50_000;
/** Status commands sent together. */
const STATUSES_AT_ONCE = 50;

/** A folder's counts and epoch, from STATUS (RFC 9051, section 6.3.11). */
export interface FolderStatus {
  readonly messages: number;
  readonly unseen: number;
  readonly uidNext: number | null;
  /** Null if it is missing or 0. */
  readonly uidValidity: string | null;
  /** Null if the folder has no modification sequences. */
  readonly highestModSeq: string | null;
}

export interface ServerFolder {
  /** The name as sent by the server, one character per byte. */
  readonly wireName: string;
  /** The decoded name, or the name as sent if it is not valid modified UTF-7. */
  readonly path: string;
  /** Empty if the server has no hierarchy. */
  readonly delimiter: string;
  readonly specialUse: string | null;
  readonly status: FolderStatus;
}

interface ServerFolders {
  readonly folders: readonly ServerFolder[];
  /** Paths of shared folders and those of other users that are not wanted. */
  readonly leftOut: readonly string[];
  /** Folders that exist, but whose status was refused or whose name cannot be sent. */
  readonly refused: number;
  /** False if the server refuses NAMESPACE: folders of others are then among the user's own. */
  readonly tellsForeign: boolean;
}

/** RFC 6154 and RFC 8457, in order of precedence for folders with several. */
const SPECIAL_USES = ['Sent', 'Drafts', 'Trash', 'Junk', 'Archive', 'All', 'Flagged', 'Important'];

interface FoundFolder {
  readonly delimiter: string;
  readonly attributes: ReadonlySet<string>;
}

/**
 * Lists all folders that can be opened, with their counts. Takes one command with LIST-STATUS (RFC 5819).
 *
 * @param isWanted selects from shared folders and those of other users, by path; none by default
 * @param hasNamespaces true if the server has answered NAMESPACE before, so that a refusal is an error
 * @throws imap.incomplete, imap.too-large, and the errors of `ImapSession.run`
 */
export async function listFolders(
  session: ImapSession,
  isWanted: (path: string) => boolean = () => false,
  hasNamespaces = false,
): Promise<ServerFolders> {
  const tellsForeign = session.knowsForeign || !(await refusesNamespace(session, hasNamespaces));
  await unselect(session);
  const items = statusItems(session);
  const uses = session.has('SPECIAL-USE') ? 'SPECIAL-USE ' : '';
  const suffix = session.has('LIST-STATUS')
    ? ` RETURN (${uses}STATUS (${items}))`
    : uses !== '' && session.has('LIST-EXTENDED')
      ? ' RETURN (SPECIAL-USE)'
      : '';
  const found = new Map<string, FoundFolder>();
  const statuses = new Map<string, FolderStatus>();
  let bytes = 0;
  let nonexistences = 0;
  const ok = await session.run('LIST', `LIST "" "*"${suffix}`, (response) => {
    if ('status' in response) {
      if (response.status === 'NO' && saysNonexistent(response)) nonexistences += 1;
      // A warning (RFC 9051, section 7.1.2), for example of folders that cannot be read.
      else if (response.status !== 'OK') throw incomplete(session, 'LIST', response);
      return;
    }
    if (response.name === 'STATUS') readStatus(response, statuses);
    if (response.name !== 'LIST') return;
    const [wireName, folder] = readListed(response);
    bytes += wireName.length;
    if (found.size >= MAX_FOLDERS || bytes > MAX_NAME_BYTES) {
      const facts = { host: session.host, command: 'LIST', what: 'folders' } as const;
      throw imapError('imap.too-large', { ...facts, limit: MAX_FOLDERS });
    }
    found.set(wireName, folder);
  });
  requireComplete(session, 'LIST', ok);
  const leftOut: string[] = [];
  let withoutStatus = 0;
  for (const [wireName, { attributes }] of found) {
    const isAbsent = attributes.has('\\noselect') || attributes.has('\\nonexistent');
    if (!isAbsent && !statuses.has(wireName)) withoutStatus += 1;
    const path = pathOf(wireName);
    const isForeign = isInForeignNamespace(session, wireName) && !isWanted(path);
    if (isForeign) leftOut.push(path);
    if (isAbsent || isForeign) found.delete(wireName);
  }
  // Otherwise, a folder is neither listed nor asked about.
  if (nonexistences > withoutStatus) {
    const facts = { host: session.host, command: 'LIST', code: 'NONEXISTENT' };
    throw imapError('imap.incomplete', facts);
  }
  const sendable = [...found.keys()].filter(canSend);
  const nonexistent = await requestStatuses(
    session,
    // Dovecot shows no UIDVALIDITY for a folder that another session is creating at this moment.
    sendable.filter((wireName) => (statuses.get(wireName)?.uidValidity ?? null) === null),
    statuses,
  );
  for (const wireName of await confirmNonexistent(session, nonexistent)) found.delete(wireName);
  const folders = sendable.flatMap((wireName): ServerFolder[] => {
    const status = statuses.get(wireName);
    const { delimiter = '', attributes = new Set() } = found.get(wireName) ?? {};
    if (status === undefined) return [];
    const use = SPECIAL_USES.find((name) => attributes.has(`\\${name.toLowerCase()}`));
    const specialUse = use === undefined ? null : `\\${use}`;
    return [{ wireName, path: pathOf(wireName), delimiter, specialUse, status }];
  });
  return { folders, leftOut, refused: found.size - folders.length, tellsForeign };
}

/**
 * Asks for NAMESPACE again after it was refused during the sign-in. Returns true for another refusal without a reason
 * to wait, from a server that never answered it. That server is then read like one without NAMESPACE. If it answers
 * later, the folders of others are left out from then on, which ends none of them.
 *
 * @throws imap.connection-lost if it answers now, since only a new session learns the namespaces; errors of a refusal
 */
async function refusesNamespace(session: ImapSession, hasNamespaces: boolean): Promise<boolean> {
  const [result] = await session.runAll('NAMESPACE', ['NAMESPACE'], () => {});
  if (result === undefined) throw new Error('a command without a result');
  if (result.status === 'OK') {
    session.close();
    throw lossError(undefined, session.host, 'NAMESPACE');
  }
  const error = session.refusal('NAMESPACE', result);
  if (hasNamespaces || error.code !== 'imap.refused') throw error;
  return true;
}

/** Reports whether a folder is shared or another user's (RFC 2342). The longest prefix decides; it can be empty. */
function isInForeignNamespace(session: ImapSession, wireName: string): boolean {
  if (wireName === 'INBOX') return false;
  const path = pathOf(wireName);
  const lengthOf = (prefix: string): number =>
    wireName.startsWith(prefix) || path.startsWith(prefix) ? prefix.length : -1;
  return (
    Math.max(-1, ...session.foreignPrefixes.map(lengthOf)) > lengthOf(session.namespace.prefix)
  );
}

/**
 * Reports whether a NO says that there is no such folder. Dovecot 2.3 lists a deleted maildir folder that had folders
 * below it without \NonExistent (RFC 5258, section 3), and sends no response code.
 */
function saysNonexistent({ code, text }: StatusResponse): boolean {
  return code?.name === 'NONEXISTENT' || (code === null && /^Mailbox doesn't exist\b/.test(text));
}

/** Returns those of the names that EXAMINE does not find either. Every mailbox has an INBOX. */
async function confirmNonexistent(
  session: ImapSession,
  wireNames: readonly string[],
): Promise<string[]> {
  const confirmed: string[] = [];
  for (const wireName of wireNames) {
    const { result } = await openFolder(session, 'EXAMINE', wireName);
    if (result.status === 'NO' && saysNonexistent(result) && wireName !== 'INBOX')
      confirmed.push(wireName);
  }
  return confirmed;
}

/**
 * Requests the status of each folder. Leaves out folders whose status is refused.
 *
 * @returns those that do not exist, according to the refusal
 */
async function requestStatuses(
  session: ImapSession,
  wireNames: readonly string[],
  statuses: Map<string, FolderStatus>,
): Promise<string[]> {
  const items = statusItems(session);
  const nonexistent: string[] = [];
  for (let from = 0; from < wireNames.length; from += STATUSES_AT_ONCE) {
    const batch = wireNames.slice(from, from + STATUSES_AT_ONCE);
    const lines = batch.map((wireName) => `STATUS ${quoted(wireName)} (${items})`);
    const results = await session.runAll('STATUS', lines, (response) => {
      if ('name' in response && response.name === 'STATUS') readStatus(response, statuses);
    });
    results.forEach((result, i) => {
      if (result.status === 'OK') return;
      const error = session.refusal('STATUS', result);
      if (error.code !== 'imap.refused') throw error;
      const wireName = batch[i] ?? '';
      statuses.delete(wireName);
      if (result.status === 'NO' && saysNonexistent(result)) nonexistent.push(wireName);
    });
  }
  return nonexistent;
}

/**
 * Returns the total size of the messages in each folder (STATUS=SIZE, RFC 8438), in bytes. Leaves out folders whose
 * status is refused. Empty without STATUS=SIZE.
 */
export async function fetchFolderBytes(
  session: ImapSession,
  wireNames: readonly string[],
): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  if (!session.has('STATUS=SIZE')) return sizes;
  await unselect(session);
  for (let from = 0; from < wireNames.length; from += STATUSES_AT_ONCE) {
    const batch = wireNames.slice(from, from + STATUSES_AT_ONCE);
    const lines = batch.map((wireName) => `STATUS ${quoted(wireName)} (SIZE)`);
    await session.runAll('STATUS', lines, (response) => {
      if (!('name' in response) || response.name !== 'STATUS') return;
      const [name, list] = response.values;
      const size = Number(
        decimal(isList(list) ? pairs(list).get('SIZE') : undefined) ?? Number.NaN,
      );
      const wireName = astring(name)?.toString('latin1') ?? '';
      if (Number.isSafeInteger(size)) sizes.set(canonical(wireName), size);
    });
  }
  return sizes;
}

/** INBOX is the only name whose case does not matter. */
function canonical(wireName: string): string {
  return wireName.toUpperCase() === 'INBOX' ? 'INBOX' : wireName;
}

/** Does not ask for MAILBOXID: within LIST, Cyrus 3.6 sends random bytes in its place. EXAMINE has the right one. */
function statusItems(session: ImapSession): string {
  const modSeq = session.has('CONDSTORE') ? ' HIGHESTMODSEQ' : '';
  return `MESSAGES UIDNEXT UIDVALIDITY UNSEEN${modSeq}`;
}

export function readListed({ values }: DataResponse): [wireName: string, folder: FoundFolder] {
  const [attributes, delimiter, name] = values;
  const wireName = astring(name)?.toString('latin1');
  if (!isList(attributes) || wireName === undefined || delimiter === undefined) {
    throw new MalformedResponse('a folder without a name');
  }
  const folder = {
    delimiter: delimiter === null ? '' : (astring(delimiter)?.toString('utf8') ?? ''),
    attributes: new Set(attributes.map((one) => String(one).toLowerCase())),
  };
  return [canonical(wireName), folder];
}

function readStatus({ values }: DataResponse, statuses: Map<string, FolderStatus>): void {
  const [name, list] = values;
  const wireName = astring(name)?.toString('latin1');
  if (wireName === undefined || !isList(list)) {
    throw new MalformedResponse('a status without a folder');
  }
  const items = pairs(list);
  const messages = uint32(items.get('MESSAGES'));
  const unseen = uint32(items.get('UNSEEN'));
  // A server may leave out folders that it could not open, or send only what has changed (NOTIFY).
  if (messages === null || unseen === null) return;
  const modSeq = decimal(items.get('HIGHESTMODSEQ'));
  statuses.set(canonical(wireName), {
    messages,
    unseen,
    uidNext: uint32(items.get('UIDNEXT')) || null,
    uidValidity: epoch(items.get('UIDVALIDITY')),
    highestModSeq: modSeq === '0' ? null : modSeq,
  });
}

function epoch(value: Value | undefined): string | null {
  return uint32(value) === 0 ? null : (uint32(value)?.toString() ?? null);
}

/** Reports whether a name can be sent as a quoted string. */
export function canSend(wireName: string): boolean {
  return !/[\0\r\n]/.test(wireName);
}

/** Ends the path of a folder whose name on the wire is not the encoding of a path, or of one that ends like this. */
const RAW = '\ufffd';

/** Returns a folder's path. No two names on the wire have the same path, even if one of them is encoded wrongly. */
export function pathOf(wireName: string): string {
  const bytes = Buffer.from(wireName, 'latin1');
  const path = decodeMailbox(bytes);
  if (path !== null && !path.endsWith(RAW)) return path;
  const text = bytes.toString('utf8');
  const isText = !text.endsWith(RAW) && Buffer.from(text).equals(bytes);
  return isText ? `${text}${RAW}` : `${wireName}${RAW}${RAW}`;
}

/** The inverse of `pathOf`. */
export function wireNameOf(path: string): string {
  if (!path.endsWith(RAW)) return encodeMailbox(path);
  const text = path.slice(0, -RAW.length);
  if (text.endsWith(RAW)) return text.slice(0, -RAW.length);
  return Buffer.from(text).toString('latin1');
}

async function unselect(session: ImapSession): Promise<void> {
  if (session.selected === null || !session.has('UNSELECT')) return;
  await session.run('UNSELECT', 'UNSELECT');
  session.selected = null;
}

/** @throws imap.incomplete if the server says that its answer is not complete */
function requireComplete(session: ImapSession, command: string, ok: StatusResponse): void {
  if (INCOMPLETE.has(ok.code?.name ?? '')) throw incomplete(session, command, ok);
}

function incomplete(session: ImapSession, command: string, { status, code }: StatusResponse) {
  const facts = { host: session.host, command, code: codeOf(code?.name) || status };
  return imapError('imap.incomplete', facts);
}

/** What a server says about a folder that it opens. */
interface OpenedFolder {
  readonly result: StatusResponse;
  readonly exists: number | null;
  /** Texts of response codes such as UIDVALIDITY, by name. */
  readonly codes: ReadonlyMap<string, string>;
}

/**
 * Sends EXAMINE, or SELECT.
 *
 * @param onEnd receives the result before the next command's responses are handled
 */
export async function openFolder(
  session: ImapSession,
  verb: 'EXAMINE' | 'SELECT',
  wireName: string,
  onEnd: (opened: OpenedFolder) => void = () => {},
): Promise<OpenedFolder> {
  session.selected = null;
  let exists: number | null = null;
  let opened: OpenedFolder | undefined;
  const codes = new Map<string, string>();
  const condstore = verb === 'EXAMINE' && session.has('CONDSTORE') ? ' (CONDSTORE)' : '';
  await session.runAll(
    verb,
    [`${verb} ${quoted(wireName)}${condstore}`],
    (response) => {
      if ('name' in response) {
        if (response.name === 'EXISTS') exists = response.number;
        else if (response.name === 'EXPUNGE' && exists !== null) exists = Math.max(0, exists - 1);
      } else if (response.code !== null) codes.set(response.code.name, response.code.text);
    },
    ([result]) => {
      if (result === undefined) return;
      if (result.code !== null) codes.set(result.code.name, result.code.text);
      opened = { result, exists, codes };
      onEnd(opened);
    },
  );
  if (opened === undefined) throw new Error('a command without a result');
  return opened;
}

/**
 * Returns an opened folder's state, and notes it as selected.
 *
 * @param path the decoded name, for errors
 * @param openedAt the current time
 * @throws imap.no-uid-epoch
 */
export function noteSelected(
  session: ImapSession,
  { exists, codes }: OpenedFolder,
  { wireName, path, openedAt }: { wireName: string; path: string; openedAt: number },
): SelectedFolder {
  const uidValidity = epoch(codes.get('UIDVALIDITY'));
  if (uidValidity === null) {
    throw imapError('imap.no-uid-epoch', { folder: path, problem: 'missing' });
  }
  if (codes.has('UIDNOTSTICKY')) {
    throw imapError('imap.no-uid-epoch', { folder: path, problem: 'not-sticky' });
  }
  if (exists === null) throw session.malformed('EXAMINE', 'it does not count the messages');
  const modSeq = decimal(codes.get('HIGHESTMODSEQ'));
  session.selected = {
    wireName,
    openedAt,
    uidValidity,
    uidNext: uint32(codes.get('UIDNEXT')) || null,
    highestModSeq: modSeq === '0' || codes.has('NOMODSEQ') ? null : modSeq,
    mailboxId: objectId([codes.get('MAILBOXID')?.replace(/^\(|\)$/g, '') ?? null]),
    exists,
    changes: 0,
  };
  return session.selected;
}

/**
 * Opens a folder for reading, even if it is open already, so that its counts are current.
 *
 * @param path the decoded name, for errors
 * @param openedAt the current time
 * @throws imap.folder-refused, imap.no-uid-epoch
 */
export async function examine(
  session: ImapSession,
  wireName: string,
  path: string,
  openedAt: number,
): Promise<SelectedFolder> {
  let selected: SelectedFolder | undefined;
  let problem: unknown;
  const { result } = await openFolder(session, 'EXAMINE', wireName, (opened) => {
    if (opened.result.status !== 'OK') return;
    try {
      selected = noteSelected(session, opened, { wireName, path, openedAt });
    } catch (error) {
      problem = error;
    }
  });
  if (selected !== undefined) return selected;
  if (problem !== undefined) throw problem;
  const error = session.refusal('EXAMINE', result);
  if (error.code !== 'imap.refused') throw error;
  const code = String(error.facts.code ?? '');
  throw imapError('imap.folder-refused', { host: session.host, folder: path, code });
}

/** Waits for both, also if one fails: until then, a command may be running. */
export async function bothSettled<A, B>(a: Promise<A>, b: Promise<B>): Promise<[A, B]> {
  await Promise.allSettled([a, b]);
  return [await a, await b];
}

/**
 * Returns every uid of a folder, ascending. Asks for windows of about 50,000 uids. If the total is not what EXISTS said,
 * and always without ESEARCH (RFC 4731), it is compared again after NOOP.
 *
 * @param opening the folder, which can still be opening
 * @param expected the number of messages that the server last reported; null if unknown
 * @throws imap.incomplete, imap.count-differs, imap.too-large, imap.malformed
 */
export async function allUids(
  session: ImapSession,
  opening: Promise<SelectedFolder>,
  expected: number | null,
): Promise<Uint32Array> {
  const { host } = session;
  const limit = MAX_UIDS;
  const isTooMany = (count: number): boolean => count > limit;
  const tooMany = () =>
    imapError('imap.too-large', { host, command: 'UID SEARCH', what: 'uids', limit });
  const isSmall = expected !== null && expected > 0 && expected <= UIDS_PER_SEARCH;
  const [whole, { exists, uidNext }] = await bothSettled(
    // Sent together with EXAMINE.
    isSmall ? searchRange(session, { lo: 1, hi: MAX_UINT32 }, '') : Promise.resolve(null),
    opening,
  );
  if (exists === 0 && whole === null) return new Uint32Array(0);
  if (isTooMany(exists)) throw tooMany();
  const last = (uidNext ?? 1) - 1;
  const density = Math.max(1, Math.ceil(last / exists));
  const width =
    exists <= UIDS_PER_SEARCH || uidNext === null ? MAX_UINT32 : UIDS_PER_SEARCH * density;
  const parts: Uint32Array[] = whole === null ? [] : [whole];
  let total = whole?.length ?? 0;
  for (let lo = 1; whole === null && (lo === 1 || lo <= last); lo += width) {
    // Mail that has arrived since EXAMINE is beyond the last window.
    const hi = lo + width > last ? MAX_UINT32 : lo + width - 1;
    const part = await searchRange(session, { lo, hi }, '');
    total += part.length;
    if (isTooMany(total)) throw tooMany();
    parts.push(part);
    if (hi === MAX_UINT32) break;
  }
  if (!session.has('ESEARCH') || total !== session.selected?.exists) {
    await session.run('NOOP', 'NOOP');
    const counted = session.selected?.exists ?? 0;
    if (counted !== total) throw imapError('imap.count-differs', { host, counted, found: total });
  }
  const uids = new Uint32Array(total);
  let at = 0;
  for (const part of parts) {
    uids.set(part, at);
    at += part.length;
  }
  return uids;
}

interface UidCriteria {
  readonly flag?: CountedFlag;
  /** Received on or after this day (YYYY-MM-DD). */
  readonly since?: string;
}

const SEARCH_KEYS = { '\\Seen': 'SEEN', '\\Flagged': 'FLAGGED', '\\Answered': 'ANSWERED' } as const;

/**
 * Searches the selected folder. Returns uids in ascending order.
 *
 * @param set uids such as `1:5,8` or `7:*`
 */
export async function searchUids(
  session: ImapSession,
  set: string,
  { flag, since }: UidCriteria,
): Promise<Uint32Array> {
  const criteria = [
    ...(flag === undefined ? [] : [SEARCH_KEYS[flag]]),
    ...(since === undefined ? [] : [`SINCE ${formatDay(since)}`]),
  ].join(' ');
  return searchRange(session, set, criteria);
}

async function searchRange(
  session: ImapSession,
  range: string | { readonly lo: number; readonly hi: number },
  criteria: string,
): Promise<Uint32Array> {
  const set =
    typeof range === 'string' ? range.replaceAll('*', `${MAX_UINT32}`) : `${range.lo}:${range.hi}`;
  const bounds = set.split(/[,:]/).map(Number);
  const lo = Math.min(...bounds);
  const hi = Math.max(...bounds);
  const isExtended = session.has('ESEARCH');
  const command = `UID SEARCH ${isExtended ? 'RETURN (COUNT ALL) ' : ''}UID ${set}`;
  let found: Uint32Array | undefined;
  const plain: number[] = [];
  const line = criteria === '' ? command : `${command} ${criteria}`;
  const ok = await session.run('UID SEARCH', line, (response) => {
    if ('status' in response) return;
    if (response.name === 'ESEARCH') {
      if (found !== undefined) throw new MalformedResponse('two sets of uids');
      found = readExtended(response, lo, hi);
    } else if (response.name === 'SEARCH') readPlain(response, plain, lo, hi);
  });
  requireComplete(session, 'UID SEARCH', ok);
  if (found !== undefined) return found;
  // RFC 4731 requires ESEARCH even for an empty result.
  if (isExtended) throw session.malformed('UID SEARCH', 'it has no set of uids');
  try {
    return sortedUids(Uint32Array.from(plain));
  } catch (error) {
    if (!(error instanceof MalformedResponse)) throw error;
    throw session.malformed('UID SEARCH', error.message);
  }
}

function readExtended({ values }: DataResponse, lo: number, hi: number): Uint32Array {
  const items = pairs(values.filter((value) => !isList(value) && value !== 'UID'));
  const count = uint32(items.get('COUNT'));
  const set = items.get('ALL') ?? '';
  if (count === null || typeof set !== 'string') {
    throw new MalformedResponse('a set of uids without a count');
  }
  if (count > MAX_UIDS) throw new MalformedResponse('more uids than a folder can have');
  return parseUidSet(set, count, lo, hi);
}

function readPlain({ values }: DataResponse, uids: number[], lo: number, hi: number): void {
  for (const value of values) {
    // RFC 7162 appends (MODSEQ n).
    if (isList(value)) continue;
    const uid = uint32(value);
    if (uid === null || uid < 1) throw new MalformedResponse('an invalid uid');
    if (uid < lo || uid > hi) throw new MalformedResponse('a uid that was not asked for');
    if (uids.length >= MAX_UIDS) throw new MalformedResponse('more uids than a folder can have');
    uids.push(uid);
  }
}

/**
 * Fetches items of messages in the selected folder.
 *
 * @param set uids such as `1:5,8` or `7:*`
 * @param take receives each response with a uid, also of a message that was not asked for
 */
export async function fetchEach(
  session: ImapSession,
  set: string,
  items: string,
  take: (uid: number, items: Map<string, Value>, number: number) => void,
): Promise<void> {
  const ok = await session.run('UID FETCH', `UID FETCH ${set} ${items}`, (response) => {
    if ('status' in response || response.name !== 'FETCH') return;
    const { number, values } = response;
    const [list] = values;
    if (number === null || !isList(list)) throw new MalformedResponse('a FETCH without items');
    const received = pairs(list);
    const uid = uint32(received.get('UID'));
    // Without a uid, it reports a flag that another client has changed.
    if (uid === null && !received.has('UID')) return;
    if (uid === null || uid < 1) throw new MalformedResponse('an invalid uid');
    take(uid, received, number);
  });
  const code = ok.code?.name ?? '';
  // EXPUNGEISSUED only says that some of the messages are gone.
  if (code !== 'EXPUNGEISSUED') requireComplete(session, 'UID FETCH', ok);
}

/** Collects FETCH responses by uid. A server can split a message's items into several responses. */
async function fetchItems(
  session: ImapSession,
  uids: readonly number[],
  items: string,
): Promise<Map<number, Map<string, Value>>> {
  const wanted = new Set(uids);
  const found = new Map<number, { readonly number: number; readonly items: Map<string, Value> }>();
  const expunged = session.selected?.changes ?? 0;
  await fetchEach(session, formatUidSet(uids), items, (uid, received, number) => {
    if (!wanted.has(uid)) return;
    const before = found.get(uid);
    if (before === undefined) {
      found.set(uid, { number, items: received });
      return;
    }
    if (before.number !== number && expunged === session.selected?.changes) {
      throw new MalformedResponse('the same uid for two messages');
    }
    for (const [name, value] of received) before.items.set(name, value);
  });
  return new Map([...found].map(([uid, one]) => [uid, one.items]));
}

/**
 * Fetches the listing records of messages in the selected folder. Messages that are gone are missing from the result.
 *
 * @param withEnvelope false leaves out subject, addresses and Message-ID, for messages whose ENVELOPE does not parse
 */
export async function fetchListings(
  session: ImapSession,
  uids: readonly number[],
  withEnvelope = true,
): Promise<Map<number, Listing>> {
  if (uids.length === 0) return new Map();
  const names = [
    'UID FLAGS INTERNALDATE RFC822.SIZE',
    ...(withEnvelope ? ['ENVELOPE'] : []),
    ...(session.has('OBJECTID') ? ['EMAILID'] : []),
    ...(session.has('X-GM-EXT-1') ? ['X-GM-MSGID'] : []),
  ];
  const found = await fetchItems(session, uids, `(${names.join(' ')})`);
  const listings = new Map<number, Listing>();
  for (const [uid, items] of found) {
    const flags = readFlags(items.get('FLAGS'));
    const size = uint32(items.get('RFC822.SIZE'));
    if (flags === null || size === null) {
      throw session.malformed('UID FETCH', 'a message without flags or size');
    }
    listings.set(uid, {
      uid,
      date: parseDateTime(items.get('INTERNALDATE')) ?? '',
      flags,
      size,
      ...readEnvelope(items.get('ENVELOPE')),
      attachments: [],
      extra: stableIds(items),
    });
  }
  return listings;
}

interface SourceStart {
  readonly bytes: Buffer;
  /** False if the message may continue after `bytes`. */
  readonly complete: boolean;
}

/** Fetches the first MiB of each message in the selected folder. Messages that are gone are missing from the result. */
export async function fetchSourceStarts(
  session: ImapSession,
  uids: readonly number[],
): Promise<Map<number, SourceStart>> {
  const found = await fetchItems(session, uids, `(UID BODY.PEEK[]<0.${PIECE_BYTES}>)`);
  const starts = new Map<number, SourceStart>();
  for (const [uid, items] of found) {
    const whole = items.get('BODY[]');
    const bytes = astring(whole ?? items.get('BODY[]<0>'));
    if (bytes === null) continue;
    if (bytes.length > PIECE_BYTES && whole === undefined) {
      throw session.malformed('UID FETCH', 'a longer part of a message than was asked for');
    }
    starts.set(uid, { bytes, complete: whole !== undefined || bytes.length < PIECE_BYTES });
  }
  return starts;
}

/**
 * Fetches up to 1 MiB of a message from an offset in bytes. An empty piece is the end.
 *
 * @throws imap.message-gone
 */
export async function fetchPiece(
  session: ImapSession,
  uid: number,
  offset: number,
): Promise<Buffer> {
  const found = await fetchItems(session, [uid], `(UID BODY.PEEK[]<${offset}.${PIECE_BYTES}>)`);
  const items = found.get(uid);
  if (items === undefined) throw imapError('imap.message-gone', { host: session.host, uid });
  const value = items.get(`BODY[]<${offset}>`);
  if (value === undefined) throw session.malformed('UID FETCH', 'another part than was asked for');
  const bytes = astring(value) ?? Buffer.alloc(0);
  if (bytes.length > PIECE_BYTES) {
    throw session.malformed('UID FETCH', 'a longer part of a message than was asked for');
  }
  return bytes;
}

interface ChangedFlags {
  readonly uid: number;
  readonly flags: FlagSet;
  readonly modSeq: string;
}

/**
 * Returns the messages of the selected folder that were added or whose flags have changed since a modification sequence
 * (RFC 7162). Returns null if they are more than `limit`, or if one of them lacks its flags or sequence. The server must
 * support CONDSTORE, and the folder must have modification sequences.
 */
export async function changedSince(
  session: ImapSession,
  modSeq: string,
  limit: number,
): Promise<ChangedFlags[] | null> {
  const changes = new Map<number, ChangedFlags>();
  let isWhole = true;
  const line = `UID FETCH 1:* (UID FLAGS) (CHANGEDSINCE ${modSeq})`;
  const ok = await session.run('UID FETCH', line, (response) => {
    if ('status' in response || response.name !== 'FETCH') return;
    const [list] = response.values;
    if (!isList(list)) throw new MalformedResponse('a FETCH without items');
    const items = pairs(list);
    const uid = uint32(items.get('UID'));
    const flags = readFlags(items.get('FLAGS'));
    const value = items.get('MODSEQ');
    const changedAt = decimal(isList(value) ? value[0] : undefined);
    // Without a uid, it reports a flag that another client has changed.
    if (uid === null) return;
    if (flags === null || changedAt === null) isWhole = false;
    else if (changes.size <= limit) changes.set(uid, { uid, flags, modSeq: changedAt });
  });
  requireComplete(session, 'UID FETCH', ok);
  if (!isWhole || changes.size > limit) return null;
  return [...changes.values()].sort((a, b) => a.uid - b.uid);
}

interface QuotaLimit {
  readonly name: string;
  readonly usage: number;
  readonly limit: number | null;
}

const BYTES_PER_KILOBYTE = 1024;

/** Returns the usage and limits that apply to INBOX (RFC 9208): STORAGE in bytes, MESSAGE as a count. */
export async function fetchQuota(session: ImapSession): Promise<QuotaLimit[]> {
  if (!session.has('QUOTA')) return [];
  const limits = new Map<string, QuotaLimit>();
  await session.run('GETQUOTAROOT', 'GETQUOTAROOT "INBOX"', (response) => {
    if ('status' in response || response.name !== 'QUOTA') return;
    const [, list] = response.values;
    if (!isList(list)) throw new MalformedResponse('a quota without limits');
    for (let i = 0; i + 2 < list.length; i += 3) {
      const name = String(list[i]).toUpperCase();
      const usage = Number(decimal(list[i + 1]) ?? Number.NaN);
      const limit = Number(decimal(list[i + 2]) ?? Number.NaN);
      if (!['STORAGE', 'MESSAGE'].includes(name) || Number.isNaN(usage + limit)) continue;
      const unit = name === 'STORAGE' ? BYTES_PER_KILOBYTE : 1;
      limits.set(name, { name, usage: usage * unit, limit: limit * unit });
    }
  });
  return [...limits.values()];
}
