import { statSync } from 'node:fs';
import path from 'node:path';
import type { RequestReport } from '../../api/exchange.ts';
import { MailboxClient } from '../../api/mailbox-client.ts';
import { PlatformClient } from '../../api/platform-client.ts';
import type { AccountSettings, Settings, TokenSource } from '../../config/settings.ts';
import { readToken } from '../../config/token.ts';
import type { Clock } from '../../limiter/clock.ts';
import type { Wait } from '../../limiter/gate.ts';
import type { Lane } from '../../limiter/lanes.ts';
import { Limiter, type LimiterStore } from '../../limiter/limiter.ts';
import { apiOrigin } from '../../sync/apply/api-origin.ts';
import type { Origin, OriginMailbox } from '../../sync/apply/ports.ts';

/** How long a listing of an account's mailboxes is good for. */
const LISTING_MS = 3_600_000;

/** An account of the configuration with the connection to its service. */
export interface AccountOrigin {
  readonly settings: AccountSettings;
  readonly client: MailboxClient;
  /** Null where the configuration has no token for the platform surface. */
  readonly platform: PlatformClient | null;
  readonly host: string;
  /** The last listing of its mailboxes, and when it was asked for. */
  listing: { readonly at: number; readonly mailboxes: readonly OriginMailbox[] } | undefined;
  /** Resource id of the mail order; null until the configuration or the service has named it. */
  order: string | null;
}

/** The mail order of an account, by which the platform surface knows its mailboxes. */
export async function orderOf(account: AccountOrigin, signal: AbortSignal): Promise<string> {
  // An answer without one is not kept: the next may have it.
  account.order ??= (await account.client.getCurrentAccount({ signal })).orderResourceId || null;
  return account.order ?? '';
}

/** All accounts of a configuration, behind one limiter. */
export class AccountOrigins {
  readonly #accounts = new Map<string, AccountOrigin>();
  readonly #limiter: Limiter;
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #spoolDir: string;

  constructor(options: {
    readonly settings: Settings;
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly spoolDir: string;
    readonly clock: Clock;
    readonly store: LimiterStore;
    readonly onRequest: (account: string, report: RequestReport) => void;
    readonly onWait: (wait: Wait) => void;
  }) {
    const { settings, env, clock, store, onRequest, onWait } = options;
    this.#env = env;
    this.#spoolDir = options.spoolDir;
    this.#limiter = new Limiter({ policy: settings.rateLimit, clock, store, onWait });
    for (const account of settings.accounts) {
      const { name, insecure } = account;
      const shared = {
        insecure,
        limiter: this.#limiter,
        onRequest: (report: RequestReport) => onRequest(name, report),
      };
      const token = (source: TokenSource) => async () => (await readToken(source, env)).reveal();
      const client = new MailboxClient({
        ...shared,
        baseUrl: account.baseUrl,
        token: token(account.token),
        label: name,
      });
      const platform =
        account.platform === null
          ? null
          : new PlatformClient({
              ...shared,
              baseUrl: account.platform.url,
              token: token(account.platform.token),
              label: `${name} platform`,
            });
      const host = apiOrigin(client, this.#spoolDir).host;
      const order = account.platform?.orderId ?? null;
      const unknown = { listing: undefined, order };
      this.#accounts.set(name, { settings: account, client, platform, host, ...unknown });
    }
  }

  all(): AccountOrigin[] {
    return [...this.#accounts.values()];
  }

  get(name: string): AccountOrigin | undefined {
    return this.#accounts.get(name);
  }

  /** The origin of one pass. Its mailboxes are those of the last listing, while that is recent enough. */
  origin(account: AccountOrigin, lane: () => Lane | undefined, now: () => number): Origin {
    const origin = apiOrigin(account.client, this.#spoolDir, lane, (id) => {
      account.order ??= id || null;
    });
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

  /** What a token's file looks like; null for a token that can only change with the configuration. */
  tokenMark(name: string): string | null {
    const source = this.#accounts.get(name)?.settings.token;
    if (source?.kind !== 'file' && source?.kind !== 'credential') return null;
    const folder = this.#env.CREDENTIALS_DIRECTORY ?? '';
    const file = source.kind === 'file' ? source.name : path.join(folder, source.name);
    const stat = statSync(file, { throwIfNoEntry: false });
    return stat === undefined ? 'absent' : `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
  }

  /** Remembers what the limiter learned. */
  save(): void {
    this.#limiter.save();
  }

  /** Breaks what is in flight. */
  async close(): Promise<void> {
    await Promise.all(
      this.all().flatMap(({ client, platform }) => [client.close(), platform?.close()]),
    );
  }
}
