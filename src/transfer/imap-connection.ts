import { ImapFlow } from 'imapflow';
import { errnoOf, type MailkeepError } from '../core/errors.ts';
import { restoreError } from './errors.ts';
import { type Content, type FoundMessage, messageIdOf } from './restore-comparison.ts';

export interface ImapAddress {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly tls: boolean;
}

const PORTS = { 'imaps:': 993, 'imap:': 143 } as const;

/** Parses the server part of an IMAP URL (RFC 5092). @throws restore-target-invalid, restore-needs-tls */
export function imapAddress(text: string): ImapAddress {
  const url = URL.canParse(text) ? new URL(text) : null;
  const found = withoutSecret(text);
  const invalid = (problem: string) => restoreError('restore-target-invalid', { found, problem });
  if (url === null || (url.protocol !== 'imaps:' && url.protocol !== 'imap:'))
    throw invalid('it does not begin with imaps://');
  if (url.password !== '')
    throw invalid('a password in it can be read by every user of this machine');
  if (url.username === '') throw invalid('it names no user');
  if (url.hostname === '') throw invalid('it names no host');
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '')
    throw invalid('something follows the host');
  const tls = url.protocol === 'imaps:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (!tls && !isLoopback(host)) throw restoreError('restore-needs-tls', { host });
  const port = url.port === '' ? PORTS[url.protocol] : Number(url.port);
  return { host, port, user: decodedUser(url.username, invalid), tls };
}

export function addressText({ host, port, user, tls }: ImapAddress): string {
  const name = host.includes(':') ? `[${host}]` : host;
  return `${tls ? 'imaps' : 'imap'}://${encodeURIComponent(user)}@${name}:${port}`;
}

