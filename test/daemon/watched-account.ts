import { tmpdir } from 'node:os';
import { pino } from 'pino';
import { systemClock } from '../../src/core/concurrency.ts';
import { configSchema, toSettings } from '../../src/core/config-schema.ts';
import type { StoredWebhook } from '../../src/core/secrets.ts';
import type { StateFile } from '../../src/core/state.ts';
import { type DaemonLog, daemonLog } from '../../src/daemon/daemon-log.ts';
import { UsageWatch, WebhookWatch } from '../../src/daemon/integrations.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { AccountOrigins } from '../../src/sync/account-origins.ts';
import type { LastComparison } from '../../src/sync/sync-memory.ts';

export type WatchedAccount = ReturnType<typeof watchedAccount>;

/** One account of a sandbox as the daemon has it, with what watches over its order; nothing runs by itself. */
export function watchedAccount(options: {
  readonly sandbox: Pick<Sandbox, 'mailboxUrl' | 'platformUrl' | 'tokens'>;
  /** Without it, the configuration has no token for the platform surface. */
  readonly platform: boolean;
  readonly memory: Pick<StateFile, 'get' | 'set'>;
  readonly now: () => number;
  readonly stored?: () => readonly StoredWebhook[];
  readonly lastCompared?: (resourceId: string) => LastComparison;
}) {
  const { sandbox, memory, now } = options;
  const file = configSchema.parse({
    accounts: [
      {
        name: 'main',
        baseUrl: sandbox.mailboxUrl,
        token: sandbox.tokens.mailbox,
        ...(options.platform
          ? { platform: { url: sandbox.platformUrl, token: sandbox.tokens.platform } }
          : {}),
      },
    ],
    rateLimit: { requestsPerMinute: 10_000_000, concurrency: 8 },
  });
  const { accounts, rateLimit } = toSettings(file, '/nowhere/config.json');
  const origins = new AccountOrigins({
    accounts,
    rateLimit,
    env: {},
    spoolDir: tmpdir(),
    dataDir: tmpdir(),
    clock: systemClock,
    onRequest: () => {},
    onWait: () => {},
  });
  const [account] = origins.all();
  if (account === undefined) throw new Error('the configuration has no account');
  const lines: { msg: string; level: number }[] = [];
  const log: DaemonLog = daemonLog(
    pino({ level: 'debug' }, { write: (line: string) => lines.push(JSON.parse(line)) }),
  );
  const sooner: string[][] = [];
  const shared = {
    accounts: () => [account],
    memory,
    lastCompared: ({ mailbox }: { readonly mailbox: string }) =>
      options.lastCompared?.(mailbox) ?? { at: 0, messages: 0 },
    checkSooner: (_name: string, ids: readonly string[]) => sooner.push([...ids]),
    now,
    // What is not put off is done at once; the rest is for the test to ask for.
    after: (ms: number, act: () => void) => {
      if (ms === 0) act();
      return () => {};
    },
    log,
  };
  const usage = new UsageWatch(shared);
  const stored = () => Promise.resolve(options.stored?.() ?? []);
  const webhooks = new WebhookWatch({ ...shared, stored, observe: () => {} });
  const origin = origins.recent(account, now);
  return {
    account,
    usage,
    webhooks,
    /** What passes are made over. */
    origin,
    /** What was asked to be checked sooner, oldest first. */
    sooner,
    lines,
    /** Lists mailboxes, as a survey does. */
    survey: () => origin.mailboxes(new AbortController().signal),
    async close() {
      await Promise.all([usage.close(), webhooks.close()]);
      await origins.close();
    },
  };
}
