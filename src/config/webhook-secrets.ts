import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, open, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { makeFolders } from '../disk/make-folders.ts';
import { readRegularFile } from '../disk/regular-file.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { webhookError } from '../errors/small-families.ts';
import { Secret } from './secret.ts';

/** A webhook that was created from here, with what its deliveries prove themselves by. */
export interface StoredWebhook {
  readonly id: string;
  /** Resource id and address of the mailbox. */
  readonly mailboxId: string;
  readonly mailbox: string;
  /** Name of the account in the configuration, and host and port of its service. */
  readonly account: string;
  readonly host: string;
  readonly url: string;
  /** What a delivery carries as `Authorization: Bearer`. */
  readonly secret: Secret;
  /** ISO 8601. */
  readonly createdAt: string;
}

/** A place for a secret, made before the secret is: the service shows it only once. */
export interface SecretSlot {
  /**
   * Stores the secret and makes it durable.
   *
   * @returns the file, of mode 0600
   * @throws webhook-secret-lost, which says that the webhook was not deleted
   */
  keep(webhook: StoredWebhook): Promise<string>;
  /** Leaves nothing behind; does nothing after `keep`. */
  drop(): Promise<void>;
}

const SUFFIX = '.json';

/** The folder of secrets in a data directory: one JSON file for each webhook. */
export function webhookSecretsFolder(dataDir: string): string {
  return path.join(dataDir, 'webhooks');
}

/** @throws webhook-secrets-unwritable */
export async function reserveSecret(dataDir: string): Promise<SecretSlot> {
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
    async keep(webhook) {
      const file = secretFile(dataDir, webhook.id);
      try {
        await handle.writeFile(`${JSON.stringify(written(webhook), null, 2)}\n`);
        await handle.sync();
        await close();
        await rename(temporary, file);
        await syncFolder(folder);
        return file;
      } catch (error) {
        const reason = errnoOf(error);
        if (reason === undefined) throw error;
        const { id } = webhook;
        throw webhookError('webhook-secret-lost', { id, file, reason, deleted: false }, error);
      }
    },
    async drop() {
      await close();
      await rm(temporary, { force: true });
    },
  };
}

/** Forgets the secret of a webhook that was deleted; true when there was one. */
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
 * Every stored webhook, in the order of their ids. A receiver reads them when it starts, and again when a
 * delivery proves itself by a secret it does not know.
 *
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

/** Returns the file with the secret of a webhook; null where there is none. */
export async function storedSecretFile(dataDir: string, id: string): Promise<string | null> {
  const stored = await storedWebhooks(dataDir);
  return stored.some((webhook) => webhook.id === id) ? secretFile(dataDir, id) : null;
}

function readStored(file: string): StoredWebhook {
  const fail = (reason: string) => webhookError('webhook-secret-unreadable', { file, reason });
  let value: unknown;
  try {
    value = JSON.parse(readRegularFile(file).toString('utf8'));
  } catch (error) {
    // The parser's own words quote the text, and with it the secret.
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

function written({ secret, ...webhook }: StoredWebhook): object {
  return { ...webhook, secret: secret.reveal() };
}

/** Ids come from the service: one that would not do as a file name is hashed. */
function secretFile(dataDir: string, id: string): string {
  const name = /^[\w-]{1,100}$/.test(id) ? id : createHash('sha256').update(id).digest('hex');
  return path.join(webhookSecretsFolder(dataDir), `${name}${SUFFIX}`);
}

async function syncFolder(folder: string): Promise<void> {
  // Windows cannot open folders, and needs no such thing.
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
