import { statSync } from 'node:fs';
import path from 'node:path';
import type { AccountMailbox } from '../catalog/folders.ts';
import { type Clock, type Lane, systemClock } from '../core/concurrency.ts';
import type {
  AccountSettings,
  ApiAccount,
  ImapAccount,
  Settings,
  TokenSource,
} from '../core/config-schema.ts';
import { MailkeepError } from '../core/errors.ts';
import { selectsByName } from '../core/names.ts';
import { Limiter, type LimiterStore, type Wait } from '../core/pace.ts';
import { readToken } from '../core/secrets.ts';
import type { StateFile } from '../core/state.ts';
import {
  parseRequestKey,
  REQUEST_DAYS,
  type RequestCount,
  requestKey,
  utcDay,
  utcDayBefore,
} from '../core/state-runs.ts';
import { accountKey } from '../core/types.ts';
import type { CommandReport } from '../imap/connection.ts';
import { imapCredential } from '../imap/credential.ts';
import { imapError } from '../imap/errors.ts';
import { lazyImapOrigin } from '../imap/lazy-origin.ts';
import { tokensFile } from '../imap/oauth-tokens.ts';
import { Traffic } from '../imap/traffic.ts';
import { MailboxClient, PlatformClient } from '../service/client.ts';
import type { RetryPolicy } from '../service/surface-client.ts';
import type { RequestReport } from '../service/transport.ts';
import { apiOrigin, orderUsages } from './api-origin.ts';
import type { Origin, OriginMailbox } from './ports.ts';

/** An account's two API clients. The caller closes them. */
export interface AccountClients {
  readonly mailbox: MailboxClient;
  /** Null if the configuration has no token for the Platform API. */
  readonly platform: PlatformClient | null;
}

/**
 * Opens an account's clients. Each request goes through the limiter's gate and is retried if that is safe.
 *
 * @param options.token reads the token again for each call
 */
export function openClients(
  { name, baseUrl, token: source, insecure, platform }: ApiAccount,
  options: {
    readonly limiter: Limiter;
    readonly token: (source: TokenSource) => Promise<string>;
    readonly retries?: Partial<RetryPolicy>;
    readonly platformRetries?: Partial<RetryPolicy>;
    readonly onRequest?: (report: RequestReport) => void;
  },
): AccountClients {
  const { limiter, token, retries = {}, platformRetries = retries, onRequest } = options;
  const shared = { insecure, limiter, ...(onRequest === undefined ? {} : { onRequest }) };
  const mailbox = new MailboxClient({
    ...shared,
    baseUrl,
    token: () => token(source),
    label: name,
    retries,
  });
  if (platform === null) return { mailbox, platform };
  return {
    mailbox,
    platform: new PlatformClient({
      ...shared,
      baseUrl: platform.url,
      token: () => token(platform.token),
      label: `${name} platform`,
      retries: platformRetries,
    }),
  };
}

const LISTING_MS = 3_600_000;

/** Retry budget while a user waits. Platform API reports are optional and not worth a long wait. */
export const PLATFORM_RETRIES: Partial<RetryPolicy> = { budgetMs: 10_000 };

interface ConnectedAccount {
  /** The host under which the archive keeps the account's mailboxes. */
  readonly host: string;
  /** Null if the source does not limit requests. */
  readonly requestsPerMinute: () => number | null;
  listing: { readonly at: number; readonly mailboxes: readonly OriginMailbox[] } | undefined;
}

/** A configured account of the hosted service, with its clients. */
export interface ApiAccountOrigin extends ConnectedAccount, AccountClients {
  readonly settings: ApiAccount;
  /** Resource id of the mail order; null until it is configured or reported by the service. */
  order: string | null;
}

interface ImapAccountOrigin extends ConnectedAccount {
  readonly settings: ImapAccount;
  readonly origin: ReturnType<typeof lazyImapOrigin>;
}

/** A configured account, connected to its source. */
export type AccountOrigin = ApiAccountOrigin | ImapAccountOrigin;

/** Reports whether the account has clients of the API. */
export function hasApi(account: AccountOrigin): account is ApiAccountOrigin {
  return account.settings.kind === 'api';
}

