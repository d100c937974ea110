/**
 * What a restore says to an IMAP server, over a connection of `src/imap`: LIST, LSUB, GETQUOTAROOT, CREATE, SUBSCRIBE,
 * SELECT, APPEND and UID FETCH with PEEK.
 */
import { describeError, hasCode, MailkeepError } from '../core/errors.ts';
import {
  canSend,
  fetchEach,
  fetchPiece,
  fetchQuota,
  noteSelected,
  openFolder,
  pathOf,
  readListed,
  wireNameOf,
} from '../imap/commands.ts';
import type { ImapServer, ImapSession, Literal } from '../imap/connection.ts';
import { CLOSED, codeOf, PIECE_BYTES, suggestedWait } from '../imap/connection-errors.ts';
import { type ConnectionsOptions, MAX_SUGGESTED_MS, openSession } from '../imap/connections.ts';
import { readFlags } from '../imap/listing-record.ts';
import {
  astring,
  formatDateTime,
  MAX_UINT32,
  MalformedResponse,
  parseDateTime,
  parseUidSet,
  quoted,
  type StatusResponse,
  uint32,
  type Value,
} from '../imap/response.ts';
import { restoreError } from './errors.ts';
import { type FoundMessage, messageIdOf } from './restore-comparison.ts';

const MAX_AT_ONCE = 32;
const MAX_WORDS = 300;
/** Storing a large message takes time. */
const TIMES = { connectMs: 30_000, silenceMs: 300_000 };

/**
 * Connects and signs in.
 *
 * @param signal ends the attempt; afterwards, the command in progress is finished whatever happens
 * @throws restore-login-refused, restore-certificate, restore-unreachable; other errors of `ImapSession.open`; the
 *   signal's reason
 */
export async function connectImap(
  server: ImapServer,
  credential: ConnectionsOptions['credential'],
  signal: AbortSignal,
): Promise<RestoreConnection> {
  try {
    return new ImapConnection(await openSession({ server, credential, times: TIMES }, signal));
  } catch (error) {
    throw connectError(error, server);
  }
}

/**
 * A connection for a restore. Sends only CREATE, SUBSCRIBE, APPEND and commands that read. Every method can throw
 * restore-refused, restore-throttled or restore-connection-lost.
 */
export type RestoreConnection = Pick<ImapConnection, keyof ImapConnection>;

export type ServerFolder = Awaited<ReturnType<ImapConnection['list']>>[number];
export type SelectedFolder = Awaited<ReturnType<ImapConnection['select']>>;

interface Appended extends Literal {
  readonly flags: readonly string[];
  readonly date: Date | null;
}

interface SeenMessage {
  readonly uid: number;
  readonly size: number;
  readonly flags: ReadonlySet<string>;
  /** Milliseconds since the epoch; NaN if the server sends no valid date. */
  readonly date: number;
}

/** Special uses of folders (RFC 6154), as the server spells them. */
const SPECIAL_USE = /^\\(?:All|Archive|Drafts|Flagged|Junk|Sent|Trash|Important)$/i;

class ImapConnection {
  readonly delimiter: string;
  readonly prefix: string;
  /** Maximum message size in bytes; null if the server advertises none. */
  readonly appendLimit: number | null;
  /** Maximum number of messages per command; 1 without MULTIAPPEND (RFC 3502). */
  readonly mostAtOnce: number;

  constructor(private readonly session: ImapSession) {
    this.delimiter = session.namespace.delimiter;
    this.prefix = session.namespace.prefix;
    this.appendLimit = session.appendLimit;
    this.mostAtOnce = session.has('MULTIAPPEND') && session.has('LITERAL+') ? MAX_AT_ONCE : 1;
  }

  async list() {
    const isExtended = this.session.has('LIST-EXTENDED');
    const uses = this.session.has('SPECIAL-USE') ? ' SPECIAL-USE' : '';
    const folders = await this.#list('LIST', isExtended ? ` RETURN (SUBSCRIBED${uses})` : '');
    const subscribed = isExtended ? new Map() : await this.#list('LSUB', '');
    return [...folders].map(([wireName, attributes]) => {
      const path = pathOf(wireName);
      const use = [...attributes].find((name) => SPECIAL_USE.test(name));
      return {
        path,
        /** A special use such as `\Sent`, if the server reports one. */
        specialUse:
          path === 'INBOX'
            ? '\\Inbox'
            : use === undefined
              ? null
              : `\\${use.charAt(1).toUpperCase()}${use.slice(2)}`,
        subscribed: subscribed.has(wireName) || attributes.has('\\subscribed'),
        selectable: !attributes.has('\\noselect') && !attributes.has('\\nonexistent'),
      };
    });
  }

