import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { fleetMigrations } from '../../../migrations/fleet/index.ts';
import { S3Client } from '../../../src/copies/s3-client.ts';
import { ensureBucket } from '../../../src/copies/s3-store.ts';
import { FleetKeys } from '../../../src/fleet/secrets.ts';
import { putSecret } from '../../../src/registry/fleet.ts';
import { readFleet } from '../../../src/registry/overview.ts';
import { HttpProxy } from '../../objects/servers/http-proxy.ts';
import { targetAt } from '../../objects/servers/s3-server.ts';
import { signal } from '../../objects/store-contract.ts';
import { done } from '../../registry/servers/fleet.ts';
import { type Servers, startServers, withoutServers } from '../servers/scene.ts';
import { Place, type PlaceOptions } from './place.ts';

const skipped = withoutServers();
let servers: Servers;
const places: Place[] = [];

beforeAll(async () => {
  if (!skipped) servers = await startServers();
});
afterEach(() => {
  for (const place of places.splice(0)) place.remove();
});
afterAll(() => servers?.stop());

async function newPlace(options: PlaceOptions = {}): Promise<Place> {
  const place = await Place.make(servers.postgres, {
    ...{ empty: true, server: servers.gateway },
    ...options,
  });
  places.push(place);
  return place;
}

/** Everything below a bucket, versions and unfinished uploads included. */
async function contents(bucket: string): Promise<string> {
  const client = new S3Client(targetAt(servers.gateway, bucket), {});
  const texts: string[] = [];
  for (const query of [{ 'list-type': '2' }, { versions: '' }, { uploads: '' }]) {
    const request = { operation: 'list', method: 'GET', query } as const;
    texts.push(JSON.stringify((await client.request(request, signal)).xml ?? null));
  }
  await client.close();
  return texts.join('\n');
}

async function tables({ registry }: Place): Promise<unknown> {
  const [row] = await registry.read<{ found: unknown }>(
    'test',
    sql`SELECT to_regclass('fleet') AS found`,
  );
  return row?.found;
}

