/**
 * A connection to an IMAP server. `ImapConnections` shares and repeats them.
 *
 * imapflow connects, starts TLS, signs in and splits what it receives into lines and literals of limited size. After
 * that, this file takes over: it replaces imapflow's `handleResponse` and sends commands itself. Reasons:
 *
 * - imapflow logs and drops responses that it cannot parse, so a folder or uid could go missing without an error.
 * - Its commands return `false` on NO, which looks like an empty answer, and accept a partial FETCH.
 * - It waits for throttled servers within the connection, without a clock or signal from outside.
 * - It sends commands (LSUB, SELECT, COMPRESS, IDLE) that a mirror does not need.
 */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { ImapFlow } from 'imapflow';
import { isLoopback } from '../core/address.ts';
import { onAbort } from '../core/concurrency.ts';
import { MailkeepError } from '../core/errors.ts';
import type { Secret } from '../core/secrets.ts';
import {
  CLOSED,
  codeOf,
  connectError,
  isTemporary,
  lossError,
  MAX_LINE,
  MAX_LITERAL,
  MAX_RESPONSE,
  suggestedWait,
  withoutSecretIn,
} from './connection-errors.ts';
import { imapError } from './errors.ts';
import {
  type DataResponse,
  MalformedResponse,
  parseResponse,
  type Response,
  type StatusResponse,
} from './response.ts';
import type { Traffic } from './traffic.ts';

export interface ImapServer {
  readonly host: string;
  readonly port: number;
  readonly tls: 'implicit' | 'starttls' | 'none';
  readonly user: string;
  /** Certificates to trust in place of the system's, in PEM. */
  readonly ca?: string;
}

/** A token is sent with OAUTHBEARER (RFC 7628), or XOAUTH2 if the server offers only that. */
export interface Credential {
  readonly kind: 'password' | 'token';
  readonly secret: Secret;
  /** Name of the account, if a person signs in with "mailkeep account login". */
  readonly login?: string;
}

/** Responses to one command: at most one per folder, or one per message of a folder. */
const MAX_RESPONSES = 2_000_000;
/** Bytes of the answer to one command. The largest ones have 64 messages of 1 MiB. */
const MAX_ANSWER = 128 * 1024 * 1024;

export interface ConnectionTimes {
  /** Milliseconds until a connection attempt fails. */
  readonly connectMs: number;
  /** Milliseconds without data until a connection counts as broken. Large folders take long to open. */
  readonly silenceMs: number;
  /** Milliseconds until a sign-in fails, and any other command, even if the server keeps sending. */
  readonly signInMs?: number;
  readonly commandMs?: number;
}

const SIGN_IN_MS = 300_000;
/** Longer than any answer takes over a slow line. */
const COMMAND_MS = 6 * 3_600_000;

/** One finished command. */
export interface CommandReport {
  readonly command: string;
  readonly result: 'ok' | 'refused' | 'throttled' | 'lost';
  readonly ms: number;
  /** Bytes of its responses. */
  readonly bytes: number;
}

/** Observers of a session. */
export interface SessionHooks {
  readonly traffic?: Traffic;
  readonly onCommand?: (report: CommandReport) => void;
}

const TIMES: ConnectionTimes = { connectMs: 30_000, silenceMs: 120_000 };
/** Milliseconds to wait for the answer to LOGOUT. */
const LOGOUT_MS = 2_000;

interface Item {
  readonly payload: Buffer;
  readonly literals: readonly Buffer[];
}

interface Namespace {
  readonly prefix?: string;
  readonly delimiter?: string;
}

/** Internals that imapflow does not export. */
interface Internals {
  handleResponse(item: Item): Promise<boolean>;
  throttleWait(ms: number): Promise<boolean>;
  readonly writeSocket: Socket | false;
  readonly namespaces?: Readonly<Record<string, readonly Namespace[] | false | undefined>>;
}

type UntaggedResponse = DataResponse | StatusResponse;

