import { onTestFinished } from 'vitest';
import { MailkeepError } from '../../src/core/errors.ts';
import { MailboxClient, PlatformClient } from '../../src/service/client.ts';
import type { ClientOptions } from '../../src/service/surface-client.ts';
import { InstantClock } from './instant-clock.ts';

const EAGER = { requestsPerMinute: 10_000_000, concurrency: 8 };

/** A client for which every wait is over at once, and chance always waits the longest. */
export function mailboxClient(url: string, options: Partial<ClientOptions> = {}) {
  const clock = new InstantClock();
  const client = new MailboxClient({
    baseUrl: url,
    token: 'secret-token',
    clock,
    random: () => 1,
    ...EAGER,
    ...options,
  });
  onTestFinished(() => client.close());
  return { client, clock };
}

export function platformClient(url: string, options: Partial<ClientOptions> = {}) {
  const clock = new InstantClock();
  const client = new PlatformClient({
    baseUrl: url,
    token: 'platform-token',
    clock,
    random: () => 1,
    ...EAGER,
    ...options,
  });
  onTestFinished(() => client.close());
  return { client, clock };
}

/** The error a promise ends with. The token stands nowhere in it. */
export async function failureOf(promise: Promise<unknown>): Promise<MailkeepError> {
  try {
    await promise;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    for (const secret of ['secret-token', 'platform-token']) {
      if (`${error.stack} ${JSON.stringify(error)}`.includes(secret)) throw new Error('token told');
    }
    return error;
  }
  throw new Error('did not fail');
}
