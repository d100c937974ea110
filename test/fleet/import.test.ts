import { appendFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/file-system.ts';
import { segmentPath } from '../../src/archive/format.ts';
import { sealSegment } from '../../src/archive/seal.ts';
import type { UploadingStore } from '../../src/copies/object-store.ts';
import { S3Client } from '../../src/copies/s3-client.ts';
import { s3Store } from '../../src/copies/s3-store.ts';
import { checkArchive } from '../../src/fleet/check.ts';
import { type ImportOptions, importArchive } from '../../src/fleet/import-archive.ts';
import { FleetKeys } from '../../src/fleet/secrets.ts';
import { callOffImport, resumeImport } from '../../src/registry/imports.ts';
import { claim } from '../../src/registry/leases.ts';
import { accountOfLog } from '../../src/registry/overview.ts';
import { readArchive, readSecrets } from '../../src/registry/reading.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { Positions } from '../archive/positions.ts';
import { openOn, writeBatches } from '../archive/sample-log.ts';
import { seeded } from '../bench/seeded.ts';
import { targetAt } from '../objects/servers/s3-server.ts';
import { signal } from '../objects/store-contract.ts';
import { done, newSession } from '../registry/servers/fleet.ts';
import { Collector } from './servers/collector.ts';
import { keysIn } from './servers/keys-in.ts';
import { filesOf, localArchive } from './servers/local-archive.ts';
import { Mortal } from './servers/mortal.ts';
import { FLEET, type Servers, startServers, withoutServers } from './servers/scene.ts';

const skipped = withoutServers();
/** Each act is the last one once: before it was sent, or before its answer came. With `all`, both. */
const KILLS = process.env.MAILKEEP_IMPORT_KILLS;
const WHENS = ['before', 'after'] as const;
const KEYS = FleetKeys.parse(`k1 ${'1'.repeat(64)}`, 'test');
const REGISTRY = ['statement', 'read', 'transaction'] as const;
const STORE = [...(['beginUpload', 'sendParts', 'completeUpload', 'giveUpUpload', 'get'] as const)];

let servers: Servers;
let registry: Registry;
let objects: UploadingStore;
let client: S3Client;
let dir: string;
let fleets = 0;

beforeAll(async () => {
  if (!skipped) servers = await startServers();
}, 120_000);
afterAll(() => servers?.stop());
beforeEach(async () => {
  if (skipped) return;
  fleets += 1;
  registry = await servers.postgres.open(await servers.postgres.create());
  const target = targetAt(servers.gateway, 'fleet', { prefix: `import-${fleets}` });
  objects = s3Store(target);
  client = new S3Client(target, {});
  dir = await localArchive();
  return async () => {
    await objects.close();
    await client.close();
    for (const folder of [dir, `${dir}.cache`]) rmSync(folder, { recursive: true, force: true });
  };
});

const random = seeded('names of imported objects', 1);

function options(more: Partial<ImportOptions> = {}): ImportOptions {
  return {
    ...{ registry, objects, fleet: FLEET, dir, cache: `${dir}.cache`, keys: KEYS, signal },
    ...{ tenant: 'acme', name: 'anna', random: (bytes) => random.bytes(bytes) },
    account: async () => ({ settings: { a: 1 }, secrets: new Map([['token', 'hush']]) }),
    ...more,
  };
}

/** An importer that does not get further than an act, as far as the servers can tell. */
function mortal(more: Partial<ImportOptions> = {}): { importer: Mortal; options: ImportOptions } {
  const importer = new Mortal();
  const asked = {
    registry: importer.asked(registry, REGISTRY),
    objects: importer.asked(objects, STORE),
  };
  return { importer, options: options({ ...asked, ...more }) };
}

async function expectWhole(archive: number): Promise<void> {
  const found = await checkArchive({ registry, objects, isReading: true, signal }, archive);
  expect(found).toMatchObject({ commits: 6, tail: 2, objects: 2, problems: [] });
}

/** Everything else is collected: then the store has what the registry names, and nothing more. */
async function expectCollected(): Promise<void> {
  const collector = new Collector(registry, objects);
  await collector.sweep();
  await collector.settle();
  const rows = await registry.read<{ key: string }>(
    'test',
    sql`SELECT key FROM object WHERE state <> 'gone' ORDER BY key`,
  );
  expect(await keysIn(client)).toEqual(rows.map(({ key }) => key));
}

/** Begins again, with an empty registry and store. */
async function forgetAll(): Promise<void> {
  await registry.statement('test', sql`DELETE FROM cover`);
  await registry.statement(
    'test',
    sql`UPDATE object SET state = 'condemned', condemned_at = clock_timestamp() WHERE state = 'live'`,
  );
  await expectCollected();
  for (const table of ['tail', 'secret', 'object', 'archive']) {
    await registry.statement('test', sql`DELETE FROM ${sql.table(table)}`);
  }
}

describe.skipIf(skipped)('an import', () => {
  test('brings a log that anybody can claim afterwards, and leaves the folder as it was', async () => {
    const before = filesOf(dir);
    const imported = await importArchive(options());
    expect(imported).toEqual({
      ...{ archive: 1, was: 'new', commits: 6, segments: 3, uploaded: 2, kept: 0, tail: 2 },
      ...{ hasCatalog: false, hasMemory: false },
    });
    expect(filesOf(dir)).toEqual(before);
    expect(readdirSync(`${dir}.cache`)).toEqual([]);
    await expectWhole(1);
    const stored = await readArchive(registry, 1);
    expect(stored?.covers).toMatchObject([
      { first: 1, last: 2, segment: 1, generation: 2 },
      { first: 3, last: 4, segment: 2, generation: 1 },
    ]);
    expect(stored).toMatchObject({ name: 'anna', settings: { a: 1 } });
    expect(await readSecrets(registry, 1)).toMatchObject([{ purpose: 'token', keyId: 'k1' }]);
    const session = await newSession(registry, 'node');
    const { claimed } = done(await claim(registry, { session, most: 5, catalogVersion: 1 }));
    expect(claimed).toMatchObject([{ head: { archive: 1, headNumber: 6, hotSegment: 3 } }]);
    // Once more: it is there, and nothing is asked about the account.
    const account = () => Promise.reject(new Error('asked'));
    const again = await importArchive(options({ account }));
    expect(again).toMatchObject({ was: 'already', archive: 1, commits: 6 });
  });

  test('that is killed at any act is continued by the next one, and leaves nothing behind', async () => {
    const all = mortal();
    await importArchive(all.options);
    const { acts } = all.importer;
    await forgetAll();
    const seen = new Set<string>();
    const deaths = Array.from({ length: acts }, (_, index) => index + 1).flatMap((act) =>
      (KILLS === 'all' ? WHENS : [WHENS[(acts - act + 1) % 2] ?? 'after']).map((when) => ({
        act,
        when,
      })),
    );
    for (const { act, when } of deaths) {
      const { importer, options: doomed } = mortal();
      importer.doom({ act, when });
      await expect(importArchive(doomed), `act ${act}, ${when}`).rejects.toThrow('killed');
      const session = await newSession(registry, `node-${act}-${when}`);
      const imported = await importArchive(options());
      seen.add(`${imported.was} ${imported.kept}`);
      await expectWhole(imported.archive);
      const { claimed } = done(await claim(registry, { session, most: 5, catalogVersion: 1 }));
      expect(claimed).toHaveLength(1);
      await expectCollected();
      await forgetAll();
    }
    expect([...seen].toSorted()).toEqual([
      ...['already 0', 'continued 0', 'continued 1', 'continued 2', 'new 0'],
    ]);
  }, 240_000);

  test('cannot be claimed before it has ended, and is called off', async () => {
    const { importer, options: doomed } = mortal();
    importer.doom({ act: 12, when: 'before' });
    await expect(importArchive(doomed)).rejects.toThrow('killed');
    const session = await newSession(registry, 'node');
    const any = { session, most: 5, catalogVersion: 1 };
    expect(done(await claim(registry, any)).claimed).toEqual([]);
    done(await callOffImport(registry, 1));
    await expectCollected();
    expect(await keysIn(client)).toEqual([]);
    expect(await importArchive(options())).toMatchObject({ was: 'new', archive: 2 });
  });

  test('ends when another importer continues it, which is refused nothing', async () => {
    let isRival = false;
    const rival = async (progress: { segments: number }): Promise<void> => {
      if (progress.segments !== 2 || isRival) return;
      isRival = true;
      await resumeImport(registry, 1, '00000000-0000-4000-8000-000000000001');
    };
    let rivals: Promise<void> = Promise.resolve();
    const asked = new Mortal().asked(registry, []);
    const onProgress = (progress: { segments: number }) => {
      rivals = rival(progress);
    };
    const waiting = new Proxy(asked, {
      get: (of, name) => {
        const value: unknown = Reflect.get(of, name);
        return typeof value !== 'function'
          ? value
          : async (...given: unknown[]) => {
              await rivals;
              return Reflect.apply(value, of, given);
            };
      },
    });
    await expect(importArchive(options({ registry: waiting, onProgress }))).rejects.toMatchObject({
      code: 'fleet-import-lost',
    });
    const continued = await importArchive(options());
    expect(continued).toMatchObject({ was: 'continued', kept: 2, uploaded: 0 });
    await expectWhole(1);
    await expectCollected();
  });

  test('keeps nothing of what the local archive has no longer', async () => {
    const { importer, options: doomed } = mortal();
    importer.doom({ act: (await actsOf()) - 1, when: 'before' });
    await expect(importArchive(doomed)).rejects.toThrow('killed');
    // As a forget does: another generation of the first segment. And more commits than before.
    await sealSegment({ dir, segment: 1, codec: 'zlib', purge: () => false });
    const writer = await openOn(realFiles, { dir });
    await writeBatches(writer, new Positions(), 1, 300);
    await writer.close();
    const continued = await importArchive(options());
    expect(continued).toMatchObject({
      was: 'continued',
      kept: 0,
      uploaded: 2,
      commits: 7,
      tail: 3,
    });
    const stored = await readArchive(registry, continued.archive);
    expect(stored?.covers[0]).toMatchObject({ generation: 3 });
    await expectCollected();
  });

  test.each([
    [
      'another account has its name',
      { code: 'fleet-account-exists', facts: { account: 'anna', tenant: 'acme' } },
      async () => {
        const other = await localArchive();
        await importArchive(options({ dir: other }));
        rmSync(other, { recursive: true });
      },
    ],
    [
      'it is in the fleet under another name',
      { code: 'fleet-log-exists', facts: { account: 'ben', tenant: 'acme' } },
      async () => {
        await importArchive(options({ name: 'ben' }));
      },
    ],
    [
      'a purge is not finished',
      { code: 'fleet-import-purge' },
      async () => {
        const after = { number: 6, hash: '0'.repeat(64) };
        const work = { version: 1, reason: 'forgotten', messages: [], after, records: [] };
        writeFileSync(path.join(dir, 'purge.json'), JSON.stringify(work));
      },
    ],
    [
      'a newer program made it',
      { code: 'archive-format-newer' },
      async () => {
        writeFileSync(path.join(dir, 'FORMAT'), 'mailkeep archive 99\n');
      },
    ],
    [
      'a sealed segment is damaged',
      { code: 'log-damaged', facts: { segment: 1 } },
      async () => damage({ segment: 1, generation: 2 }),
    ],
    [
      'an open segment is damaged',
      { code: 'log-damaged', facts: { segment: 2 } },
      async () => damage({ segment: 2, generation: 1 }),
    ],
    [
      'a segment is missing',
      { code: 'log-damaged', facts: { segment: 2, reason: 'segment-missing' } },
      async () => {
        rmSync(segmentPath(dir, { segment: 2, generation: 1 }));
      },
    ],
    [
      'a segment is one of another archive',
      { code: 'log-damaged', facts: { segment: 2, reason: 'diverged' } },
      async () => {
        const other = await localArchive();
        const name = { segment: 2, generation: 1 };
        writeFileSync(segmentPath(dir, name), readFileSync(segmentPath(other, name)));
        rmSync(other, { recursive: true });
      },
    ],
  ] as const)('is refused where %s, and nobody can claim anything', async (_, error, make) => {
    await make();
    await expect(importArchive(options())).rejects.toMatchObject(error);
    const states = await registry.read<{ state: string }>(
      'test',
      sql`SELECT state FROM archive WHERE name = 'anna' AND settings = '{"a": 1}'`,
    );
    expect(states.map(({ state }) => state)).toEqual(
      error.code === 'log-damaged'
        ? ['importing']
        : error.code === 'fleet-account-exists'
          ? ['active']
          : [],
    );
  });

  test('leaves out what was written and never acknowledged', async () => {
    appendFileSync(segmentPath(dir, { segment: 3, generation: 1 }), Buffer.alloc(100, 7));
    expect(await importArchive(options())).toMatchObject({ commits: 6, tail: 2 });
    await expectWhole(1);
    expect(await accountOfLog(registry, Buffer.alloc(8))).toBeUndefined();
  });
});

/** Acts of an import from its beginning to its end. */
async function actsOf(): Promise<number> {
  const { importer, options: counting } = mortal();
  await importArchive(counting);
  await forgetAll();
  return importer.acts;
}

function damage(name: { segment: number; generation: number }): void {
  const file = segmentPath(dir, name);
  const bytes = readFileSync(file);
  const at = Math.floor(bytes.length / 3);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(file, bytes);
}
