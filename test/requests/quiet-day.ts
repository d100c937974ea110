import type { StoredWebhook } from '../../src/core/secrets.ts';
import { Secret } from '../../src/core/secrets.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { watchedAccount } from '../daemon/watched-account.ts';
import { Archive } from '../sync/harness.ts';
import { policy } from '../sync/one-mailbox.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const QUARTER = 15 * MINUTE;

interface Size {
  readonly mailboxes: number;
  /** Minutes between two passes. */
  readonly everyMinutes: number;
  /** Whether each mailbox has a webhook, which is watched where there is a token for the platform surface. */
  readonly webhooks: boolean;
}

/**
 * Counts what a daemon asks of the service in a day in which nothing happens: passes by the clock, and the watches over
 * an order of so many mailboxes. Once without a token for the platform surface, once with one.
 */
export async function quietDay(size: Size) {
  return {
    ...size,
    withoutPlatform: await countDay(size, false),
    withPlatform: await countDay(size, true),
  };
}

/** Returns the requests of a day in which nothing happens, by operation. */
async function countDay({ mailboxes, everyMinutes, webhooks: hooked }: Size, platform: boolean) {
  const archive = new Archive();
  const addresses = Array.from({ length: mailboxes }, (_, n) => `box${n}@example.org`);
  const { now } = archive.clock;
  const sandbox = await startSandbox({
    addresses,
    mail: { messages: mailboxes },
    now,
    settings: { platformRequestsPerMinute: null },
  });
  const hooks = hooked ? createHooks(sandbox) : [];
  const { memory } = archive;
  const watched = watchedAccount({ sandbox, platform, memory, now, stored: () => hooks });
  const { origin, usage, webhooks } = watched;
  const minutes = { ...policy, rhythm: { mailboxesMs: 55 * MINUTE, folderMs: 55 * MINUTE } };
  try {
    await archive.sync(origin, { policy: minutes });
    const before = sandbox.requests().byOperation;
    const start = now();
    for (let passed = 0; passed < DAY; passed += everyMinutes * MINUTE) {
      const until = start + passed + everyMinutes * MINUTE;
      // What watches is asked each minute in between, as its timers do.
      for (let at = now(); at < until; at = now()) {
        archive.clock.advance(MINUTE);
        usage.look();
        await usage.idle();
        if ((at - start) % QUARTER === 0) webhooks.look();
        await webhooks.idle();
      }
      const { failures } = await archive.sync(origin, { policy: minutes });
      if (failures.length > 0) throw new Error(JSON.stringify(failures[0]));
    }
    return difference(before, sandbox.requests().byOperation);
  } finally {
    await watched.close();
    await sandbox.close();
    archive.remove();
  }
}

function createHooks({ service, mailboxUrl }: Sandbox): StoredWebhook[] {
  const url = 'http://127.0.0.1:9/webhook';
  return [...service.store.mailboxes.values()].map((mailbox) => {
    const { id } = service.webhooks.create(mailbox, {
      name: 'mailkeep',
      description: null,
      events: ['message.received'],
      status: 'active',
      url,
    });
    return {
      id,
      mailboxId: mailbox.resourceId,
      mailbox: mailbox.address,
      account: 'main',
      host: new URL(mailboxUrl).host,
      url,
      secret: new Secret('not used'),
      createdAt: new Date(service.now()).toISOString(),
    };
  });
}

function difference(
  before: Readonly<Record<string, number>>,
  after: Readonly<Record<string, number>>,
) {
  const byOperation: Record<string, number> = {};
  for (const [operation, count] of Object.entries(after).sort(([a], [b]) => (a < b ? -1 : 1))) {
    const requests = count - (before[operation] ?? 0);
    if (requests > 0) byOperation[operation] = requests;
  }
  const total = Object.values(byOperation).reduce((sum, count) => sum + count, 0);
  return { perHour: total / 24, byOperation };
}