function decodedUser(user: string, invalid: (problem: string) => Error): string {
  try {
    return decodeURIComponent(user);
  } catch {
    throw invalid('its user has a % that is no escape');
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** Text between a colon and the last @ may be a password. */
function withoutSecret(text: string): string {
  const [scheme] = /^[a-z]*:\/\//i.exec(text) ?? [''];
  const at = text.lastIndexOf('@');
  return text.slice(scheme.length, at).includes(':') ? `${scheme}…${text.slice(at)}` : text;
}

interface WriteSocket {
  setNoDelay?(on: boolean): unknown;
  write(bytes: Buffer, done: (error?: Error | null) => void): unknown;
  once(event: 'close', listener: () => void): unknown;
  off(event: 'close', listener: () => void): unknown;
}

/** Longer than 4,096 bytes, the longest literal that imapflow sends without waiting for a continuation request. */
const STAND_IN = Buffer.alloc(4097);
const ANNOUNCED = `{${STAND_IN.length}}\r\n`;
const CRLF = Buffer.from('\r\n');

/** Sends a command's last literal in pieces, in place of a stand-in passed to imapflow. */
class StreamedLiteral {
  #state: 'new' | 'announced' | 'sending' | 'over' = 'new';
  #sending: Promise<void> = Promise.resolve();
  #failure: { readonly error: unknown } | undefined;

  constructor(
    private readonly pieces: () => AsyncIterable<Buffer>,
    private readonly size: number,
  ) {}

  /**
   * Handles a chunk written by imapflow if it announces or contains the stand-in. Returns false for any other chunk.
   *
   * @param write imapflow's own write
   * @param close closes the connection, so that the server drops a partial message
   */
  replaces(
    chunk: Buffer,
    write: (chunk: Buffer) => void,
    socket: WriteSocket,
    close: () => void,
  ): boolean {
    if (this.#state === 'sending') throw new Error('a literal is being sent');
    if (this.#state === 'new' && chunk.subarray(-ANNOUNCED.length).equals(Buffer.from(ANNOUNCED))) {
      this.#state = 'announced';
      const command = chunk.subarray(0, -ANNOUNCED.length);
      write(Buffer.concat([command, Buffer.from(`{${this.size}}\r\n`)]));
      return true;
    }
    if (this.#state !== 'announced' || !chunk.equals(STAND_IN)) return false;
    this.#state = 'sending';
    this.#sending = this.#send(socket, close);
    return true;
  }

  /** @throws errors from reading the pieces */
  async done(): Promise<void> {
    await this.#sending;
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Holds back the last piece until the source has ended, since damage may be found only at the end. */
  async #send(socket: WriteSocket, close: () => void): Promise<void> {
    let last: Buffer | undefined;
    let count = 0;
    try {
      for await (const piece of this.pieces()) {
        // If a message has grown, do not truncate it to its declared size: the server would accept it as complete.
        if (last !== undefined && count <= this.size) await writeAll(socket, last);
        last = piece;
        count += piece.length;
      }
      if (count !== this.size) throw new Error('a message changed while it was sent');
      if (last !== undefined) await writeAll(socket, last);
      await writeAll(socket, CRLF);
    } catch (error) {
      if (!(error instanceof SocketGone)) this.#failure = { error };
      close();
    } finally {
      this.#state = 'over';
    }
  }
}

class SocketGone extends Error {}

function writeAll(socket: WriteSocket, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (): void => reject(new SocketGone());
    socket.once('close', fail);
    socket.write(bytes, (error) => {
      socket.off('close', fail);
      if (error === undefined || error === null) resolve();
      else fail();
    });
  });
}

const MAX_AT_ONCE = 32;

interface Token {
  readonly type: 'ATOM' | 'STRING' | 'LITERAL';
  readonly value: string | Buffer;
}

/** A response code such as `APPENDUID 38505 3955:3958`. */
type ResponseCode = { value?: unknown }[];

interface Response {
  readonly response: { readonly attributes?: readonly { readonly section?: ResponseCode }[] };
}

/** Internals that imapflow does not export. `commandParts` wait for the server's continuation request. */
interface Internals {
  readonly socket?: WriteSocket;
  commandParts: Buffer[];
  write(chunk: Buffer): void;
  exec(
    command: string,
    attributes: readonly (Token | readonly Token[])[],
    options: unknown,
  ): Promise<Response>;
}

/**
 * Makes imapflow send commands faster and with less memory. MULTIAPPEND (RFC 3502) stores several messages with one
 * APPEND, all or none. LITERAL+ (RFC 7888) sends literals without waiting. Large messages are sent in pieces. By
 * default, imapflow copies each message three times, sends one message per command and waits a round trip for each
 * literal over 4,096 bytes.
 */
class Commands {
  readonly mostAtOnce: number;
  readonly #inner: Internals;
  #extras: readonly Appended[] = [];
  #asks = true;
  /** From APPENDUID (RFC 4315) if several messages were sent. */
  #uids: readonly number[] | null = null;
  #streamed: StreamedLiteral | undefined;

  constructor(client: ImapFlow) {
    const inner = client as unknown as Internals;
    const { capabilities } = client;
    this.mostAtOnce =
      capabilities.has('MULTIAPPEND') && capabilities.has('LITERAL+') ? MAX_AT_ONCE : 1;
    // Nagle's algorithm would delay the end of a message until the server acknowledges its start.
    inner.socket?.setNoDelay?.(true);
    this.#replaceWrite(inner, capabilities.has('LITERAL+'), () => client.close());
    if (this.mostAtOnce > 1) this.#appendSeveral(inner);
    this.#inner = inner;
  }

  /**
   * Turns the single APPEND in `act` into one that sends all messages. Returns their uids.
   *
   * @param act appends the given bytes as the first message
   * @throws errors from reading a message in pieces
   */
  async appending(
    messages: readonly Appended[],
    asks: boolean,
    act: (bytes: Buffer) => Promise<readonly number[] | null>,
  ): Promise<readonly number[] | null> {
    const [first, ...extras] = messages;
    if (first === undefined) return [];
    const { content, size } = first;
    if (!Buffer.isBuffer(content)) return this.#appendInPieces(content, size, act);
    this.#extras = extras;
    this.#asks = asks;
    this.#uids = null;
    try {
      const uids = await act(content);
      return extras.length === 0 ? uids : this.#uids;
    } finally {
      this.#extras = [];
      this.#asks = true;
      this.#forgetLiterals();
    }
  }

  async #appendInPieces(
    pieces: () => AsyncIterable<Buffer>,
    size: number,
    act: (bytes: Buffer) => Promise<readonly number[] | null>,
  ): Promise<readonly number[] | null> {
    const streamed = new StreamedLiteral(pieces, size);
    this.#streamed = streamed;
    try {
      // Send the whole message even if the server responds early, because no command can follow half of one.
      return await act(STAND_IN).finally(() => streamed.done());
    } finally {
      this.#streamed = undefined;
      this.#forgetLiterals();
    }
  }

  /** Drops a refused command's parts, so that a later continuation request does not send them. */
  #forgetLiterals(): void {
    this.#inner.commandParts = [];
  }

  /** Sends large messages in pieces. Sends literals together with their command if the server allows it. */
  #replaceWrite(inner: Internals, takesLiterals: boolean, close: () => void): void {
    const write = inner.write.bind(inner);
    inner.write = (chunk) => {
      const { socket } = inner;
      const sendAll = (whole: Buffer): void => {
        const parts = [whole, ...(inner.commandParts ?? [])];
        // Each part except the last ends by announcing a literal.
        const isTogether = takesLiterals && !this.#asks && parts.length > 1;
        if (isTogether) inner.commandParts = [];
        const last = parts.length - 1;
        write(isTogether ? Buffer.concat(parts.map((p, i) => (i < last ? unasked(p) : p))) : whole);
      };
      if (socket === undefined || !this.#streamed?.replaces(chunk, sendAll, socket, close))
        sendAll(chunk);
    };
  }

  #appendSeveral(inner: Internals): void {
    const exec = inner.exec.bind(inner);
    inner.exec = async (command, attributes, options) => {
      const extras = this.#extras;
      if (command !== 'APPEND' || extras.length === 0) return exec(command, attributes, options);
      const tokens = extras.flatMap(tokensOf);
      const response = await exec(command, [...attributes, ...tokens], options);
      const [, , uids] = response.response.attributes?.[0]?.section ?? [];
      const list = uids === undefined ? [] : uidsIn(String(uids.value));
      if (uids !== undefined && list.length === extras.length + 1) {
        this.#uids = list;
        // imapflow expects a single uid and would search for the message without one.
        uids.value = String(list.at(-1));
      }
      return response;
    };
  }
}

