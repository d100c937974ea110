import { ImapFlow } from 'imapflow';
import { errnoOf, type MailkeepError } from '../errors/mailkeep-error.ts';
import { restoreError } from '../errors/restore.ts';
import { messageIdOf } from './content.ts';
import type { ImapAddress } from './imap-access.ts';
import { Commands } from './imap-commands.ts';
import type { FoundMessage } from './present.ts';
import type {
  Appended,
  SeenMessage,
  SelectedFolder,
  ServerConnection,
  ServerFolder,
} from './server.ts';

/** How the user proves who they are. */
export type Credential = { readonly password: string } | { readonly accessToken: string };

/** Characters of a server's words: they are quoted in errors and reports. */
const MOST_WORDS = 300;
/** How long the server may say nothing, in milliseconds: taking in a large message takes its time. */
const SILENCE = 300_000;
const CONNECT = 30_000;
/** Bytes of a message that are asked for at once. */
const PIECE = 1024 * 1024;
/** Bytes of a literal and of a line that the server may send: more than any answer needs, and not all of the memory. */
const LONGEST_LITERAL = 256 * 1024 * 1024;
const LONGEST_LINE = 16 * 1024 * 1024;

/**
 * Connects and signs in.
 *
 * @throws restore-login-refused, restore-certificate, restore-unreachable, restore-connection-lost
 */
export async function connectImap(
  address: ImapAddress,
  credential: Credential,
): Promise<ServerConnection> {
  const { host, port, user, tls } = address;
  const client = new ImapFlow({
    host,
    port,
    secure: tls,
    // Without TLS it is this machine, see `imapAddress`.
    ...(tls ? {} : { doSTARTTLS: false }),
    auth:
      'password' in credential
        ? { user, pass: credential.password }
        : { user, accessToken: credential.accessToken },
    logger: false,
    disableAutoIdle: true,
    disableCompression: true,
    // Of what is sent as binary (RFC 3516), Dovecot encodes parts again.
    disableBinary: true,
    connectionTimeout: CONNECT,
    greetingTimeout: CONNECT,
    socketTimeout: SILENCE,
    maxLiteralSize: LONGEST_LITERAL,
    maxLineLength: LONGEST_LINE,
    maxResponseSize: LONGEST_LITERAL + LONGEST_LINE,
  });
  // A broken connection also fails the command under way, which reports it.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    client.close();
    throw connectError(error, address);
  }
  return new ImapConnection(client, host);
}

class ImapConnection implements ServerConnection {
  readonly #commands: Commands;
  readonly delimiter: string;
  readonly prefix: string;
  readonly appendLimit: number | null;
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

  async list(): Promise<readonly ServerFolder[]> {
    const folders = await this.#ask('LIST', () => this.client.list());
    return folders.map(({ path, specialUse, specialUseSource, subscribed, flags }) => ({
      path,
      specialUse:
        specialUse !== undefined && (specialUseSource === 'extension' || specialUse === '\\Inbox')
          ? specialUse
          : null,
      subscribed,
      selectable: !flags.has('\\Noselect') && !flags.has('\\NonExistent'),
    }));
  }

  async quotaLeft(): Promise<number | null> {
    const quota = await this.#ask('GETQUOTAROOT', () => this.client.getQuota('INBOX'));
    if (quota === false || quota === undefined) return null;
    const { usage, limit } = quota.storage ?? {};
    return limit === undefined ? null : Math.max(0, limit - (usage ?? 0));
  }

  async create(path: string): Promise<boolean> {
    const { created } = await this.#ask('CREATE', () => this.client.mailboxCreate(path));
    return created === true;
  }

  async subscribe(path: string): Promise<void> {
    await this.#ask('SUBSCRIBE', () => this.client.mailboxSubscribe(path));
  }

  async select(path: string): Promise<SelectedFolder> {
    const box = await this.#ask('SELECT', () => this.client.mailboxOpen(path));
    return {
      path,
      uidValidity: String(box.uidValidity),
      permanentFlags: box.permanentFlags === undefined ? null : [...box.permanentFlags],
      flags: box.flags,
      messages: box.exists,
      lastUid: Math.max(0, (box.uidNext ?? 1) - 1),
    };
  }

