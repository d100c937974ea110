import type { RequestReport } from '../../api/exchange.ts';
import { MailboxClient } from '../../api/mailbox-client.ts';
import type { RetryPolicy } from '../../api/retries.ts';
import type { AccountSettings } from '../../config/settings.ts';
import { readToken } from '../../config/token.ts';
import type { Limiter } from '../../limiter/limiter.ts';
import { apiOrigin } from '../../sync/apply/api-origin.ts';
import type { Origin } from '../../sync/apply/ports.ts';

export interface OpenOrigin {
  readonly origin: Origin;
  close(): Promise<void>;
}

/**
 * The one place where transport, limiter and retries of an account are stacked: the client sends one request
 * at a time through the limiter's gate, and tries again where that is safe.
 */
export function openOrigin(options: {
  readonly account: Pick<AccountSettings, 'name' | 'baseUrl' | 'token' | 'insecure'>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly limiter: Limiter;
  readonly spoolDir: string;
  readonly retries?: Partial<RetryPolicy>;
  readonly onRequest?: (report: RequestReport) => void;
}): OpenOrigin {
  const { account, env, limiter, spoolDir, retries = {}, onRequest } = options;
  const client = new MailboxClient({
    baseUrl: account.baseUrl,
    insecure: account.insecure,
    token: async () => (await readToken(account.token, env)).reveal(),
    limiter,
    label: account.name,
    retries,
    ...(onRequest === undefined ? {} : { onRequest }),
  });
  return { origin: apiOrigin(client, spoolDir), close: () => client.close() };
}