function tokensOf({ content, flags, date }: Appended): (Token | readonly Token[])[] {
  return [
    flags.map((value) => ({ type: 'ATOM', value })),
    ...(date === null ? [] : [{ type: 'STRING', value: imapDate(date) } as const]),
    { type: 'LITERAL', value: toBuffer(content) },
  ];
}

function toBuffer(content: Content): Buffer {
  if (Buffer.isBuffer(content)) return content;
  throw new Error('a message that is sent in pieces goes alone');
}

function unasked(part: Buffer): Buffer {
  return Buffer.concat([part.subarray(0, -3), Buffer.from('+}\r\n')]);
}

/** Parses a set such as `3955:3958,3960` (RFC 4315, section 3). Returns an empty list if the set is invalid. */
function uidsIn(set: string): number[] {
  return set.split(',').flatMap((range) => {
    const [first = Number.NaN, last = first] = range.split(':').map(Number);
    const count = last - first + 1;
    return count > 0 && count <= MAX_AT_ONCE
      ? Array.from({ length: count }, (_, i) => first + i)
      : [];
  });
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/** Formats an IMAP date-time (RFC 9051, section 9) in UTC. */
function imapDate(date: Date): string {
  const day = String(date.getUTCDate()).padStart(2);
  const time = date.toISOString().slice(11, 19);
  return `${day}-${MONTHS[date.getUTCMonth()]}-${date.getUTCFullYear()} ${time} +0000`;
}

export type Credential = { readonly password: string } | { readonly accessToken: string };

const MAX_WORDS = 300;
/** Milliseconds without data before the connection times out. Storing a large message takes time. */
const SILENCE = 300_000;
const CONNECT = 30_000;
const PIECE = 1024 * 1024;
/** Response limits, well above any legitimate response and well below the available memory. */
const MAX_LITERAL = 256 * 1024 * 1024;
const MAX_LINE = 16 * 1024 * 1024;

/** @throws restore-login-refused, restore-certificate, restore-unreachable, restore-connection-lost */
export async function connectImap(
  address: ImapAddress,
  credential: Credential,
): Promise<RestoreConnection> {
  const { host, port, user, tls } = address;
  const client = new ImapFlow({
    host,
    port,
    secure: tls,
    // `imapAddress` allows this only for loopback.
    ...(tls ? {} : { doSTARTTLS: false }),
    auth:
      'password' in credential
        ? { user, pass: credential.password }
        : { user, accessToken: credential.accessToken },
    logger: false,
    disableAutoIdle: true,
    disableCompression: true,
    // Dovecot re-encodes parts of binary messages (RFC 3516).
    disableBinary: true,
    connectionTimeout: CONNECT,
    greetingTimeout: CONNECT,
    socketTimeout: SILENCE,
    maxLiteralSize: MAX_LITERAL,
    maxLineLength: MAX_LINE,
    maxResponseSize: MAX_LITERAL + MAX_LINE,
  });
  // The command in progress also fails, and reports the error.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    client.close();
    throw connectError(error, address);
  }
  return new ImapConnection(client, host);
}

