import { EventEmitter, once } from 'node:events';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FleetKeys, lookupsOf, sealSecret } from '../../src/fleet/secrets.ts';
import { WebhookSenders } from '../../src/fleet/webhook-senders.ts';
import { putSecret } from '../../src/registry/fleet.ts';
import { sendHints } from '../../src/registry/hints.ts';
import { listen } from '../../src/registry/listening.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { endSession } from '../../src/registry/sessions.ts';
import { secretsByLookup } from '../../src/registry/webhook-reading.ts';
import { keepWebhook } from '../../src/registry/webhooks.ts';
import { claimed, done, newArchive, newSession } from './servers/fleet.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';

const skipped = withoutPostgres();
const FLEET = '0f0e0d0c-0b0a-4908-8706-050403020100';
const OLD = `k1 ${'1'.repeat(64)}`;
const NEW = `k2 ${'2'.repeat(64)}`;

let server: Postgres;
let database: string;
let registry: Registry;

beforeAll(async () => {
  if (skipped) return;
  server = await Postgres.start();
  database = await server.create();
  registry = await server.open(database);
});
afterAll(() => server?.stop());

describe.skipIf(skipped)('hints in PostgreSQL', () => {
  test('reach the session that holds the archive, and nobody else', async () => {
    const [one, two] = [await newSession(registry, 'a'), await newSession(registry, 'b')];
    const [held, other, free] = [
      await newArchive(registry, 'held'),
      await newArchive(registry, 'other'),
      await newArchive(registry, 'free'),
    ];
    await claimed(registry, one, held);
    await claimed(registry, two, other);
    const heard: string[] = [];
    const news = new EventEmitter();
    const ports = (name: string) => ({
      onNote: (payload: string) => {
        heard.push(`${name}: ${payload}`);
        news.emit('note');
      },
      onLost: () => news.emit('lost'),
    });
    const target = server.target(database);
    const first = await listen(target, one, ports('one'));
    const second = await listen(target, two, ports('two'));
    expect(await first.check()).toBe(true);
    const send = (payload: string) =>
      sendHints(registry, [held, other, free], (holders) =>
        holders.map(({ archive, session }) => ({ session, payload: `${payload} ${archive}` })),
      );
    expect((await send('mail')).map(({ archive }) => archive).toSorted()).toEqual([held, other]);
    while (heard.length < 2) await once(news, 'note');
    expect(heard.toSorted()).toEqual([`one: mail ${held}`, `two: mail ${other}`]);

    // Nobody waits for a dead session, and a connection that ends says so.
    done(await endSession(registry, two));
    expect((await send('more')).map(({ archive }) => archive)).toEqual([held]);
    const lost = once(news, 'lost');
    await server.admin(database, (client) =>
      client.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN "w_${one}"%' OR query LIKE '%pg_listening_channels()%' AND pid <> pg_backend_pid()`,
      ),
    );
    await lost;
    await expect(first.check()).rejects.toThrow();
    await first.close();
    await second.close();
  });

  test('a secret is found by whoever has the keys, as long as it counts', async () => {
    const archive = await newArchive(registry, 'hooked');
    const { lease } = await claimed(registry, await newSession(registry, 'c'), archive);
    const old = FleetKeys.parse(OLD, 'keys');
    const both = FleetKeys.parse(`${NEW}\n${OLD}`, 'keys');
    const place = (purpose: string) => ({ fleet: FLEET, archive, purpose });
    const webhook = { id: 'w1', host: 'mail.example', mailboxId: 'AC1', mailbox: 'a@example.org' };
    const hook = { ...webhook, url: 'https://hooks.example.org/mail' };
    done(await keepWebhook(registry, lease, hook, sealSecret(old, place('webhook/w1'), 'made')));
    const byHand = sealSecret(old, place('webhook'), 'by hand');
    done(await putSecret(registry, byHand, null));
    done(await putSecret(registry, sealSecret(old, place('token'), 'token'), null));
    let [now, asked] = [0, 0];
    const damaged: unknown[] = [];
    const senders = new WebhookSenders({
      ...{ fleet: FLEET, keys: () => both, urls: [hook.url], monotonic: () => now },
      find: (lookups, most) => {
        asked += 1;
        return secretsByLookup(registry, lookups, most);
      },
      onDamaged: (error) => damaged.push(error),
    });
    expect(['/mail', '/webhook', '/x'].map((at) => senders.isPath(at))).toEqual([
      true,
      true,
      false,
    ]);
    const targets = async (secret: string) => {
      await senders.learn(secret);
      return senders.match(secret)?.targets;
    };
    // Together they are at most two statements: the second gathers while the first is under way.
    const all = await Promise.all(['made', 'by hand', 'token', 'guess', ''].map(targets));
    const mailbox = { id: 'AC1', address: 'a@example.org' };
    expect(all).toEqual([
      [{ archive, mailbox }],
      [{ archive, mailbox: null }],
      undefined,
      undefined,
      undefined,
    ]);
    expect(asked).toBeLessThanOrEqual(2);

    // Another secret at the same place: the old one counts for a minute at most.
    done(await keepWebhook(registry, lease, hook, sealSecret(both, place('webhook/w1'), 'next')));
    expect(senders.match('made')).toBeDefined();
    now += 60_000;
    expect([await targets('made'), await targets('next')]).toEqual([
      undefined,
      [{ archive, mailbox }],
    ]);
    // A row that was changed in the database to be found by another secret says nothing.
    const forged = {
      ...sealSecret(both, place('webhook'), 'own'),
      lookup: lookupsOf(both, 'x')[0],
    };
    done(await putSecret(registry, forged, byHand.nonce));
    expect([await targets('x'), damaged]).toEqual([undefined, []]);
  });
});
