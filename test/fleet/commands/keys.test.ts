import { existsSync, lstatSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readFleetKeys } from '../../../src/fleet/key-file.ts';
import { sealWithCurrent } from '../../../src/fleet/rotate-keys.ts';
import { FleetKeys, openSecret, sealSecret } from '../../../src/fleet/secrets.ts';
import { putSecret, type SealedSecret } from '../../../src/registry/fleet.ts';
import { keyUses } from '../../../src/registry/overview.ts';
import { readSecrets } from '../../../src/registry/reading.ts';
import { done } from '../../registry/servers/fleet.ts';
import { Postgres, withoutPostgres } from '../../registry/servers/postgres.ts';
import { FLEET } from '../servers/scene.ts';
import { Place } from './place.ts';

const skipped = withoutPostgres();
let server: Postgres;
let place: Place;

beforeAll(async () => {
  if (!skipped) server = await Postgres.start();
});
beforeEach(async () => {
  if (!skipped) place = await Place.ready(server);
});
afterEach(() => place?.remove());
afterAll(() => server?.stop());

/** Puts a secret for each archive from 1 on, as the keys of the place encrypt it, and returns them. */
async function sealed(count: number): Promise<SealedSecret[]> {
  const keys = readFleetKeys(place.keyFile);
  const all = Array.from({ length: count }, (_, i) =>
    sealSecret(keys, { fleet: FLEET, archive: i + 1, purpose: 'token' }, `hush-${i + 1}`),
  );
  for (const secret of all) done(await putSecret(place.registry, secret, null));
  return all;
}

/** Decrypts the secret of an archive by the keys of the place. */
async function opened(archive: number): Promise<string> {
  const [secret] = await readSecrets(place.registry, archive);
  if (secret === undefined) throw new Error('there is no secret');
  return openSecret(readFleetKeys(place.keyFile), FLEET, secret);
}

const keyNames = () =>
  readFileSync(place.keyFile, 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[0]);