interface Running {
  readonly command: string;
  readonly tags: ReadonlyMap<string, number>;
  readonly results: (StatusResponse | undefined)[];
  readonly onData: (response: UntaggedResponse) => void | Promise<void>;
  readonly onEnd: (results: readonly StatusResponse[]) => void;
  readonly done: PromiseWithResolvers<void>;
  /** Whether nothing can be sent before it is complete. */
  readonly isAlone: boolean;
  /** Called when the server is ready for a literal. */
  onContinuation: (() => void) | undefined;
  responses: number;
  bytes: number;
  missing: number;
}

/** Bytes to send within a command, or a function that reads them in pieces. */
export interface Literal {
  readonly size: number;
  readonly content: Buffer | (() => AsyncIterable<Buffer>);
}

/** The longest literal that LITERAL- (RFC 7888) allows to be sent without waiting, in bytes. */
const MAX_UNASKED_LITERAL = 4096;
const CRLF = Buffer.from('\r\n');

class SocketClosed extends Error {}

/** The folder opened with EXAMINE. */
export interface SelectedFolder {
  /** The name as sent by the server, one character per byte. */
  readonly wireName: string;
  readonly uidValidity: string;
  /** Null if the server does not report it. */
  readonly uidNext: number | null;
  /** Null if the folder has no modification sequences (NOMODSEQ). */
  readonly highestModSeq: string | null;
  /** MAILBOXID (RFC 8474); null without OBJECTID. */
  readonly mailboxId: string | null;
  /**
   * Milliseconds since the epoch when EXAMINE was sent. A session can show messages that were deleted since, and miss
   * messages that have arrived since.
   */
  readonly openedAt: number;
  /** Current number of messages. */
  exists: number;
  /** Increases with every EXISTS, EXPUNGE and VANISHED. */
  changes: number;
}

function requireOneLine(text: string): void {
  if (/[\0\r\n]/.test(text)) throw new Error('a line break within a command');
}

/**
 * One signed-in connection. A command can be sent while earlier ones run, unless one of them has a literal or is IDLE.
 * The server answers them in order, since what belongs to which would be unclear otherwise (RFC 3501, section 5.5).
 */
export class ImapSession {
  selected: SelectedFolder | null = null;
  readonly capabilities: ReadonlySet<string>;
  /** Prefixes of other users' and shared folders, one character per byte, as sent by the server. */
  readonly foreignPrefixes: readonly string[];
  /** False if the server refused to say which folders are other users' or shared. */
  readonly knowsForeign: boolean;
  /** The user's own namespace: where new folders go. */
  readonly namespace: Required<Namespace>;
  /** Maximum size in bytes of a message to store (RFC 7889); null if the server advertises none. */
  readonly appendLimit: number | null;
  /** Commands that are not complete, in the order they were sent. */
  readonly #queue: Running[] = [];
  #end: MailkeepError | undefined;
  #tag = 0;
  #idleResponses = 0;
  /** Bytes in both directions that were counted. */
  #counted = 0;
  #written = 0;

