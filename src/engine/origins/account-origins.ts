import { statSync } from 'node:fs';
import path from 'node:path';
import type { RequestReport } from '../../api/exchange.ts';
import type { RetryPolicy } from '../../api/retries.ts';
import type { AccountSettings, Settings } from '../../config/settings.ts';
import { readToken } from '../../config/token.ts';
import type { Clock } from '../../limiter/clock.ts';
import type { Wait } from '../../limiter/gate.ts';
import type { Lane } from '../../limiter/lanes.ts';
import { Limiter, type LimiterStore } from '../../limiter/limiter.ts';
import type { StateFile } from '../../state/state-file.ts';
import { apiOrigin, orderUsages } from '../../sync/apply/api-origin.ts';
import type { Origin, OriginMailbox } from '../../sync/apply/ports.ts';
import { type AccountClients, openClients, type ReachableAccount } from './clients.ts';
import type { RequestLog } from './request-log.ts';

/** How long a listing of an account's mailboxes stays valid. */
const LISTING_MS = 3_600_000;

/** For those who wait: what the platform surface reports is welcome, and not worth a long wait. */
export const PLATFORM_PATIENCE: Partial<RetryPolicy> = { budgetMs: 10_000 };

/** An account of the configuration with the connection to its service. */
export interface AccountOrigin<A extends ReachableAccount = AccountSettings>
  extends AccountClients {
  readonly settings: A;
  readonly host: string;
  /** Returns the requests per minute in force, as `Origin` has it. */
  readonly requestsPerMinute: () => number;
  /** The last listing of its mailboxes, and when it was asked for. */
  listing: { readonly at: number; readonly mailboxes: readonly OriginMailbox[] } | undefined;
  /** Resource id of the mail order; null until the configuration or the service has named it. */
  order: string | null;
}

/** Returns the mail order of an account, by which the platform surface knows its mailboxes; asks for it if needed. */
export async function orderOf(
  account: Pick<AccountOrigin, 'mailbox' | 'order'>,
  signal: AbortSignal,
): Promise<string> {
  // An answer without one is not kept: the next may have it.
  account.order ??= (await account.mailbox.getCurrentAccount({ signal })).orderResourceId || null;
  return account.order ?? '';
}

export interface AccountOriginsOptions<A extends ReachableAccount> {
  readonly accounts: readonly A[];
  readonly rateLimit: Settings['rateLimit'];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where large sources wait. */
  readonly spoolDir: string;
  readonly clock?: Clock;
  /** Where the limiter keeps what it learned; without one it learns again. */
  readonly store?: LimiterStore;
  /** Where requests are counted; without one they are not. */
  readonly requests?: RequestLog;
  readonly retries?: Partial<RetryPolicy>;
  readonly platformRetries?: Partial<RetryPolicy>;
  readonly onRequest?: (account: string, report: RequestReport) => void;
  readonly onWait?: (wait: Wait) => void;
}

/** Accounts behind one limiter. Close it. */
export class AccountOrigins<A extends ReachableAccount = AccountSettings> {
  readonly #options: AccountOriginsOptions<A>;
  readonly #accounts = new Map<string, AccountOrigin<A>>();
  readonly #limiter: Limiter;

  constructor(options: AccountOriginsOptions<A>) {
    this.#options = options;
    const { accounts, rateLimit, env, spoolDir, clock, store } = options;
    const { requests, onRequest, onWait } = options;
    this.#limiter = new Limiter({
      policy: rateLimit,
      ...(clock === undefined ? {} : { clock }),
      ...(store === undefined ? {} : { store }),
      ...(onWait === undefined ? {} : { onWait }),
    });
    const { retries = {}, platformRetries = {} } = options;
    for (const settings of accounts) {
      const clients = openClients(settings, {
        limiter: this.#limiter,
        token: async (source) => (await readToken(source, env)).reveal(),
        retries,
        platformRetries,
        onRequest: (report) => {
          requests?.note(settings.name, report);
          onRequest?.(settings.name, report);
        },
      });
      const { host } = apiOrigin(clients.mailbox, spoolDir);
      const order = settings.platform?.orderId ?? null;
      const { name } = settings;
      const gate = this.#limiter.gate(clients.mailbox.host, name);
      const requestsPerMinute = () => gate.rate;
      const own = { settings, ...clients, host, requestsPerMinute, listing: undefined, order };
      this.#accounts.set(name, own);
    }
  }

  all(): AccountOrigin<A>[] {
    return [...this.#accounts.values()];
  }

  get(name: string): AccountOrigin<A> | undefined {
    return this.#accounts.get(name);
  }

  /** Returns an origin that asks the service for everything, the platform surface for usages where there is one. */
  fresh(account: AccountOrigin<A>): Origin {
    const origin = this.#surface(account);
    const { platform } = account;
    if (platform === null) return origin;
    let listed = false;
    const mailboxes: Origin['mailboxes'] = async (signal) => {
      const found = await origin.mailboxes(signal);
      listed = true;
      return found;
    };
    return {
      ...origin,
      mailboxes,
      async usages(mostPages, signal) {
        // The mailboxes were listed before anybody asks for their usage; a service may name no order.
        if (account.order === null && !listed) await mailboxes(signal);
        return orderUsages(platform, account.order ?? '', mostPages, signal);
      },
    };
  }

  /** Returns the origin of one pass of many. Its mailboxes are those of the last listing, while that is recent. */
  recent(account: AccountOrigin<A>, lane: () => Lane | undefined, now: () => number): Origin {
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

  #surface(account: AccountOrigin<A>, lane?: () => Lane | undefined): Origin {
    const origin = apiOrigin(account.mailbox, this.#options.spoolDir, lane, (id) => {
      account.order ??= id || null;
    });
    return { ...origin, requestsPerMinute: account.requestsPerMinute };
  }

  /** Returns a mark of a token's file that changes with it; null for a token that changes with the configuration only. */
  tokenMark(name: string): string | null {
    const source = this.#accounts.get(name)?.settings.token;
    if (source?.kind !== 'file' && source?.kind !== 'credential') return null;
    const folder = this.#options.env.CREDENTIALS_DIRECTORY ?? '';
    const file = source.kind === 'file' ? source.name : path.join(folder, source.name);
    const stat = statSync(file, { throwIfNoEntry: false });
    return stat === undefined ? 'absent' : `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
  }

  /** Keeps what the limiter learned, and how many requests there were. */
  save(): void {
    this.#limiter.save();
    this.#options.requests?.save();
  }

  /** Aborts what is in flight. */
  async close(): Promise<void> {
    await Promise.all(
      this.all().flatMap(({ mailbox, platform }) => [mailbox.close(), platform?.close()]),
    );
  }
}

/** Returns the store of the limiter in an archive's state. */
export function limiterStore(state: Pick<StateFile, 'get' | 'set'>): LimiterStore {
  return {
    load: (key) => state.get('limiter', key),
    save: (key, learned) => state.set('limiter', key, learned),
  };
}