  /** Returns the bytes left in INBOX's quota, or null if it has no quota. */
  async quotaLeft(): Promise<number | null> {
    const limits = await this.#ask(() => fetchQuota(this.session)).catch((error: unknown) => {
      if (hasCode(error, 'restore-refused')) return [];
      throw error;
    });
    const { usage = 0, limit = null } = limits.find(({ name }) => name === 'STORAGE') ?? {};
    return limit === null ? null : Math.max(0, limit - usage);
  }

  /** Creates a folder and subscribes to it. Returns false if the folder exists. */
  async create(path: string): Promise<boolean> {
    const [result] = await this.#ask(() =>
      this.session.runAll('CREATE', [`CREATE ${this.#name(path)}`], () => {}),
    );
    const exists = result?.status === 'NO' && result.code?.name === 'ALREADYEXISTS';
    if (!exists) requireOk('CREATE', result);
    await this.subscribe(path);
    return !exists;
  }

  async subscribe(path: string): Promise<void> {
    await this.#run('SUBSCRIBE', `SUBSCRIBE ${this.#name(path)}`);
  }

  async select(path: string) {
    const { session } = this;
    const wireName = wireNameOf(path);
    const opened = await this.#ask(() => openFolder(session, 'SELECT', wireName));
    requireOk('SELECT', opened.result);
    const place = { wireName, path, openedAt: 0 };
    const { uidValidity, uidNext } = await this.#ask(async () =>
      noteSelected(session, opened, place),
    );
    const [, flags] = /^\((.*)\)$/.exec(opened.codes.get('PERMANENTFLAGS') ?? '') ?? [];
    return {
      path,
      uidValidity,
      /** Null if the server sent no PERMANENTFLAGS. */
      permanentFlags: flags === undefined ? null : flags.split(' ').filter((flag) => flag !== ''),
      lastUid: Math.max(0, (uidNext ?? 1) - 1),
    };
  }

  /**
   * Appends up to `mostAtOnce` messages to the selected folder, all or none.
   *
   * @param asks whether to wait for the server to accept the size before sending the bytes
   * @returns the uids; null if the server does not report them
   * @throws errors from reading the content; the server then stores nothing
   */
  async append(
    path: string,
    messages: readonly Appended[],
    asks: boolean,
  ): Promise<readonly number[] | null> {
    const [first] = messages;
    if (first === undefined) return [];
    if (this.appendLimit !== null && first.size > this.appendLimit) {
      const text = `it takes messages of up to ${this.appendLimit} bytes`;
      throw restoreError('restore-refused', { command: 'APPEND', response: 'APPENDLIMIT', text });
    }
    const parts = messages.flatMap(({ flags, date, size, content }) => [
      ` (${flags.join(' ')})${date === null ? '' : ` "${formatDateTime(date)}"`} `,
      { size, content },
    ]);
    const result = await this.#ask(() =>
      this.session.runWithLiterals('APPEND', [`APPEND ${this.#name(path)}`, ...parts], asks),
    );
    requireOk('APPEND', result);
    const [, set = ''] = result.code?.name === 'APPENDUID' ? result.code.text.split(' ') : [];
    try {
      return set === '' ? null : [...parseUidSet(set, messages.length, 1, MAX_UINT32)];
    } catch (error) {
      // The messages are found in the folder instead.
      if (error instanceof MalformedResponse) return null;
      throw error;
    }
  }

  /** Returns the messages from a uid on. */
  async messages(from: number): Promise<FoundMessage[]> {
    const found: FoundMessage[] = [];
    const items = '(UID RFC822.SIZE BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])';
    await this.#fetch(from, items, (uid, size, received) => {
      const [, header] = [...received].find(([name]) => name.startsWith('BODY[HEADER')) ?? [];
      const bytes = astring(header);
      found.push({ uid, size, messageId: bytes === null ? null : messageIdOf(bytes) });
    });
    return found;
  }

  /** Passes the metadata of each message to `see`, starting from a uid. */
  async looks(from: number, see: (message: SeenMessage) => void): Promise<void> {
    await this.#fetch(from, '(UID RFC822.SIZE FLAGS INTERNALDATE)', (uid, size, received) => {
      const date = new Date(parseDateTime(received.get('INTERNALDATE')) ?? Number.NaN).getTime();
      see({ uid, size, flags: new Set(readFlags(received.get('FLAGS')) ?? []), date });
    });
  }

  /** Yields the bytes of a message in the selected folder, or nothing if it does not exist. */
  async *pieces(uid: number): AsyncIterable<Buffer> {
    for (let start = 0; ; ) {
      const piece = await this.#ask(() => fetchPiece(this.session, uid, start)).catch(
        (error: unknown) => {
          if (error instanceof Error && hasCode(error.cause, 'imap.message-gone')) {
            return Buffer.alloc(0);
          }
          throw error;
        },
      );
      if (piece.length > 0) yield piece;
      if (piece.length !== PIECE_BYTES) return;
      start += piece.length;
    }
  }

  close(): Promise<void> {
    return this.session.logout();
  }

  /** Passes each message with a uid of at least `from` to `take`. Ignores reports of flags changed by other clients. */
  async #fetch(
    from: number,
    items: string,
    take: (uid: number, size: number, received: ReadonlyMap<string, Value>) => void,
  ): Promise<void> {
    // Servers disagree about `*` in an empty folder, where its value is undefined.
    if ((this.session.selected?.exists ?? 0) === 0) return;
    await this.#ask(() =>
      fetchEach(this.session, `${from}:*`, items, (uid, received) => {
        const size = uint32(received.get('RFC822.SIZE'));
        // `n:*` includes the last message even if its uid is below n (RFC 9051, section 9: seq-range).
        if (size !== null && uid >= from) take(uid, size, received);
      }),
    );
  }

  async #list(verb: 'LIST' | 'LSUB', suffix: string) {
    const found = new Map<string, ReadonlySet<string>>();
    const [result] = await this.#ask(() =>
      this.session.runAll(verb, [`${verb} "" "*"${suffix}`], (response) => {
        if ('status' in response || response.name !== verb) return;
        const [wireName, { attributes }] = readListed(response);
        if (canSend(wireName)) found.set(wireName, attributes);
      }),
    );
    requireOk(verb, result);
    return found;
  }

  #name(path: string): string {
    return quoted(wireNameOf(path));
  }

  async #run(command: string, line: string): Promise<void> {
    const [result] = await this.#ask(() => this.session.runAll(command, [line], () => {}));
    requireOk(command, result);
  }

  /** Translates errors of the connection. A connection that broke is closed. */
  async #ask<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof MailkeepError) || !error.code.startsWith('imap.')) throw error;
      const { host, usable } = this.session;
      if (!usable) {
        const reason = reasonOf(error);
        throw restoreError('restore-connection-lost', { host, reason }, error);
      }
      const { message: text } = describeError(error);
      const { command = 'SELECT', code, waitMs } = error.facts;
      if (error.code === 'imap.throttled') {
        throw restoreError('restore-throttled', { text, waitMs: pauseOf(Number(waitMs)) }, error);
      }
      const response = String(code ?? '') || null;
      throw restoreError('restore-refused', { command: String(command), response, text }, error);
    }
  }
}

