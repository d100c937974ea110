import { spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, open, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { inspect } from 'node:util';
import { onAbort } from './concurrency.ts';
import type { TokenSource } from './config-schema.ts';
import { configError, type SecretKind, webhookError } from './error-tables.ts';
import { errnoOf } from './errors.ts';
import { makeFolders, readRegularFile, syncFolder } from './files.ts';

const MASK = '***';

/** Protects text from being printed by accident: templates, JSON, console, inspect and logs show `***`. */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}

interface SourceFacts {
  readonly source: string;
  readonly name: string;
  readonly what?: SecretKind;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads a token from its source on every call. It is read for each request, and again after a 401, so users can replace
 * a token without a restart.
 * @throws token-missing, token-empty, token-unreadable, token-unusable
 */
export async function readToken(source: TokenSource, env: Environment): Promise<Secret> {
  const facts = { source: source.kind, name: source.name };
  const text = (await rawToken(source, env, facts)).trim();
  if (text === '') throw configError('token-empty', facts);
  // Header values are visible ASCII (RFC 9110). Any other character would split the header or be rejected.
  if (!/^[\x21-\x7e]+$/.test(text)) throw configError('token-unusable', facts);
  return new Secret(text);
}

/**
 * Reads a password, which can contain blanks and any character except line breaks. Only the first line counts, so that
 * password managers can print more.
 * @throws token-missing, token-empty, token-unreadable, token-unusable, secret-command-failed
 */
export async function readPassword(
  source: TokenSource,
  env: Environment,
  what: SecretKind,
  signal?: AbortSignal,
): Promise<Secret> {
  const facts = { source: source.kind, name: source.name, what };
  const [line = ''] = (await rawToken(source, env, facts, signal)).split(/\r?\n/);
  if (line === '') throw configError('token-empty', facts);
  if (/[\0\r]/.test(line)) throw configError('token-unusable', facts);
  return new Secret(line);
}

const COMMAND_MS = 30_000;
const MAX_COMMAND_OUTPUT = 65_536;

/** How long the output is awaited after the command has ended: one of its children may hold the pipe open. */
const LAST_OUTPUT_MS = 1_000;

/**
 * Runs a command without a shell, and returns what it prints. Neither its arguments nor its output are logged. It has no
 * input, because it could wait for it until it times out.
 */
async function printedSecret(
  program: string,
  args: readonly string[],
  signal: AbortSignal | undefined,
): Promise<string> {
  const failed = (reason: string) => configError('secret-command-failed', { program, reason });
  signal?.throwIfAborted();
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = Promise.withResolvers<string>();
  const chunks: Buffer[] = [];
  let bytes = 0;
  const stop = (error: unknown): void => {
    ended.reject(error);
    child.kill('SIGKILL');
  };
  const release = signal === undefined ? undefined : onAbort(signal, () => stop(signal.reason));
  let timer = setTimeout(() => stop(failed('timeout')), COMMAND_MS);
  child.once('error', (error) => ended.reject(failed(errnoOf(error) ?? 'unknown')));
  child.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    chunks.push(chunk);
    if (bytes > MAX_COMMAND_OUTPUT) stop(failed(`more than ${MAX_COMMAND_OUTPUT} bytes of output`));
  });
  child.once('exit', (code) => {
    clearTimeout(timer);
    const end = (): void => {
      if (code === 0) ended.resolve(Buffer.concat(chunks).toString('utf8'));
      else ended.reject(failed(code === null ? 'signal' : String(code)));
    };
    child.once('close', end);
    timer = setTimeout(end, LAST_OUTPUT_MS);
  });
  try {
    return await ended.promise;
  } finally {
    clearTimeout(timer);
    release?.();
    child.stdout.destroy();
    child.unref();
  }
}

async function rawToken(
  source: TokenSource,
  env: Environment,
  facts: SourceFacts,
  signal?: AbortSignal,
): Promise<string> {
  switch (source.kind) {
    case 'literal':
      return source.secret.reveal();
    case 'env': {
      const value = env[source.name];
      if (value === undefined) throw configError('token-missing', facts);
      return value;
    }
    case 'file':
      return tokenFile(source.name, facts);
    case 'credential': {
      const folder = env.CREDENTIALS_DIRECTORY ?? '';
      if (folder === '') throw configError('token-missing', facts);
      return tokenFile(path.join(folder, source.name), facts);
    }
    case 'command':
      return printedSecret(source.name, source.args, signal);
  }
}

/** In bytes; no token is that long. Prevents a large file given by mistake from being read in full. */
const MAX_TOKEN_FILE = 65_536;