/** Returns the id of the account's mail order, which the Platform API requires. Requests it if it is unknown. */
export async function orderOf(
  account: Pick<ApiAccountOrigin, 'mailbox' | 'order'>,
  signal: AbortSignal,
): Promise<string> {
  // A missing id is not cached, because the next response may contain it.
  account.order ??= (await account.mailbox.getCurrentAccount({ signal })).orderResourceId || null;
  return account.order ?? '';
}

interface AccountOriginsOptions {
  readonly accounts: readonly AccountSettings[];
  /** All accounts of the configuration, if `accounts` are only some of them. */
  readonly configured?: readonly AccountSettings[];
  readonly rateLimit: Settings['rateLimit'];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly spoolDir: string;
  /** Directory of the archive, which has the tokens of accounts that sign in with OAuth. */
  readonly dataDir: string;
  /** Lists the archive's mailboxes that are accounts of their own; none by default. */
  readonly archived?: () => readonly AccountMailbox[];
  readonly clock?: Clock;
  /** Stores what the limiter has learned, and request counts. If omitted, both are lost when the process exits. */
  readonly state?: StateFile;
  readonly retries?: Partial<RetryPolicy>;
  readonly platformRetries?: Partial<RetryPolicy>;
  readonly onRequest?: (account: string, report: RequestReport) => void;
  readonly onWait?: (wait: Wait) => void;
}

/**
 * Returns the host under which the archive keeps an account's mailbox, which does not change when the server moves. An
 * account of which the archive has another mailbox is refused unless the configuration names the id: mail of two
 * mailboxes must not get mixed, and one mailbox must not be mirrored twice.
 */
export function mailboxKeyOf(
  { name: account, imap: { id, hasId, address, server } }: ImapAccount,
  configured: readonly AccountSettings[],
  archived: readonly AccountMailbox[],
) {
  const same = archived.find(({ mailbox }) => mailbox === id);
  if (same !== undefined || hasId) return { host: same?.host ?? server.host };
  const claimed = new Set(configured.map((one) => (one.kind === 'imap' ? one.imap.id : '')));
  const earlier = archived.find(
    (one) =>
      !claimed.has(one.mailbox) &&
      (one.account === account || one.address.toLowerCase() === address.toLowerCase()),
  );
  if (earlier === undefined) return { host: server.host };
  const facts = { account, address: earlier.address, kept: earlier.mailbox, found: id };
  return { error: imapError('imap.mailbox-changed', facts) };
}

/** Accounts that share a limiter. The caller closes them. */
export class AccountOrigins {
  readonly #options: AccountOriginsOptions;
  readonly #accounts = new Map<string, AccountOrigin>();
  readonly #limiter: Limiter;
  readonly #requests: RequestLog | undefined;

  constructor(options: AccountOriginsOptions) {
    this.#options = options;
    const { accounts, rateLimit, env, spoolDir, clock = systemClock, state } = options;
    const { onRequest, onWait } = options;
    const { requestsPerMinute: limit } = rateLimit;
    const store: LimiterStore | undefined = state && {
      load: (key) => state.get('limiter', key),
      save: (key, learned) => state.set('limiter', key, learned),
    };
    this.#limiter = new Limiter({ policy: rateLimit, clock, store, onWait });
    this.#requests = state && new RequestLog(state, limit, () => clock.now());
    const { retries = {}, platformRetries = {} } = options;
    for (const settings of accounts) {
      if (settings.kind === 'imap') {
        this.#accounts.set(settings.name, this.#imapAccount(settings));
        continue;
      }
      const clients = openClients(settings, {
        limiter: this.#limiter,
        token: async (source) => (await readToken(source, env)).reveal(),
        retries,
        platformRetries,
        onRequest: (report) => {
          this.#requests?.note(settings.name, report);
          onRequest?.(settings.name, report);
        },
      });
      const { host } = apiOrigin(clients.mailbox, spoolDir);
      const order = settings.platform?.orderId ?? null;
      const { name } = settings;
      const gate = this.#limiter.gate(clients.mailbox.host, name);
      const requestsPerMinute = () => gate.rate;
      const entry = { settings, ...clients, host, requestsPerMinute, listing: undefined, order };
      this.#accounts.set(name, entry);
    }
  }