  private constructor(
    private readonly client: ImapFlow,
    private readonly server: ImapServer,
    private readonly secret: Secret,
    private readonly hooks: SessionHooks,
    private readonly commandMs: number,
  ) {
    const inner = client as unknown as Internals;
    this.capabilities = new Set([...client.capabilities.keys()].map((name) => name.toUpperCase()));
    const limit = client.capabilities.get('APPENDLIMIT');
    this.appendLimit = typeof limit === 'number' ? limit : null;
    const { personal, other, shared } = inner.namespaces ?? {};
    const { prefix = '', delimiter = '' } = (personal || [])[0] ?? {};
    this.namespace = { prefix, delimiter };
    this.knowsForeign = inner.namespaces !== undefined || !this.has('NAMESPACE');
    // Nagle's algorithm would delay the end of a message until the server acknowledges its start.
    if (inner.writeSocket !== false) inner.writeSocket.setNoDelay(true);
    this.foreignPrefixes = [...(other || []), ...(shared || [])].map((one) => one.prefix ?? '');
    inner.handleResponse = (item) => this.#receive(item);
    client.on('error', (error) => this.#fail(error));
    client.on('close', () => this.#fail(undefined));
    hooks.traffic?.learn(this.capabilities);
    this.#count();
  }

  /**
   * Connects and signs in.
   *
   * @throws imap.needs-tls, imap.unreachable, imap.certificate, imap.starttls-missing, imap.starttls-injection,
   *   imap.sign-in-refused, imap.no-sign-in-method, imap.throttled, imap.too-large; the signal's reason
   */
  static async open(
    server: ImapServer,
    credential: Credential,
    signal: AbortSignal,
    times: ConnectionTimes = TIMES,
    hooks: SessionHooks = {},
  ): Promise<ImapSession> {
    const { host, port, tls, user, ca } = server;
    const { kind, secret } = credential;
    if (tls === 'none' && !isLoopback(host)) throw imapError('imap.needs-tls', { host });
    signal.throwIfAborted();
    const client = new ImapFlow({
      host,
      port,
      secure: tls === 'implicit',
      ...(tls === 'implicit' ? {} : { doSTARTTLS: tls === 'starttls' }),
      ...(ca === undefined ? {} : { tls: { ca } }),
      auth:
        kind === 'password'
          ? { user, pass: secret.reveal() }
          : { user, accessToken: secret.reveal() },
      clientInfo: { name: 'mailkeep', version: '', vendor: '', 'support-url': '' },
      logger: false,
      disableAutoEnable: true,
      disableAutoIdle: true,
      disableCompression: true,
      connectionTimeout: times.connectMs,
      greetingTimeout: times.connectMs,
      socketTimeout: times.silenceMs,
      maxLiteralSize: MAX_LITERAL,
      maxLineLength: MAX_LINE,
      maxResponseSize: MAX_RESPONSE,
    });
    client.on('error', () => {});
    // A server that throttles the sign-in is waited for by `ImapConnections`, which can be interrupted.
    (client as unknown as Internals).throttleWait = () => Promise.resolve(false);
    const release = onAbort(signal, () => client.close());
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      client.close();
    }, times.signInMs ?? SIGN_IN_MS);
    try {
      await client.connect();
    } catch (error) {
      client.close();
      signal.throwIfAborted();
      throw connectError(isLate ? { code: 'ETIMEOUT' } : error, server, credential);
    } finally {
      clearTimeout(timer);
      release();
    }
    return new ImapSession(client, server, secret, hooks, times.commandMs ?? COMMAND_MS);
  }

  get host(): string {
    return this.server.host;
  }

  get usable(): boolean {
    return this.#end === undefined && this.client.usable;
  }

  /** The TLS version, and when the server's certificate expires, in milliseconds since the epoch; null without TLS. */
  get encryption(): { readonly protocol: string; readonly validUntil: number } | null {
    const { writeSocket } = this.client as unknown as Internals;
    if (!(writeSocket instanceof TLSSocket)) return null;
    const validUntil = Date.parse(writeSocket.getPeerCertificate().valid_to);
    return { protocol: writeSocket.getProtocol() ?? 'TLS', validUntil };
  }

