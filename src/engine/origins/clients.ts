import type { RequestReport } from '../../api/exchange.ts';
import { MailboxClient } from '../../api/mailbox-client.ts';
import { PlatformClient } from '../../api/platform-client.ts';
import type { RetryPolicy } from '../../api/retries.ts';
import type { AccountSettings, TokenSource } from '../../config/settings.ts';
import type { Limiter } from '../../limiter/limiter.ts';

/** What of an account's configuration it takes to reach its service. */
export type ReachableAccount = Pick<AccountSettings, 'name' | 'baseUrl' | 'token' | 'insecure'> &
  Partial<Pick<AccountSettings, 'platform'>>;

/** Both surfaces of an account. Close them: connections are kept open. */
export interface AccountClients {
  readonly mailbox: MailboxClient;
  /** Null where the configuration has no token for the platform surface. */
  readonly platform: PlatformClient | null;
}

/**
 * Opens the clients of an account. This is the one place where transport, limiter and retries are stacked: a client
 * sends each request through the limiter's gate, and retries it where that is safe.
 *
 * @param options.token reads a token each time one is needed
 */
export function openClients(
  account: ReachableAccount,
  options: {
    readonly limiter: Limiter;
    readonly token: (source: TokenSource) => Promise<string>;
    readonly retries?: Partial<RetryPolicy>;
    readonly platformRetries?: Partial<RetryPolicy>;
    readonly onRequest?: (report: RequestReport) => void;
  },
): AccountClients {
  const { limiter, token, retries = {}, platformRetries = retries, onRequest } = options;
  const { name, insecure, platform = null } = account;
  const shared = { insecure, limiter, ...(onRequest === undefined ? {} : { onRequest }) };
  const mailbox = new MailboxClient({
    ...shared,
    baseUrl: account.baseUrl,
    token: () => token(account.token),
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
