import path from 'node:path';
import { readSize } from '../search/sizes.ts';
import { type ListenAddress, parseListen } from './address.ts';
import { type CopySettings, copySettings } from './copies.ts';
import { parseDuration } from './duration.ts';
import { configFolder } from './file.ts';
import type { ConfigFile } from './schema.ts';
import { Secret } from './secret.ts';

/** Where a token is read from, when a request needs it. */
export type TokenSource =
  | { readonly kind: 'literal'; readonly secret: Secret; readonly name: string }
  | { readonly kind: 'env'; readonly name: string }
  | { readonly kind: 'file'; readonly name: string }
  | { readonly kind: 'credential'; readonly name: string };

/** Names or patterns; a place is chosen when an include matches and no exclude does. */
export interface Selection {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

export interface AccountSettings {
  readonly name: string;
  readonly baseUrl: string;
  readonly token: TokenSource;
  /** Plain http is allowed beyond this machine. */
  readonly insecure: boolean;
  readonly platform: {
    readonly url: string;
    readonly token: TokenSource;
    readonly orderId: string | null;
  } | null;
  readonly mailboxes: Selection;
  readonly folders: Selection;
}

/** The configuration as the program uses it: absolute paths, milliseconds, secrets wrapped, all frozen. */
export interface Settings {
  /** Absolute path of the file this came from. */
  readonly file: string;
  readonly dataDir: string;
  readonly archive: Readonly<ConfigFile['archive']>;
  readonly accounts: readonly AccountSettings[];
  readonly rateLimit: Readonly<ConfigFile['rateLimit']>;
  readonly sync: Readonly<ConfigFile['sync']>;
  /** Cron expressions; `timezone` is an IANA name, or `local`. */
  readonly schedule: Readonly<ConfigFile['schedule']>;
  readonly brake: {
    readonly maxEndedShare: number;
    readonly minMessages: number;
    readonly confirmAfterMs: number;
  };
  readonly retention: RetentionSettings;
  readonly copies: readonly CopySettings[];
  readonly webhook: { readonly listen: ListenAddress; readonly publicUrl: string | null } | null;
  readonly health: { readonly listen: ListenAddress; readonly hosts: readonly string[] } | null;
  readonly web: { readonly listen: ListenAddress; readonly publicUrl: string | null } | null;
  readonly notify: { readonly command: string | null; readonly url: Secret | null };
  readonly quota: Readonly<ConfigFile['quota']>;
  readonly minFreeBytes: number;
  readonly log: Readonly<ConfigFile['log']>;
}

export type RetentionSettings = Readonly<ConfigFile['retention']>;

/** Turns a validated file into settings; `file` is its absolute path, whose folder is the base of relative ones. */
export function settle(content: ConfigFile, file: string): Settings {
  const folder = configFolder(file);
  const { accounts, dataDir, brake, webhook, health, web, notify, retention, minFreeBytes, log } =
    content;
  const addressOf = (text: string) => validated('listen address', parseListen(text));
  return deepFreeze({
    file,
    dataDir: path.resolve(folder, dataDir),
    archive: content.archive,
    accounts: accounts.map((account) => accountSettings(account, folder, content.insecure)),
    rateLimit: content.rateLimit,
    sync: content.sync,
    schedule: content.schedule,
    brake: {
      maxEndedShare: brake.maxEndedShare,
      minMessages: brake.minMessages,
      confirmAfterMs: validated('duration', parseDuration(brake.confirmAfter)),
    },
    retention,
    copies: copySettings(content.copies, folder),
    webhook:
      webhook === undefined || webhook === null
        ? null
        : { listen: addressOf(webhook.listen), publicUrl: webhook.publicUrl },
    health:
      health === undefined || health === null
        ? null
        : { listen: addressOf(health.listen), hosts: health.hosts },
    web:
      web === undefined || web === null
        ? null
        : { listen: addressOf(web.listen), publicUrl: web.publicUrl },
    notify: {
      command: notify.command,
      url: notify.url === null ? null : new Secret(notify.url),
    },
    quota: content.quota,
    minFreeBytes:
      typeof minFreeBytes === 'number' ? minFreeBytes : validated('size', readSize(minFreeBytes)),
    log,
  });
}

/**
 * Returns the settings of one validated account.
 *
 * @param folder that relative paths are relative to
 * @param insecure plain http is allowed for every account
 */
export function accountSettings(
  account: ConfigFile['accounts'][number],
  folder: string,
  insecure: boolean,
): AccountSettings {
  const { name, baseUrl, token, platform, mailboxes, folders } = account;
  return {
    name,
    baseUrl: baseUrl.replace(/\/+$/, ''),
    token: tokenSource(token, folder, `accounts.${name}.token`),
    insecure: account.insecure || insecure,
    platform:
      platform === undefined
        ? null
        : {
            url: platform.url.replace(/\/+$/, ''),
            token: tokenSource(platform.token, folder, `accounts.${name}.platform.token`),
            orderId: platform.orderId ?? null,
          },
    mailboxes,
    folders,
  };
}

/**
 * Returns where a secret is read from, as the file says it.
 *
 * @param place what a secret in the file itself is called in errors
 */
export function tokenSource(
  token: ConfigFile['accounts'][number]['token'],
  folder: string,
  place: string,
): TokenSource {
  if (typeof token === 'string') return { kind: 'literal', secret: new Secret(token), name: place };
  if ('env' in token) return { kind: 'env', name: token.env };
  if ('file' in token) return { kind: 'file', name: path.resolve(folder, token.file) };
  return { kind: 'credential', name: token.credential };
}

function validated<T>(what: string, parsed: T | undefined): T {
  if (parsed === undefined) throw new TypeError(`a validated ${what} does not parse`);
  return parsed;
}

function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null && !Object.isFrozen(part)) deepFreeze(part);
  }
  return Object.freeze(value);
}
