import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { UploadingStore } from '../../src/copies/object-store.ts';
import { checkArchive } from '../../src/fleet/check.ts';
import { signal } from '../objects/store-contract.ts';
import { Fleet, Folders } from './servers/nodes.ts';
import { type Servers, startServers, withoutServers } from './servers/scene.ts';

const skipped = withoutServers();
const folders = new Folders();
let servers: Servers;

beforeAll(async () => {
  if (!skipped) servers = await startServers();
}, 120_000);
afterAll(() => servers?.stop());
afterEach(() => folders.remove());

/** What is found of an archive, and how many objects it has. */
async function check({ registry, objects, archive }: Fleet, isReading = false) {
  const found = await checkArchive({ registry, objects, isReading, signal }, archive);
  if (found === undefined) throw new Error('there is no such archive');
  return { ...found, codes: found.problems.map(({ code }) => code) };
}

async function put(objects: UploadingStore, name: string, bytes: Buffer): Promise<void> {
  async function* pieces() {
    yield bytes;
  }
  await objects.put(name, bytes.length, pieces(), { signal });
}

describe.skipIf(skipped)('a check', () => {
  test('finds nothing in an archive with a sealed segment, chunks, a tail and a snapshot', async () => {
    const fleet = await Fleet.make(servers);
    await fleet.filled(folders.make(), folders.make);
    const { commits } = fleet;
    for (const isReading of [false, true]) {
      const found = await check(fleet, isReading);
      expect(found).toMatchObject({ commits: commits.length, problems: [] });
      expect([found.tail > 2, found.objects > 3]).toEqual([true, true]);
      expect(found.bytesRead > 1_000).toBe(isReading);
    }
    const none = { ...fleet, registry: fleet.registry, objects: fleet.objects, isReading: false };
    expect(await checkArchive({ ...none, signal }, 4711)).toBeUndefined();
  });

  test('finds an object that is missing, and one that is another', async () => {
    const fleet = await Fleet.make(servers);
    await fleet.filled(folders.make(), folders.make);
    const { objects } = fleet;
    const [first = '', second = ''] = [...(await fleet.objectsThere()).keys()];
    const bytes = (await fleet.objectsThere()).get(second) ?? Buffer.alloc(0);
    await objects.delete(first, signal);
    expect((await check(fleet)).codes).toEqual(['object-missing']);
    bytes.writeUInt8(bytes.readUInt8(20) ^ 1, 20);
    await put(objects, second, bytes);
    expect((await check(fleet)).codes).toEqual(['object-missing']);
    expect((await check(fleet, true)).codes.toSorted()).toEqual([
      'object-damaged',
      'object-missing',
    ]);
    await put(objects, second, bytes.subarray(1));
    expect((await check(fleet)).codes.toSorted()).toEqual(['object-damaged', 'object-missing']);
  });

  test('finds a commit that is missing, and one whose bytes are others', async () => {
    const fleet = await Fleet.make(servers);
    await fleet.filled(folders.make(), folders.make);
    const { registry, archive } = fleet;
    const last = sql`(SELECT max(number) FROM tail WHERE archive = ${archive})`;
    await registry.statement(
      'test',
      sql`UPDATE tail SET bytes = (SELECT bytes FROM tail WHERE archive = ${archive} AND number = ${last} - 1),
          raw_bytes = (SELECT raw_bytes FROM tail WHERE archive = ${archive} AND number = ${last} - 1)
        WHERE archive = ${archive} AND number = ${last}`,
    );
    expect((await check(fleet)).codes).toEqual(['log-damaged']);
    await registry.statement(
      'test',
      sql`DELETE FROM tail WHERE archive = ${archive} AND number = ${last} - 1`,
    );
    expect((await check(fleet)).codes).toEqual(['manifest-damaged']);
  });
});