describe.skipIf(skipped)('mailkeep fleet key rotate', () => {
  test('encrypts every secret by a new key, which becomes the first line of the file', async () => {
    const before = readFileSync(place.keyFile, 'utf8');
    writeFileSync(place.keyFile, `# keys of the fleet\n${before}`);
    await sealed(2);
    const ran = await place.run(['key', 'rotate', '--new', 'k2']);
    expect(ran).toEqual({
      code: 0,
      stdout:
        '2 secrets were encrypted again by the key k2.\nNo secret uses another key: once every node has this file, the lines of older keys can be removed.\n',
      stderr: `${place.keyFile} has the new key k2. Copy the file to every node now: without it, they cannot read what this key encrypts.\n`,
    });
    expect(keyNames()).toEqual(['k2', '#', 'k1', '']);
    expect(statSync(place.keyFile).mode & 0o777).toBe(0o600);
    expect(existsSync(`${place.keyFile}.new`)).toBe(false);
    expect(await keyUses(place.registry)).toEqual([{ keyId: 'k2', secrets: 2 }]);
    expect([await opened(1), await opened(2)]).toEqual(['hush-1', 'hush-2']);
    // The older key does not open them.
    const older = FleetKeys.parse(before.replace('k1', 'k2'), 'older');
    const [secret] = await readSecrets(place.registry, 1);
    if (secret === undefined) throw new Error('there is no secret');
    expect(() => openSecret(older, FLEET, secret)).toThrow('fleet-secret-damaged');
  });

  test('adds nothing to the file by itself, and nothing twice', async () => {
    await sealed(1);
    const before = readFileSync(place.keyFile, 'utf8');
    expect(await place.json(['key', 'rotate'])).toEqual([
      {
        ...{ keyFile: place.keyFile, key: 'k1', keyCreated: false, sealed: 0, failed: 0 },
        ...{ failures: [], older: [] },
      },
    ]);
    expect(readFileSync(place.keyFile, 'utf8')).toBe(before);
    expect(await place.json(['key', 'rotate', '--new', 'k2'])).toMatchObject([
      { key: 'k2', keyCreated: true, sealed: 1 },
    ]);
    // As after an interruption.
    expect(await place.json(['key', 'rotate', '--new', 'k2'])).toMatchObject([
      { key: 'k2', keyCreated: false, sealed: 0 },
    ]);
    expect(keyNames()).toEqual(['k2', 'k1', '']);
    const taken = await place.run(['key', 'rotate', '--new', 'k1']);
    expect(taken).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('has a key k1 already'),
    });
    expect(await place.run(['key', 'rotate', '--new', 'a b'])).toMatchObject({ code: 2 });
    expect(keyNames()).toEqual(['k2', 'k1', '']);
  });

  test('continues after an interruption, over pages of secrets', async () => {
    await sealed(1_001);
    const line = `k2 ${'2'.repeat(64)}\n`;
    writeFileSync(place.keyFile, `${line}${readFileSync(place.keyFile, 'utf8')}`);
    const keys = readFleetKeys(place.keyFile);
    let left = 600;
    const { signal } = new AbortController();
    signal.throwIfAborted = () => {
      left -= 1;
      if (left < 0) throw new Error('interrupted');
    };
    const interrupted = sealWithCurrent(place.registry, FLEET, keys, signal);
    await expect(interrupted).rejects.toThrow('interrupted');
    expect(await keyUses(place.registry)).toEqual([
      { keyId: 'k1', secrets: 401 },
      { keyId: 'k2', secrets: 600 },
    ]);
    expect(await place.json(['key', 'rotate'])).toMatchObject([{ sealed: 401, older: [] }]);
    expect([await opened(1), await opened(1_001)]).toEqual(['hush-1', 'hush-1001']);
  });

  test('what cannot be decrypted stays as it is, and is counted', async () => {
    const [first] = await sealed(3);
    const { registry } = place;
    await registry.statement('test', sql`UPDATE secret SET key_id = 'lost' WHERE archive = 2`);
    const rows = await readSecrets(registry, 2);
    const ran = await place.run(['key', 'rotate', '--new', 'k2']);
    expect(ran.code).toBe(2);
    expect(ran.stdout.split('\n').slice(0, 3)).toEqual([
      '2 secrets were encrypted again by the key k2.',
      '1 secret still uses an older key: lost (1). Keep its line, and run the command again.',
      'The secret "token" of archive 2 needs the key lost, which is not among the keys of the fleet here.',
    ]);
    expect(await readSecrets(registry, 2)).toEqual(rows);
    await registry.statement(
      'test',
      sql`UPDATE secret SET key_id = 'k1', sealed = ${first?.sealed} WHERE archive = 2`,
    );
    expect(await place.json(['key', 'rotate'], { code: 3 })).toMatchObject([
      {
        ...{ sealed: 0, failed: 1, older: [{ key: 'k1', secrets: 1 }] },
        failures: [{ code: 'fleet-secret-damaged' }],
      },
    ]);
  });

  test('one process changes the file at a time; a link stays one', async () => {
    const stored = path.join(place.folder, 'stored');
    writeFileSync(stored, readFileSync(place.keyFile), { mode: 0o640 });
    const link = path.join(place.folder, 'link');
    symlinkSync('stored', link);
    place.configure({ keyFile: 'link' });
    writeFileSync(`${stored}.new`, '');
    const busy = await place.run(['key', 'rotate', '--new', 'k2']);
    expect(busy).toMatchObject({
      code: 5,
      stderr: expect.stringContaining(`there is ${stored}.new. Nothing was changed.`),
    });
    place.configure({ keyFile: 'keys' });
    const both = await Promise.all(
      ['k2', 'k3'].map((name) => place.run(['key', 'rotate', '--new', name])),
    );
    const names = keyNames().filter((name) => name !== '');
    expect(names).toHaveLength(1 + both.filter(({ code }) => code === 0).length);
    place.configure({ keyFile: 'link' });
    writeFileSync(path.join(place.folder, 'other'), readFileSync(stored), { mode: 0o640 });
    symlinkSync('other', `${link}-2`);
    place.configure({ keyFile: 'link-2' });
    expect(await place.json(['key', 'rotate', '--new', 'k9'])).toMatchObject([{ key: 'k9' }]);
    expect(lstatSync(`${link}-2`).isSymbolicLink()).toBe(true);
    expect(statSync(path.join(place.folder, 'other')).mode & 0o777).toBe(0o640);
    place.configure({ keyFile: 'nowhere' });
    expect(await place.run(['key', 'rotate', '--new', 'k2'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('cannot be read from'),
    });
    expect(existsSync(path.join(place.folder, 'nowhere.new'))).toBe(false);
  });
});