function tokenFile(file: string, facts: SourceFacts): string {
  try {
    const bytes = readRegularFile(file);
    if (bytes.length > MAX_TOKEN_FILE) throw configError('token-unusable', facts);
    return bytes.toString('utf8').replace(/^\uFEFF/, '');
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    if (reason === 'ENOENT') throw configError('token-missing', facts, error);
    throw configError('token-unreadable', { ...facts, reason }, error);
  }
}

/** A webhook created by this program, with the secret that its deliveries carry. */
export interface StoredWebhook {
  readonly id: string;
  /** Resource id and address of the mailbox. */
  readonly mailboxId: string;
  readonly mailbox: string;
  /** Name of the account in the configuration, with the host and port of its service. */
  readonly account: string;
  readonly host: string;
  readonly url: string;
  /** Sent in deliveries as `Authorization: Bearer`. */
  readonly secret: Secret;
  /** ISO 8601. */
  readonly createdAt: string;
}

const SUFFIX = '.json';

/** Returns the directory for webhook secrets, which contains one JSON file per webhook. */
export function webhookSecretsFolder(dataDir: string): string {
  return path.join(dataDir, 'webhooks');
}

/**
 * Reserves storage before the secret exists, because the service shows the secret only once.
 * @throws webhook-secrets-unwritable
 */
export async function reserveSecret(dataDir: string) {
  const folder = webhookSecretsFolder(dataDir);
  const temporary = path.join(folder, `${randomUUID()}.tmp`);
  let handle: FileHandle;
  try {
    makeFolders(folder, 0o700);
    handle = await open(temporary, 'wx', 0o600);
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw webhookError('webhook-secrets-unwritable', { file: folder, reason }, error);
  }
  let isOpen = true;
  const close = async () => {
    if (isOpen) await handle.close();
    isOpen = false;
  };
  return {
    /**
     * Stores the secret durably in a file with mode 0600 and returns its path.
     * @throws webhook-secret-lost, with `deleted` false
     */
    async keep(webhook: StoredWebhook) {
      const file = secretFile(dataDir, webhook.id);
      try {
        const content = { ...webhook, secret: webhook.secret.reveal() };
        await handle.writeFile(`${JSON.stringify(content, null, 2)}\n`);
        await handle.sync();
        await close();
        await rename(temporary, file);
        syncFolder(folder);
        return file;
      } catch (error) {
        const reason = errnoOf(error);
        if (reason === undefined) throw error;
        const { id } = webhook;
        throw webhookError('webhook-secret-lost', { id, file, reason, deleted: false }, error);
      }
    },
    /** Removes the reservation. Does nothing after `keep`. */
    async drop() {
      await close();
      await rm(temporary, { force: true });
    },
  };
}

/** Returns false if the secret did not exist. */
export async function forgetSecret(dataDir: string, id: string): Promise<boolean> {
  try {
    await rm(secretFile(dataDir, id));
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/**
 * Returns every stored webhook, ordered by ID. A receiver reads them at startup, and again if a delivery presents an
 * unknown secret.
 * @throws webhook-secret-unreadable
 */
export async function storedWebhooks(dataDir: string): Promise<StoredWebhook[]> {
  const folder = webhookSecretsFolder(dataDir);
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
  const files = names.filter((name) => name.endsWith(SUFFIX)).sort();
  return files.map((name) => readStored(path.join(folder, name)));
}

export async function storedSecretFile(dataDir: string, id: string): Promise<string | null> {
  const webhooks = await storedWebhooks(dataDir);
  return webhooks.some((webhook) => webhook.id === id) ? secretFile(dataDir, id) : null;
}

function readStored(file: string): StoredWebhook {
  const fail = (reason: string) => webhookError('webhook-secret-unreadable', { file, reason });
  let value: unknown;
  try {
    value = JSON.parse(readRegularFile(file).toString('utf8'));
  } catch (error) {
    // The parser's message quotes the text, which contains the secret.
    if (error instanceof SyntaxError) throw fail('it is not valid JSON');
    throw fail(errnoOf(error) ?? 'it cannot be read');
  }
  const text = (name: string): string => {
    const field: unknown =
      typeof value === 'object' && value !== null
        ? Object.getOwnPropertyDescriptor(value, name)?.value
        : undefined;
    if (typeof field !== 'string' || field === '') throw fail(`it has no ${name}`);
    return field;
  };
  return {
    id: text('id'),
    mailboxId: text('mailboxId'),
    mailbox: text('mailbox'),
    account: text('account'),
    host: text('host'),
    url: text('url'),
    secret: new Secret(text('secret')),
    createdAt: text('createdAt'),
  };
}

/** Hashes an ID that is unsuitable as a file name, because the service chooses IDs. */
function secretFile(dataDir: string, id: string): string {
  const name = /^[\w-]{1,100}$/.test(id) ? id : createHash('sha256').update(id).digest('hex');
  return path.join(webhookSecretsFolder(dataDir), `${name}${SUFFIX}`);
}