/**
 * A connection for a restore. Sends only CREATE, SUBSCRIBE, APPEND and commands that read. Every method can throw
 * restore-refused, restore-throttled or restore-connection-lost.
 */
export type RestoreConnection = Pick<ImapConnection, keyof ImapConnection>;

export type ServerFolder = Awaited<ReturnType<ImapConnection['list']>>[number];
export type SelectedFolder = Awaited<ReturnType<ImapConnection['select']>>;

interface Appended {
  readonly content: Content;
  readonly size: number;
  readonly flags: readonly string[];
  readonly date: Date | null;
}

class ImapConnection {
  readonly #commands: Commands;
  readonly delimiter: string;
  readonly prefix: string;
  /** Maximum message size in bytes; null if the server advertises none. */
  readonly appendLimit: number | null;
  /** Maximum number of messages per command; 1 without MULTIAPPEND. */
  readonly mostAtOnce: number;

  constructor(
    private readonly client: ImapFlow,
    private readonly host: string,
  ) {
    this.delimiter = client.namespace?.delimiter ?? '';
    this.prefix = client.namespace?.prefix ?? '';
    this.#commands = new Commands(client);
    this.mostAtOnce = this.#commands.mostAtOnce;
    const limit = client.capabilities.get('APPENDLIMIT');
    this.appendLimit = typeof limit === 'number' ? limit : null;
  }

  async list() {
    const folders = await this.#ask('LIST', () => this.client.list());
    return folders.map(({ path, specialUse, specialUseSource, subscribed, flags }) => ({
      path,
      /** A special use such as `\Sent`, if the server reports one. */
      specialUse:
        specialUse !== undefined && (specialUseSource === 'extension' || specialUse === '\\Inbox')
          ? specialUse
          : null,
      subscribed,
      selectable: !flags.has('\\Noselect') && !flags.has('\\NonExistent'),
    }));
  }

  /** Returns the bytes left in INBOX's quota, or null if it has no quota. */
  async quotaLeft(): Promise<number | null> {
    const quota = await this.#ask('GETQUOTAROOT', () => this.client.getQuota('INBOX'));
    if (quota === false || quota === undefined) return null;
    const { usage, limit } = quota.storage ?? {};
    return limit === undefined ? null : Math.max(0, limit - (usage ?? 0));
  }

  /** Creates a folder and subscribes to it. Returns false if the folder exists. */
  async create(path: string): Promise<boolean> {
    const { created } = await this.#ask('CREATE', () => this.client.mailboxCreate(path));
    return created === true;
  }

  async subscribe(path: string): Promise<void> {
    await this.#ask('SUBSCRIBE', () => this.client.mailboxSubscribe(path));
  }

  async select(path: string) {
    const box = await this.#ask('SELECT', () => this.client.mailboxOpen(path));
    return {
      path,
      uidValidity: String(box.uidValidity),
      /** Null if the server sent no PERMANENTFLAGS. */
      permanentFlags: box.permanentFlags === undefined ? null : [...box.permanentFlags],
      lastUid: Math.max(0, (box.uidNext ?? 1) - 1),
    };
  }