  async append(path: string, messages: readonly Appended[], asks: boolean) {
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

  async *messages(from: number): AsyncGenerator<FoundMessage, void, undefined> {
    const query = { uid: true, size: true, headers: ['message-id'] };
    for await (const { uid, size = 0, headers } of this.#fetch(from, query))
      yield { uid, size, messageId: headers === undefined ? null : messageIdOf(headers) };
  }

  async *looks(from: number): AsyncGenerator<SeenMessage, void, undefined> {
    const query = { uid: true, size: true, flags: true, internalDate: true };
    for await (const { uid, size = 0, flags = new Set<string>(), internalDate } of this.#fetch(
      from,
      query,
    ))
      yield { uid, size, flags, date: new Date(internalDate ?? Number.NaN).getTime() };
  }

  async *pieces(uid: number): AsyncGenerator<Buffer, void, undefined> {
    for (let start = 0; ; ) {
      const query = { source: { start, maxLength: PIECE } };
      const found = await this.#ask('FETCH', () =>
        this.client.fetchOne(String(uid), query, { uid: true }),
      );
      const piece = found === false ? undefined : found?.source;
      if (piece !== undefined && piece.length > 0) yield piece;
      // Servers that ignore the length give the rest of the message at once.
      if (piece === undefined || piece.length !== PIECE) return;
      start += piece.length;
    }
  }

  async close(): Promise<void> {
    try {
      await this.client.logout();
    } catch {
      // Whatever it was, nothing is under way.
      this.client.close();
    }
  }

  async *#fetch(from: number, query: Parameters<ImapFlow['fetch']>[1]) {
    const { mailbox } = this.client;
    // Without messages there is no `*`, and servers differ about what it means then.
    if (mailbox === false || mailbox.exists === 0) return;
    try {
      // `n:*` has the last message always, also one before n (RFC 9051, 9: seq-range).
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

/** Codes of imapflow's compiler: the command was never sent. */
const NEVER_SENT: ReadonlySet<string> = new Set([
  'InvalidTokenValue',
  'InvalidTextValue',
  'InvalidStringValue',
  'InvalidSequenceSet',
]);
/** Response codes that ask to try again later (RFC 5530; THROTTLED and OVERLOADED are of providers). */
const LATER: ReadonlySet<string> = new Set(['UNAVAILABLE', 'INUSE', 'THROTTLED', 'OVERLOADED']);
/** Others ask so in words, with codes that mean something else: Gmail with OVERQUOTA. */
const LATER_WORDS = /throttl|too many (?:commands|operations|requests)|(?:bandwidth|rate) limit/i;

function commandError(command: string, error: unknown, host: string): MailkeepError {
  const { status, response, text, code, waitMs } = fieldsOf(error);
  if (code === 'ETHROTTLE') return restoreError('restore-throttled', { text, waitMs }, error);
  const isLater = (response !== null && LATER.has(response)) || LATER_WORDS.test(text);
  if (status !== null && isLater)
    return restoreError('restore-throttled', { text, waitMs: null }, error);
  if (status !== null || response !== null || (code !== null && NEVER_SENT.has(code)))
    return restoreError('restore-refused', { command, response, text }, error);
  return restoreError('restore-connection-lost', { host, reason: reasonOf(error) }, error);
}

function connectError(error: unknown, { host, port, user }: ImapAddress): MailkeepError {
  const { text, status, response, code } = fieldsOf(error);
  if (response !== null && LATER.has(response))
    return restoreError('restore-unreachable', { host, port, reason: text }, error);
  if (error instanceof Error && 'authenticationFailed' in error)
    return restoreError('restore-login-refused', { user, host, text }, error);
  if (code !== null && /CERT|SELF_SIGNED|UNABLE_TO_|ALTNAME/.test(code))
    return restoreError('restore-certificate', { host, reason: reasonOf(error) }, error);
  if (status !== null) return restoreError('restore-login-refused', { user, host, text }, error);
  return restoreError('restore-unreachable', { host, port, reason: reasonOf(error) }, error);
}

/** The errno where there is one, else the library's own words, cut. */
function reasonOf(error: unknown): string {
  return errnoOf(error) ?? fieldsOf(error).text;
}

/** What imapflow puts on its errors. */
function fieldsOf(error: unknown) {
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
    text: words.slice(0, MOST_WORDS),
    waitMs: typeof wait === 'number' && Number.isFinite(wait) ? wait : null,
  };
}