describe.skipIf(skipped)('mailkeep fleet init', () => {
  test('makes tables, fleet and keys, tries the bucket, and can be repeated', async () => {
    const place = await newPlace();
    const first = await place.run(['init']);
    expect([first.code, first.stderr]).toEqual([0, '']);
    const fleet = await readFleet(place.registry);
    const keys = readFileSync(place.keyFile, 'utf8');
    const name = FleetKeys.parse(keys, 'keys').current;
    const socket = servers.postgres.socketFolder;
    const registry = `postgresql:///${place.database}?host=${socket}&port=5432&user=fleet`;
    expect(first.stdout.split('\n')).toEqual([
      `${registry}: the tables were brought up to date (${Object.keys(fleetMigrations).length === 1 ? '1 step' : `${Object.keys(fleetMigrations).length} steps`}).`,
      's3://fleet/mail: an object was written in parts, read back and deleted; an upload was called off.',
      `Fleet ${fleet?.id} was created.`,
      `${place.keyFile} was created with the key ${name}. Copy it to every node, and keep a copy elsewhere: without it, no token in the registry can be read.`,
      '',
    ]);
    expect(fleet).toMatchObject({ bucket: 's3://fleet/mail', archiveFormat: 2 });
    expect(statSync(place.keyFile).mode & 0o777).toBe(0o600);
    expect(await contents('fleet')).not.toMatch(/init\/|probe\//);

    expect(await place.json(['init'])).toEqual([
      {
        ...{ fleet: fleet?.id, created: false, registry, steps: [], store: 's3://fleet/mail' },
        ...{ bucketCreated: false, versioned: false, locked: false },
        ...{ keyFile: place.keyFile, key: name, keyCreated: false },
      },
    ]);
    expect(readFileSync(place.keyFile, 'utf8')).toBe(keys);
    expect((await place.run(['init'])).stdout).toContain(`Fleet ${fleet?.id} exists; it was left`);
  });

  test('two at once make one fleet with one file of keys', async () => {
    const place = await newPlace();
    const made = await Promise.all([place.json(['init']), place.json(['init'])]);
    const all = made.flat() as { fleet: string; created: boolean; key: string }[];
    expect(new Set(all.map(({ fleet }) => fleet)).size).toBe(1);
    expect(new Set(all.map(({ key }) => key)).size).toBe(1);
    expect(all.filter(({ created }) => created)).toHaveLength(1);
  });

  test('refuses the registry of a fleet with another bucket, and touches nothing', async () => {
    const place = await newPlace();
    await place.json(['init']);
    const fleet = await readFleet(place.registry);
    const endpoint = `http://127.0.0.1:${servers.gateway.port}`;
    place.configure({ store: { bucket: 'others', endpoint } });
    const refused = await place.run(['init']);
    expect([refused.code, refused.stdout]).toEqual([2, '']);
    expect(refused.stderr).toMatch(
      /belongs to a fleet whose objects are in s3:\/\/fleet\/mail, and the configuration says s3:\/\/others\. Nothing was changed\./,
    );
    expect(await readFleet(place.registry)).toEqual(fleet);
  });

  test('a bucket that is missing is named; it is created if that is wanted', async () => {
    const place = await newPlace({ bucket: 'made-here' });
    const missing = await place.run(['init']);
    expect([missing.code, missing.stderr]).toEqual([
      2,
      expect.stringContaining('There is no bucket made-here.'),
    ]);
    expect(await readFleet(place.registry)).toBeUndefined();
    expect(existsSync(place.keyFile)).toBe(false);
    expect(await place.json(['init', '--create-bucket'])).toMatchObject([
      { created: true, bucketCreated: true },
    ]);
    expect(await place.json(['init', '--create-bucket'])).toMatchObject([
      { created: false, bucketCreated: false },
    ]);
  });

  test('a bucket with versions is refused unless it is asked for; none is left then', async () => {
    const bucket = 'versioned';
    const target = targetAt(servers.gateway, bucket);
    await ensureBucket(target, signal, { lock: true });
    const place = await newPlace({ bucket });
    const refused = await place.run(['init']);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringMatching(
        /^mailkeep: s3:\/\/versioned\/mail keeps versions.*\n.*--allow-versioning/,
      ),
    ]);
    expect(await readFleet(place.registry)).toBeUndefined();
    expect(await place.json(['init', '--allow-versioning'])).toMatchObject([
      { created: true, versioned: true, locked: false },
    ]);
    expect(await contents(bucket)).not.toContain('init/');
  });

  test('a bucket that locks everything is accepted with versions only, and reported', async () => {
    const bucket = 'locking';
    const target = targetAt(servers.gateway, bucket);
    await ensureBucket(target, signal, { lock: true });
    const client = new S3Client(target, {});
    const body = Buffer.from(
      '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>',
    );
    const request = {
      operation: 'lock',
      method: 'PUT',
      query: { 'object-lock': '' },
      body,
    } as const;
    expect((await client.request(request, signal)).status).toBe(200);
    await client.close();
    const place = await newPlace({ bucket });
    const accepted = await place.run(['init', '--allow-versioning']);
    expect([accepted.code, accepted.stderr]).toEqual([0, '']);
    expect(accepted.stdout).toContain('read back and locked;');
    expect(accepted.stdout).toContain('a forget ends only after its locks have ended.');
  });

  test('nothing is made with a file of keys that is none', async () => {
    const place = await newPlace();
    writeFileSync(place.keyFile, 'k1 abc\n', { mode: 0o600 });
    const refused = await place.run(['init']);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining(`${place.keyFile}, line 1, is not a key`),
    ]);
    expect(await tables(place)).toBe(null);
    expect(readFileSync(place.keyFile, 'utf8')).toBe('k1 abc\n');
  });

  test('a node makes no second file of keys once there are secrets', async () => {
    const place = await newPlace();
    const [{ key = '' }] = (await place.json(['init'])) as [{ key?: string }];
    const secret = { archive: 1, purpose: 'token', keyId: key, nonce: Buffer.alloc(12) };
    done(await putSecret(place.registry, { ...secret, sealed: Buffer.alloc(20) }, null));
    expect(await place.json(['init'])).toMatchObject([{ keyCreated: false }]);
    rmSync(place.keyFile);
    const without = await place.run(['init']);
    expect([without.code, without.stderr]).toEqual([
      2,
      `mailkeep: The registry has secrets that were encrypted by the key ${key}, and there is no file ${place.keyFile}.\nCopy the file of keys from another node.\n`,
    ]);
    expect(existsSync(place.keyFile)).toBe(false);
    writeFileSync(place.keyFile, `other ${'0'.repeat(64)}\n`, { mode: 0o600 });
    expect((await place.run(['init'])).stderr).toContain(`which ${place.keyFile} does not have.`);
  });

  test('what is wrong with the servers is said', async () => {
    const place = await newPlace();
    place.env = { ...place.env, AWS_SECRET_ACCESS_KEY: 'wrong' };
    expect(await place.run(['init'])).toMatchObject({
      code: 6,
      stderr: expect.stringContaining('s3://fleet/mail refused PutObject: HTTP 403'),
    });
    place.configure({ registry: 'postgresql://fleet@127.0.0.1:1/none' });
    expect(await place.run(['init'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('cannot be reached: connection refused'),
    });
    place.configure({ registry: { env: 'REGISTRY' } });
    expect(await place.run(['init'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('the environment variable REGISTRY: it does not exist.'),
    });
    place.configure({ registry: 'postgresql://fleet@db.example/x?sslmode=require' });
    expect(await place.run(['init'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('sslmode can be verify-full'),
    });
  });

  test.each([
    ['read-back', /^GET .*\/init\/[^?]*$/, { do: 'change-answer' }],
    ['call-off', /^DELETE .*uploadId/, { do: 'answer', status: 204, code: '' }],
    ['delete', /^DELETE .*\/init\/[^?]*$/, { do: 'answer', status: 204, code: '' }],
  ] as const)('a server that is no good is refused: %s', async (problem, request, fault) => {
    const http = await HttpProxy.start(servers.gateway.port);
    try {
      const place = await newPlace({ server: { ...servers.gateway, port: http.port } });
      http.faultFor = (method, path) => (request.test(`${method} ${path}`) ? fault : undefined);
      const refused = await place.run(['init', '--json']);
      expect([refused.code, refused.stdout]).toEqual([2, '']);
      expect(JSON.parse(refused.stderr)).toMatchObject({ error: { code: 'fleet-store-unfit' } });
      const words = { 'read-back': 'other bytes', 'call-off': 'called off', delete: 'deleted' };
      expect(refused.stderr).toContain(words[problem]);
      expect(await readFleet(place.registry)).toBeUndefined();
    } finally {
      await http.stop();
    }
  });

  test('tables of an older program are left alone by other commands, and upgraded', async () => {
    const place = await newPlace();
    await place.json(['init']);
    for (const undone of [
      sql`DELETE FROM schema_step WHERE name <> '0001_registry'`,
      sql`DROP TABLE forget`,
      sql`DROP INDEX archive_importing`,
      sql`DROP TABLE webhook`,
      sql`ALTER TABLE secret DROP COLUMN lookup`,
      sql`DROP TABLE struck_node`,
      sql`ALTER TABLE purge DROP COLUMN decided_at`,
      sql`INSERT INTO purge (archive, purges, number, commits, records) VALUES (1, 1, 1, '{1}', '[]')`,
    ])
      await place.registry.statement('test', undone);
    const refused = await place.run(['status']);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringMatching(
        /are at the step 0001_registry; .* needs 0002_operations\.\n.*fleet init/,
      ),
    ]);
    expect(await place.json(['init'])).toMatchObject([
      { steps: ['0002_operations', '0003_webhooks', '0004_importing', '0005_forgets'] },
    ]);
    const ages = sql<{ isKnown: boolean }>`SELECT decided_at IS NOT NULL AS "isKnown" FROM purge`;
    expect(await place.registry.read('test', ages)).toEqual([{ isKnown: true }]);
  });

  test('a fleet that needs a newer program is refused', async () => {
    const place = await newPlace();
    await place.json(['init']);
    await place.registry.statement('test', sql`UPDATE fleet SET min_program = 99`);
    expect(await place.run(['init'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('needs programs of version 99 or newer'),
    });
  });
});
