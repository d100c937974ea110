import type { RequestReport } from '../../api/exchange.ts';
import { MailboxClient } from '../../api/mailbox-client.ts';
import { PlatformClient } from '../../api/platform-client.ts';
import type { RetryPolicy } from '../../api/retries.ts';
import type { AccountSettings } from '../../config/settings.ts';
import { readToken } from '../../config/token.ts';
import type { Limiter } from '../../limiter/limiter.ts';
import { apiOrigin } from '../../sync/apply/api-origin.ts';
import { orderUsages } from '../../sync/apply/walk/order-usages.ts';
import type { Origin } from '../../sync/apply/ports.ts';

export interface OpenOrigin {
  readonly origin: Origin;
  close(): Promise<void>;
}

/** What the platform surface has to say is welcome, and not worth a long wait. */
const PLATFORM_PATIENCE = { budgetMs: 10_000 };

/**
 * The one place where transport, limiter and retries of an account are stacked: the client sends one request
 * at a time through the limiter's gate, and tries again where that is safe.
 */
export function openOrigin(options: {
  readonly account: Pick<AccountSettings, 'name' | 'baseUrl' | 'token' | 'insecure'> &
    Partial<Pick<AccountSettings, 'platform'>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly limiter: Limiter;
  readonly spoolDir: string;
  readonly retries?: Partial<RetryPolicy>;
  readonly onRequest?: (report: RequestReport) => void;
}): OpenOrigin {
  const { account, env, limiter, spoolDir, retries = {}, onRequest } = options;
  const shared = {
    insecure: account.insecure,
    limiter,
    ...(onRequest === undefined ? {} : { onRequest }),
  };
  const client = new MailboxClient({
    ...shared,
    baseUrl: account.baseUrl,
    token: async () => (await readToken(account.token, env)).reveal(),
    label: account.name,
    retries,
  });
  const { platform: settings } = account;
  let order = settings?.orderId ?? null;
  const origin = apiOrigin(client, spoolDir, undefined, (id) => {
    order ??= id;
  });
  if (settings === undefined || settings === null) return { origin, close: () => client.close() };
  const platform = new PlatformClient({
    ...shared,
    baseUrl: settings.url,
    token: async () => (await readToken(settings.token, env)).reveal(),
    label: `${account.name} platform`,
    retries: PLATFORM_PATIENCE,
  });
  return {
    origin: {
      ...origin,
      async usages(mostPages, signal) {
        // The mailboxes were listed before anybody asks for their usage.
        if (order === null) await origin.mailboxes(signal);
        return orderUsages(platform, order ?? '', mostPages, signal);
      },
    },
    close: async () => {
      await Promise.all([client.close(), platform.close()]);
    },
  };
}