/** Response codes that mean "try again later" (RFC 5530; THROTTLED and OVERLOADED are not standard). */
const LATER: ReadonlySet<string> = new Set(['UNAVAILABLE', 'INUSE', 'THROTTLED', 'OVERLOADED']);
/** Some servers indicate this only in the text: Gmail's code is OVERQUOTA. */
const LATER_WORDS = /throttl|too many (?:commands|operations|requests)|(?:bandwidth|rate) limit/i;

/** @param suggested the milliseconds that the server asks for; 0 or NaN if it names none */
function pauseOf(suggested: number): number | null {
  return Math.min(MAX_SUGGESTED_MS, suggested) || null;
}

/** @throws restore-throttled, restore-refused */
function requireOk(command: string, result: StatusResponse | undefined): void {
  if (result?.status === 'OK') return;
  const response = codeOf(result?.code?.name) || null;
  const text = (result?.text ?? '').slice(0, MAX_WORDS) || 'no reason given';
  if ((response !== null && LATER.has(response)) || LATER_WORDS.test(text)) {
    throw restoreError('restore-throttled', { text, waitMs: pauseOf(suggestedWait(text)) });
  }
  throw restoreError('restore-refused', { command, response, text });
}

function connectError(error: unknown, { host, port, user }: ImapServer): unknown {
  if (!(error instanceof MailkeepError)) return error;
  const reason = reasonOf(error);
  switch (error.code) {
    case 'imap.sign-in-refused':
      return restoreError('restore-login-refused', { user, host, text: reason }, error);
    case 'imap.certificate':
      return restoreError('restore-certificate', { host, reason }, error);
    case 'imap.unreachable':
    case 'imap.throttled':
      return restoreError('restore-unreachable', { host, port, reason }, error);
    default:
      return error;
  }
}

/** Returns an errno or the server's words, as far as they are known. */
function reasonOf({ facts, cause }: MailkeepError): string {
  const { reason, found, code } = facts;
  const words: unknown = Reflect.get(Object(cause), 'responseText');
  if (typeof reason === 'string') return reason;
  if (typeof words === 'string' && words !== '') return words.slice(0, MAX_WORDS);
  return String(found ?? (code || CLOSED));
}