  /**
   * Appends up to `mostAtOnce` messages to the selected folder, all or none. A message in pieces must be sent alone.
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
    const { flags, date } = first;
    if (this.appendLimit !== null && first.size > this.appendLimit) {
      const text = `it takes messages of up to ${this.appendLimit} bytes`;
      throw restoreError('restore-refused', { command: 'APPEND', response: 'APPENDLIMIT', text });
    }
    return this.#commands.appending(messages, asks, async (content) => {
      const answer = await this.#ask('APPEND', () =>
        this.client.append(path, content, [...flags], date ?? undefined),
      );
      if (answer === false || answer === undefined)
        throw restoreError('restore-connection-lost', { host: this.host, reason: 'no answer' });
      return answer.uid === undefined ? null : [answer.uid];
    });
  }

  async *messages(from: number): AsyncIterable<FoundMessage> {
    const query = { uid: true, size: true, headers: ['message-id'] };
    for await (const { uid, size = 0, headers } of this.#fetch(from, query))
      yield { uid, size, messageId: headers === undefined ? null : messageIdOf(headers) };
  }

  /** Yields the metadata to verify, starting from a uid. */
  async *looks(from: number) {
    const query = { uid: true, size: true, flags: true, internalDate: true };
    for await (const { uid, size = 0, flags = new Set<string>(), internalDate } of this.#fetch(
      from,
      query,
    ))
      yield { uid, size, flags, date: new Date(internalDate ?? Number.NaN).getTime() };
  }

  /** Yields the bytes of a message in the selected folder, or nothing if it does not exist. */
  async *pieces(uid: number): AsyncIterable<Buffer> {
    for (let start = 0; ; ) {
      const query = { source: { start, maxLength: PIECE } };
      const found = await this.#ask('FETCH', () =>
        this.client.fetchOne(String(uid), query, { uid: true }),
      );
      const piece = found === false ? undefined : found?.source;
      if (piece !== undefined && piece.length > 0) yield piece;
      if (piece === undefined || piece.length !== PIECE) return;
      start += piece.length;
    }
  }

  async close(): Promise<void> {
    try {
      await this.client.logout();
    } catch {
      // No command is in progress, so the error does not matter.
      this.client.close();
    }
  }

  async *#fetch(from: number, query: Parameters<ImapFlow['fetch']>[1]) {
    const { mailbox } = this.client;
    // Servers disagree about `*` in an empty folder, where its value is undefined.
    if (mailbox === false || mailbox.exists === 0) return;
    try {
      // `n:*` includes the last message even if its uid is below n (RFC 9051, section 9: seq-range).
      for await (const message of this.client.fetch(`${from}:*`, query, { uid: true }))
        if (message.uid >= from) yield message;
    } catch (error) {
      throw commandError('FETCH', error, this.host);
    }
  }

  async #ask<T>(command: string, ask: () => Promise<T>): Promise<T> {
    if (!this.client.usable) {
      const reason = 'the server closed it';
      throw restoreError('restore-connection-lost', { host: this.host, reason });
    }
    try {
      return await ask();
    } catch (error) {
      throw commandError(command, error, this.host);
    }
  }
}

const NEVER_SENT: ReadonlySet<string> = new Set([
  'InvalidTokenValue',
  'InvalidTextValue',
  'InvalidStringValue',
  'InvalidSequenceSet',
]);
/** Response codes that mean "try again later" (RFC 5530; THROTTLED and OVERLOADED are not standard). */
const LATER: ReadonlySet<string> = new Set(['UNAVAILABLE', 'INUSE', 'THROTTLED', 'OVERLOADED']);
/** Some servers indicate this only in the text: Gmail's code is OVERQUOTA. */
const LATER_WORDS = /throttl|too many (?:commands|operations|requests)|(?:bandwidth|rate) limit/i;

function commandError(command: string, error: unknown, host: string): MailkeepError {
  const { status, response, text, code, waitMs } = readFields(error);
  if (code === 'ETHROTTLE') return restoreError('restore-throttled', { text, waitMs }, error);
  const isLater = (response !== null && LATER.has(response)) || LATER_WORDS.test(text);
  if (status !== null && isLater)
    return restoreError('restore-throttled', { text, waitMs: null }, error);
  if (status !== null || response !== null || (code !== null && NEVER_SENT.has(code)))
    return restoreError('restore-refused', { command, response, text }, error);
  return restoreError('restore-connection-lost', { host, reason: findReason(error) }, error);
}

function connectError(error: unknown, { host, port, user }: ImapAddress): MailkeepError {
  const { text, status, response, code } = readFields(error);
  if (response !== null && LATER.has(response))
    return restoreError('restore-unreachable', { host, port, reason: text }, error);
  if (error instanceof Error && 'authenticationFailed' in error)
    return restoreError('restore-login-refused', { user, host, text }, error);
  if (code !== null && /CERT|SELF_SIGNED|UNABLE_TO_|ALTNAME/.test(code))
    return restoreError('restore-certificate', { host, reason: findReason(error) }, error);
  if (status !== null) return restoreError('restore-login-refused', { user, host, text }, error);
  return restoreError('restore-unreachable', { host, port, reason: findReason(error) }, error);
}

function findReason(error: unknown): string {
  return errnoOf(error) ?? readFields(error).text;
}

function readFields(error: unknown) {
  const field = (name: string): unknown =>
    typeof error === 'object' && error !== null ? Reflect.get(error, name) : undefined;
  const string = (name: string): string | null => {
    const value = field(name);
    return typeof value === 'string' && value !== '' ? value : null;
  };
  const wait = field('throttleReset');
  const words =
    string('responseText') ?? string('reason') ?? string('message') ?? 'no reason given';
  return {
    status: string('responseStatus'),
    response: string('serverResponseCode')?.toUpperCase() ?? null,
    code: string('code'),
    text: words.slice(0, MAX_WORDS),
    waitMs: typeof wait === 'number' && Number.isFinite(wait) ? wait : null,
  };
}
