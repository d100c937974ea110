import { onTestFinished } from 'vitest';
import { MailkeepError } from '../../src/core/errors.ts';
import { MailboxClient, PlatformClient } from '../../src/service/client.ts';
import type { ClientOptions } from '../../src/service/surface-client.ts';
import { InstantClock } from './instant-clock.ts';
import { startOrigin } from './local-origin.ts';

const EAGER = { requestsPerMinute: 10_000_000, concurrency: 8 };

/** A client for which every wait is over at once, and chance always waits the longest. */
function eager<C extends { close(): Promise<void> }>(
  Client: new (options: ClientOptions) => C,
  options: Pick<ClientOptions, 'baseUrl' | 'token'> & Partial<ClientOptions>,
) {
  const clock = new InstantClock();
  const client = new Client({ clock, random: () => 1, ...EAGER, ...options });
  onTestFinished(() => client.close());
  return { client, clock };
}

export const mailboxClient = (baseUrl: string, options: Partial<ClientOptions> = {}) =>
  eager(MailboxClient, { baseUrl, token: 'secret-token', ...options });

export const platformClient = (baseUrl: string, options: Partial<ClientOptions> = {}) =>
  eager(PlatformClient, { baseUrl, token: 'platform-token', ...options });

type Answers = Parameters<typeof startOrigin>[0];

/** A server that gives these answers, and a client of it. */
export async function serving(answers: Answers, options: Partial<ClientOptions> = {}) {
  const origin = await startOrigin(answers);
  return { origin, ...mailboxClient(origin.url, options) };
}

export async function servingPlatform(answers: Answers, options: Partial<ClientOptions> = {}) {
  const origin = await startOrigin(answers);
  return { origin, ...platformClient(origin.url, options) };
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
