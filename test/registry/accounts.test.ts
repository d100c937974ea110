import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { addAccount, changeState } from '../../src/registry/accounts.ts';
import { beginImport } from '../../src/registry/imports.ts';
import { claim, release } from '../../src/registry/leases.ts';
import { listAccounts } from '../../src/registry/overview.ts';
import { readSecrets, unwantedArchives } from '../../src/registry/reading.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { endSession } from '../../src/registry/sessions.ts';
import { secretsByLookup } from '../../src/registry/webhook-reading.ts';
import { claimed, done, GENESIS, newArchive, newSession } from './servers/fleet.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';
import { secretOf } from './zombies/scene.ts';

const skipped = withoutPostgres();
let server: Postgres;
let database: string;
let registry: Registry;

beforeAll(async () => {
  if (!skipped) server = await Postgres.start();
});
beforeEach(async () => {
  if (skipped) return;
  database = await server.create();
  registry = await server.open(database);
});
afterAll(() => server?.stop());

const account = (name: string, tenant = 'acme') => ({
  ...{ tenant, name, logId: Buffer.alloc(8, 1), genesis: GENESIS, settings: { a: 1 } },
});
const NONCE = Buffer.alloc(12, 1);

async function names(): Promise<string[]> {
  const listed = await listAccounts(registry, {}, 1_000);
  return listed.map(({ tenant, name }) => `${tenant}/${name}`);
}

describe.skipIf(skipped)('an account', () => {
  test('is added with its tenant and its secrets, or not at all', async () => {
    const seal = (archive: number) => [secretOf(archive, NONCE)];
    const { archive } = done(await addAccount(registry, account('anna'), seal));
    expect(await readSecrets(registry, archive)).toEqual([secretOf(archive, NONCE)]);
    const failing = addAccount(registry, account('ben', 'other'), () => {
      throw new Error('no key');
    });
    await expect(failing).rejects.toThrow('no key');
    // A secret twice: the database refuses it, after the archive is there.
    const twice = addAccount(registry, account('ben', 'other'), (id) => [
      secretOf(id, NONCE),
      secretOf(id, NONCE),
    ]);
    await expect(twice).rejects.toMatchObject({ code: 'registry-refused' });
    expect(await names()).toEqual(['acme/anna']);
    const tenants = await registry.read('test', sql`SELECT name FROM tenant`);
    expect(tenants).toEqual([{ name: 'acme' }]);
  });

  test('is found by the secret of its webhooks, whether it was added or imported', async () => {
    const lookup = Buffer.alloc(32, 7);
    const seal = (archive: number) => [{ ...secretOf(archive, NONCE), lookup }];
    const { archive } = done(await addAccount(registry, account('anna'), seal));
    const other = { ...account('ben'), logId: Buffer.alloc(8, 2) };
    const { head } = done(await beginImport(registry, other, randomUUID(), seal));
    const found = await secretsByLookup(registry, [lookup], 10);
    expect(found.map((one) => one.archive)).toEqual([archive, head.archive]);
  });

  test('keeps the weight of its tenant, and finds one that another adds at the same moment', async () => {
    await registry.statement('test', sql`INSERT INTO tenant (name, weight) VALUES ('acme', 7)`);
    done(await addAccount(registry, account('anna'), () => []));
    const weights = await registry.read('test', sql`SELECT name, weight FROM tenant`);
    expect(weights).toEqual([{ name: 'acme', weight: 7 }]);
    const adding = Array.from({ length: 4 }, (_, i) =>
      addAccount(registry, account(`many-${i}`, 'new'), () => []),
    );
    for (const outcome of await Promise.all(adding)) done(outcome);
    expect(await names()).toEqual(['acme/anna', ...[0, 1, 2, 3].map((i) => `new/many-${i}`)]);
  });

  test('is listed page by page, in one order', async () => {
    for (const tenant of ['b', 'a']) {
      for (const name of ['z', 'y', 'x']) {
        done(await addAccount(registry, account(name, tenant), () => []));
      }
    }
    const pages: string[][] = [];
    let last: { tenantId: number; name: string } | undefined;
    do {
      const page = await listAccounts(registry, {}, 4, last);
      pages.push(page.map(({ tenant, name }) => `${tenant}/${name}`));
      last = page.length === 4 ? page.at(-1) : undefined;
    } while (last !== undefined);
    expect(pages).toEqual([
      ['b/x', 'b/y', 'b/z', 'a/x'],
      ['a/y', 'a/z'],
    ]);
    expect(await listAccounts(registry, { tenant: 'a', name: 'y' }, 4)).toMatchObject([
      { tenant: 'a', name: 'y', state: 'active', node: null, isHolderAlive: false, commits: 0 },
    ]);
  });
});

describe.skipIf(skipped)('a holder', () => {
  test('learns what it is to let go of; nobody claims it until it is wanted again', async () => {
    const [first, second] = [await newSession(registry, 'a'), await newSession(registry, 'b')];
    const archives: number[] = [];
    for (const name of ['paused', 'left', 'moved', 'kept']) {
      archives.push(await newArchive(registry, name));
    }
    const [paused = 0, left = 0, moved = 0, kept = 0] = archives;
    const leases = [];
    for (const archive of [paused, left, moved, kept]) {
      leases.push((await claimed(registry, first, archive)).lease);
    }
    expect(await unwantedArchives(registry, first)).toEqual([]);
    expect(done(await changeState(registry, paused, ['active'], 'paused'))).toMatchObject({
      node: 'a',
      forgets: 0,
    });
    done(await changeState(registry, left, ['active'], 'leaving'));
    await registry.statement(
      'test',
      sql`UPDATE archive SET wanted_node = CASE id WHEN ${moved} THEN 'b' ELSE 'a' END
        WHERE id IN (${moved}, ${kept})`,
    );
    expect(await unwantedArchives(registry, first)).toEqual([
      { archive: paused, epoch: 1, because: 'paused' },
      { archive: left, epoch: 1, because: 'leaving' },
      { archive: moved, epoch: 1, because: 'moving' },
    ]);
    expect(await unwantedArchives(registry, second)).toEqual([]);
    for (const lease of leases) done(await release(registry, lease));
    expect(await unwantedArchives(registry, first)).toEqual([]);
    const taken = async () => {
      const options = { session: second, most: 10, catalogVersion: 1 };
      const { claimed: all } = done(await claim(registry, options));
      return all.map(({ head }) => head.archive);
    };
    expect(await taken()).toEqual([moved]);
    done(await changeState(registry, paused, ['paused'], 'active'));
    expect(await taken()).toEqual([paused]);
  });

  test('that claims at the moment of a pause is named by it', async () => {
    const session = await newSession(registry, 'a');
    const archive = await newArchive(registry, 'anna');
    const other = await server.connect(database);
    await other.query('BEGIN');
    await other.query('UPDATE archive SET holder = $1, epoch = 1', [session]);
    const pausing = changeState(registry, archive, ['active'], 'paused');
    await server.waiting(database, 1);
    await other.query('COMMIT');
    expect(done(await pausing)).toMatchObject({ node: 'a' });
    expect(await unwantedArchives(registry, session)).toHaveLength(1);
    done(await endSession(registry, session));
    expect(await listAccounts(registry, {}, 1)).toMatchObject([
      { state: 'paused', node: 'a', isHolderAlive: false },
    ]);
  });
});