  get #running(): Running | undefined {
    return this.#queue[0];
  }

  has(capability: string): boolean {
    return this.capabilities.has(capability);
  }

  /**
   * Sends a command and waits until it is complete.
   *
   * @param command its verb, for errors
   * @param onData receives each untagged response; may throw MalformedResponse
   * @returns the tagged OK, with its response code
   * @throws imap.refused, imap.throttled, imap.malformed, imap.too-large, imap.connection-lost
   */
  async run(
    command: string,
    line: string,
    onData: Running['onData'] = () => {},
  ): Promise<StatusResponse> {
    const [result] = await this.runAll(command, [line], onData);
    if (result === undefined) throw new Error('a command without a result');
    if (result.status !== 'OK') throw this.refusal(command, result);
    return result;
  }

  /**
   * Sends several commands together. Returns the tagged response of each, which can be a refusal.
   *
   * @param onEnd receives these before the next command's responses are handled
   */
  async runAll(
    command: string,
    lines: readonly string[],
    onData: Running['onData'],
    onEnd: Running['onEnd'] = () => {},
  ): Promise<readonly StatusResponse[]> {
    for (const line of lines) requireOneLine(line);
    const send = ({ tags }: Running): Promise<void> =>
      this.#write([
        // Folder names have one character per byte.
        Buffer.from([...tags].map(([tag, i]) => `${tag} ${lines[i]}\r\n`).join(''), 'latin1'),
      ]);
    return this.#exchange({ command, count: lines.length, onData, onEnd, send });
  }

  /**
   * Sends a command with literals. Sends a literal whole even if the server responds early, because no command can
   * follow half of one.
   *
   * @param parts text and literals in order
   * @param waits whether to wait for the server to accept the size before sending the bytes of each literal
   * @returns the tagged response, which can be a refusal
   * @throws as `run`; errors from reading a literal, after which the connection is closed, so that the server drops it
   */
  async runWithLiterals(
    command: string,
    parts: readonly (string | Literal)[],
    waits: boolean,
  ): Promise<StatusResponse> {
    const send = async (running: Running): Promise<void> => {
      let ready: Buffer[] = [Buffer.from(`${[...running.tags.keys()][0]} `)];
      const flush = async (): Promise<void> => this.#write(ready.splice(0));
      for (const part of parts) {
        if (typeof part === 'string') {
          requireOneLine(part);
          ready.push(Buffer.from(part, 'latin1'));
          continue;
        }
        const { size, content } = part;
        const isUnasked =
          !waits && (this.has('LITERAL+') || (this.has('LITERAL-') && size <= MAX_UNASKED_LITERAL));
        ready.push(Buffer.from(`{${size}${isUnasked ? '+' : ''}}\r\n`));
        if (!isUnasked) {
          const accepted = Promise.withResolvers<void>();
          running.onContinuation = accepted.resolve;
          await flush();
          await Promise.race([accepted.promise, running.done.promise]);
          // It has refused the size, and expects no bytes.
          if (running.onContinuation !== undefined) return;
        }
        if (Buffer.isBuffer(content)) ready.push(content);
        else {
          await flush();
          await this.#writePieces(content(), size);
        }
      }
      ready = [...ready, CRLF];
      await flush();
    };
    const [result] = await this.#exchange({ command, count: 1, isAlone: true, send });
    if (result === undefined) throw new Error('a command without a result');
    return result;
  }

  /**
   * Waits for changes with IDLE (RFC 2177).
   *
   * @param onData receives what the server sends meanwhile
   * @param until ends the wait when it resolves
   * @throws as `run`
   */
  async idle(onData: Running['onData'], until: Promise<void>): Promise<void> {
    const send = async (running: Running): Promise<void> => {
      const { tags, done } = running;
      const accepted = Promise.withResolvers<void>();
      running.onContinuation = accepted.resolve;
      await this.#write([Buffer.from(`${[...tags.keys()][0]} IDLE\r\n`)]);
      await Promise.race([accepted.promise, done.promise]);
      await Promise.race([until, done.promise]);
      if (running.missing > 0) await this.#write([Buffer.from('DONE\r\n')]);
    };
    const [result] = await this.#exchange({
      ...{ command: 'IDLE', count: 1, isAlone: true, onData, send },
    });
    if (result?.status !== 'OK') {
      throw result === undefined
        ? new Error('IDLE without a result')
        : this.refusal('IDLE', result);
    }
  }

  /** @param exchange.send writes the commands, whose number is `count` */
  async #exchange(exchange: {
    readonly command: string;
    readonly count: number;
    readonly isAlone?: boolean;
    readonly onData?: Running['onData'];
    readonly onEnd?: Running['onEnd'];
    readonly send: (running: Running) => Promise<void>;
  }): Promise<readonly StatusResponse[]> {
    const { command, count, isAlone = false, send } = exchange;
    const { onData = () => {}, onEnd = () => {} } = exchange;
    if (count === 0) return [];
    if (this.#queue.some((one) => isAlone || one.isAlone)) {
      throw new Error(`${command} while another command runs`);
    }
    if (this.#end !== undefined) throw this.#end;
    const tags = new Map(Array.from({ length: count }, (_, i) => [`k${this.#tag + i}`, i]));
    this.#tag += count;
    const done = Promise.withResolvers<void>();
    const results = new Array<undefined>(count).fill(undefined);
    const running: Running = {
      ...{ command, tags, results, onData, onEnd, done, isAlone, missing: count },
      onContinuation: undefined,
      ...{ responses: 0, bytes: 0 },
    };
    this.#queue.push(running);
    this.#idleResponses = 0;
    const failures: unknown[] = [];
    // IDLE ends when its caller wants.
    const timer =
      command === 'IDLE'
        ? undefined
        : setTimeout(() => this.#fail({ code: 'ETIMEOUT' }), this.commandMs);
    const startedAt = performance.now();
    try {
      const sending = send(running).catch((error: unknown) => {
        if (!(error instanceof SocketClosed) && this.#end === undefined) failures.push(error);
        this.#fail(undefined);
      });
      await Promise.all([sending, done.promise]);
      if (failures.length > 0) throw failures[0];
    } catch (error) {
      if (failures.length > 0) throw failures[0];
      if (error instanceof MailkeepError) throw error;
      this.#fail(error);
      throw this.#end ?? error;
    } finally {
      clearTimeout(timer);
      if (this.#queue.includes(running)) this.#queue.splice(this.#queue.indexOf(running), 1);
      this.#count();
      const bytes = Math.round(running.bytes / count);
      const ms = performance.now() - startedAt;
      for (const result of running.results) {
        this.hooks.onCommand?.({ command, result: this.#outcome(result), ms, bytes });
      }
    }
    return running.results.filter((result) => result !== undefined);
  }

  /** Returns the error for a NO, BAD or BYE. */
  refusal(command: string, result: StatusResponse): MailkeepError {
    const { host } = this.server;
    const code = codeOf(result.code?.name);
    const waitMs = suggestedWait(result.text);
    if (waitMs > 0 || isTemporary(code, result.text)) {
      return imapError('imap.throttled', { host, command, code, waitMs });
    }
    return imapError('imap.refused', { host, command, code });
  }

  #outcome(result: StatusResponse | undefined): CommandReport['result'] {
    if (result === undefined) return 'lost';
    if (result.status === 'OK') return 'ok';
    return this.refusal('', result).code === 'imap.throttled' ? 'throttled' : 'refused';
  }

  /** Adds the bytes since the last call to the user's traffic. */
  #count(): void {
    const { sent, received } = this.client.stats();
    const all = sent + received + this.#written;
    this.hooks.traffic?.add(all - this.#counted);
    this.#counted = all;
  }

  malformed(command: string, found: string): MailkeepError {
    return imapError('imap.malformed', { host: this.server.host, command, found });
  }

  async logout(): Promise<void> {
    if (this.usable && this.#running === undefined) {
      const timer = setTimeout(() => this.client.close(), LOGOUT_MS);
      await this.run('LOGOUT', 'LOGOUT').catch(() => {});
      clearTimeout(timer);
    }
    this.close();
  }

  close(): void {
    this.client.close();
  }

  /** Writes all pieces. Holds back the last one until the source has ended, since damage may be found only at the end. */
  async #writePieces(pieces: AsyncIterable<Buffer>, size: number): Promise<void> {
    let last: Buffer | undefined;
    let count = 0;
    for await (const piece of pieces) {
      // If a message has grown, do not truncate it to its declared size: the server would accept it as complete.
      if (last !== undefined && count <= size) await this.#write([last]);
      last = piece;
      count += piece.length;
    }
    if (count !== size) throw new Error('a message changed while it was sent');
    if (last !== undefined) await this.#write([last]);
  }

  /** Resolves when the operating system has taken the bytes. */
  #write(bytes: readonly Buffer[]): Promise<void> {
    const { writeSocket: socket } = this.client as unknown as Internals;
    return new Promise((resolve, reject) => {
      if (socket === false || socket.destroyed) return reject(new SocketClosed());
      const fail = (): void => reject(new SocketClosed());
      socket.once('close', fail);
      const all = Buffer.concat(bytes);
      this.#written += all.length;
      socket.write(all, (error) => {
        socket.off('close', fail);
        if (error === undefined || error === null) resolve();
        else fail();
      });
    });
  }

  /** Handles one response. imapflow reads the next one when the promise resolves. */
  async #receive({ payload, literals }: Item): Promise<boolean> {
    if (this.#end !== undefined) return false;
    const running = this.#running;
    this.#count();
    try {
      const parsed = parseResponse(payload, literals);
      const isRefusal = 'status' in parsed && parsed.status !== 'OK';
      const response = isRefusal ? withoutSecretIn(parsed, this.secret) : parsed;
      if (running === undefined) {
        this.#idleResponses += 1;
        if (this.#idleResponses > MAX_RESPONSES)
          this.#flood('an idle connection', 'responses', MAX_RESPONSES);
        this.#note(response, undefined);
        return this.#end === undefined;
      }
      running.responses += 1;
      running.bytes += literals.reduce((sum, { length }) => sum + length, payload.length);
      const { command, responses, bytes } = running;
      if (responses > MAX_RESPONSES) this.#flood(command, 'responses', MAX_RESPONSES);
      // What comes during IDLE is not kept.
      else if (bytes > MAX_ANSWER && command !== 'IDLE') this.#flood(command, 'answer', MAX_ANSWER);
      else await this.#dispatch(response, running);
    } catch (error) {
      // What follows an unreadable response may be the rest of a literal with a wrong length.
      if (running === undefined || error instanceof MalformedResponse) this.#fail(error);
      else {
        running.done.reject(error);
        this.close();
      }
    }
    return this.#end === undefined;
  }

  async #dispatch(response: Response, running: Running): Promise<void> {
    this.#note(response, running);
    if ('continuation' in response) {
      const { onContinuation } = running;
      if (onContinuation === undefined) throw new MalformedResponse('an unexpected continuation');
      running.onContinuation = undefined;
      return onContinuation();
    }
    if ('name' in response || response.tag === '*') {
      await running.onData(response);
      return;
    }
    const at = running.tags.get(response.tag);
    if (at === undefined || running.results[at] !== undefined) {
      throw new MalformedResponse('a tag that was not sent');
    }
    running.results[at] = response;
    running.missing -= 1;
    if (running.missing > 0) return;
    this.#queue.shift();
    running.onEnd(running.results.filter((one) => one !== undefined));
    running.done.resolve();
  }

  /** Keeps the selected folder up to date, and handles BYE. */
  #note(response: Response, running: Running | undefined): void {
    if ('continuation' in response) return;
    if ('status' in response) {
      if (response.status === 'BYE' && running?.command !== 'LOGOUT') this.#bye(response, running);
      return;
    }
    const { selected } = this;
    if (selected === null) return;
    if (response.name === 'EXISTS') selected.exists = response.number ?? 0;
    else if (response.name === 'EXPUNGE') selected.exists = Math.max(0, selected.exists - 1);
    else if (response.name !== 'VANISHED') return;
    selected.changes += 1;
  }

  #bye(response: StatusResponse, running: Running | undefined): void {
    const { host } = this.server;
    const command = running?.command ?? 'an idle connection';
    const code = codeOf(response.code?.name);
    const waitMs = suggestedWait(response.text);
    const isThrottled = waitMs > 0 || isTemporary(code, response.text);
    this.#finish(
      isThrottled
        ? imapError('imap.throttled', { host, command, code, waitMs })
        : imapError('imap.connection-lost', { host, command, reason: CLOSED }),
    );
    this.close();
  }

  #flood(command: string, what: 'responses' | 'answer', limit: number): void {
    const { host } = this.server;
    this.#finish(imapError('imap.too-large', { host, command, what, limit }));
    this.close();
  }

  #fail(error: unknown): void {
    if (this.#end === undefined) {
      const command = this.#running?.command;
      const end =
        error instanceof MalformedResponse && command !== undefined
          ? this.malformed(command, error.message)
          : lossError(error, this.server.host, command ?? 'an idle connection');
      this.#finish(end);
    }
    this.close();
  }

  #finish(end: MailkeepError): void {
    this.#end ??= end;
    for (const { done } of this.#queue) done.reject(this.#end);
  }
}