  #imapAccount(settings: ImapAccount): ImapAccountOrigin {
    const {
      accounts,
      env,
      spoolDir,
      dataDir,
      clock = systemClock,
      state,
      onRequest,
      onWait,
    } = this.#options;
    const { configured = accounts, archived = () => [] } = this.#options;
    const { imap, name } = settings;
    const key = mailboxKeyOf(settings, configured, archived());
    const { host: server } = imap.server;
    const stateKey = accountKey(name, server);
    const traffic = new Traffic({
      ...{ host: server, account: name, limit: imap.maxBytesPerDay },
      ...{ memory: state, now: clock.now },
    });
    const origin = lazyImapOrigin(
      {
        server: imap.server,
        credential: imapCredential(settings, { env, dataDir, clock }),
        traffic,
        onCommand: (command) => {
          const report = requestReport(command, server, imap.id);
          this.#requests?.note(name, report);
          onRequest?.(name, report);
        },
        onWait: (until) => onWait?.({ host: server, until, reason: 'retry-after' }),
        clock,
        most: imap.connections,
      },
      {
        ...{ mailbox: imap, spoolDir, clock },
        namespaces: {
          areKnown: () => state?.get('imap-namespaces', stateKey) !== undefined,
          remember() {
            try {
              if (!this.areKnown()) state?.set('imap-namespaces', stateKey, true);
            } catch (error) {
              // Commands that only compare may have no writable state.
              if (!(error instanceof MailkeepError)) throw error;
            }
          },
        },
        isForeignWanted: (path) => selectsByName(settings.folders, path),
      },
      key,
    );
    const { host, requestsPerMinute } = origin;
    return { settings, origin, host, requestsPerMinute, listing: undefined };
  }

  all(): AccountOrigin[] {
    return [...this.#accounts.values()];
  }

  get(name: string): AccountOrigin | undefined {
    return this.#accounts.get(name);
  }

  /** Returns an origin without a cache. If the account has a Platform API token, it also lists mailbox usage. */
  fresh(account: AccountOrigin): Origin {
    const origin = this.#surface(account);
    if (!hasApi(account) || account.platform === null) return origin;
    const { platform } = account;
    let listed = false;
    const mailboxes: Origin['mailboxes'] = async (signal) => {
      const list = await origin.mailboxes(signal);
      listed = true;
      return list;
    };
    return {
      ...origin,
      mailboxes,
      async usages(mostPages, signal) {
        // Usually the mailboxes have already been listed. Services need not report an order.
        if (account.order === null && !listed) await mailboxes(signal);
        return orderUsages(platform, account.order ?? '', mostPages, signal);
      },
    };
  }

  /** Returns an origin that successive sync runs share. It reuses a recent mailbox listing. */
  recent(account: AccountOrigin, now: () => number, lane?: () => Lane | undefined): Origin {
    const origin = this.#surface(account, lane);
    return {
      ...origin,
      async mailboxes(signal) {
        const { listing } = account;
        const age = listing === undefined ? -1 : now() - listing.at;
        if (listing !== undefined && age >= 0 && age < LISTING_MS) return listing.mailboxes;
        const at = now();
        const mailboxes = await origin.mailboxes(signal);
        account.listing = { at, mailboxes };
        return mailboxes;
      },
    };
  }

  #surface(account: AccountOrigin, lane?: () => Lane | undefined): Origin {
    if (!hasApi(account)) return account.origin;
    const origin = apiOrigin(account.mailbox, this.#options.spoolDir, lane, (id) => {
      account.order ??= id || null;
    });
    return { ...origin, requestsPerMinute: account.requestsPerMinute };
  }

  /** Returns a value that changes with the token file, or null if the token is not in a file. */
  tokenMark(name: string): string | null {
    const settings = this.#accounts.get(name)?.settings;
    if (settings === undefined) return null;
    const source = secretSource(settings, this.#options.dataDir);
    if (source.kind !== 'file' && source.kind !== 'credential') return null;
    const folder = this.#options.env.CREDENTIALS_DIRECTORY ?? '';
    const file = source.kind === 'file' ? source.name : path.join(folder, source.name);
    const stat = statSync(file, { throwIfNoEntry: false });
    return stat === undefined ? 'absent' : `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
  }

  /** Stores what the limiter has learned, and the request counts. */
  save(): void {
    this.#limiter.save();
    this.#requests?.save();
  }

  async close(): Promise<void> {
    await Promise.all(
      this.all().flatMap((account) =>
        hasApi(account)
          ? [account.mailbox.close(), account.platform?.close()]
          : [account.origin.close()],
      ),
    );
  }
}

const STATUS_OF_RESULT = { ok: 200, refused: 400, throttled: 429, lost: 0 } as const;

/** Reports an IMAP command like a request, with the HTTP status that means the same. */
function requestReport(
  { command, result, ms, bytes }: CommandReport,
  host: string,
  key: string,
): RequestReport {
  const status = STATUS_OF_RESULT[result];
  return { operation: command, key, surface: 'imap', host, status, ms, bytes };
}

/** Returns where the secret of an account is that a person replaces when it is refused. */
function secretSource(account: AccountSettings, dataDir: string): TokenSource {
  if (account.kind === 'api') return account.token;
  const { signIn } = account.imap;
  if (signIn.kind !== 'oauth') return signIn.secret;
  return signIn.clientSecret !== null && signIn.appOnly
    ? signIn.clientSecret
    : { kind: 'file', name: tokensFile(dataDir, account.name) };
}

/** Counts requests by operation. Each retry counts as a request. */
export class RequestMeter {
  readonly #byOperation = new Map<string, number>();
  requests = 0;

  add({ operation }: RequestReport): void {
    this.requests += 1;
    this.#byOperation.set(operation, (this.#byOperation.get(operation) ?? 0) + 1);
  }

  byOperation(): Record<string, number> {
    return Object.fromEntries([...this.#byOperation].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** Milliseconds between writes of the counts. */
const SAVE_EVERY_MS = 60_000;

type Memory = Pick<StateFile, 'get' | 'set' | 'entries' | 'together'>;

/** Counts each gate's requests by hour and status in the state, or in memory while the state is read-only. */
export class RequestLog {
  readonly #counts = new Map<string, Map<string, RequestCount>>();
  /** Keys of servers that do not limit requests. */
  readonly #unlimited = new Set<string>();
  #savedAt: number;
  #prunedOn = '';

  /** @param perMinute the configured limit */
  constructor(
    private readonly state: Memory,
    private readonly perMinute: number,
    private readonly now: () => number,
  ) {
    this.#savedAt = now();
  }

  note(account: string, { host, surface, status }: RequestReport): void {
    const at = this.now();
    // The gate labels; see `openClients`.
    const gate = `${host} ${surface === 'platform' ? `${account} platform` : account}`;
    const key = requestKey(utcDay(at), gate);
    const counts = this.#counts.get(key) ?? new Map<string, RequestCount>();
    this.#counts.set(key, counts);
    if (surface === 'imap') this.#unlimited.add(key);
    add(counts, { hour: new Date(at).getUTCHours(), status, requests: 1 });
    if (at - this.#savedAt >= SAVE_EVERY_MS || at < this.#savedAt) this.save();
  }

  save(): void {
    const at = this.now();
    this.#savedAt = at;
    if (this.#counts.size === 0) return;
    try {
      this.state.together(() => this.#write(utcDay(at), utcDayBefore(at, REQUEST_DAYS)));
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      return;
    }
    this.#counts.clear();
    this.#unlimited.clear();
  }

  #write(today: string, oldest: string): void {
    for (const [key, counts] of this.#counts) {
      const all = new Map<string, RequestCount>();
      // Another process may have counted requests as well.
      for (const entry of this.state.get('requests', key)?.hours ?? []) add(all, entry);
      for (const entry of counts.values()) add(all, entry);
      const hours = [...all.values()].sort((a, b) => a.hour - b.hour || a.status - b.status);
      const perMinute = this.#unlimited.has(key) ? 0 : this.perMinute;
      this.state.set('requests', key, { perMinute, hours });
    }
    if (this.#prunedOn === today) return;
    for (const { key } of this.state.entries('requests'))
      if (parseRequestKey(key).day < oldest) this.state.set('requests', key, null);
    this.#prunedOn = today;
  }
}

function add(counts: Map<string, RequestCount>, { hour, status, requests }: RequestCount): void {
  const key = `${hour} ${status}`;
  const previous = counts.get(key)?.requests ?? 0;
  counts.set(key, { hour, status, requests: previous + requests });
}
