import { cpSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { inflateSync } from 'node:zlib';
import Database from 'better-sqlite3';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { generationKey, openState, type StateFile, stateFile } from '../../src/core/state.ts';
import { storeMemory } from '../../src/fleet/memory.ts';
import type { StoredArchive } from '../../src/registry/reading.ts';
import { Positions } from '../archive/positions.ts';
import { fill, place, sampleMail } from '../archive/sample-log.ts';
import { done } from '../registry/servers/fleet.ts';
import { Fleet, Folders } from './servers/nodes.ts';
import { type Servers, startServers, withoutServers } from './servers/scene.ts';

const skipped = withoutServers();
const folders = new Folders();
const KEY = generationKey(place(1), 1);
const NOTHING_KNOWN = [undefined, undefined];

let servers: Servers;

beforeAll(async () => {
  if (!skipped) servers = await startServers();
});
afterAll(async () => {
  await servers?.stop();
});
afterEach(() => folders.remove());

/** Remembers that uids up to `hi` are stored, under which name of a search. */
function learn(state: StateFile, hi: number): void {
  state.set('coverage', KEY, [[1, hi]]);
  state.set('saved-search', 'name', `search-${hi}`);
}

function known(state: StateFile): unknown[] {
  return [state.get('coverage', KEY), state.get('saved-search', 'name')];
}

const learned = (hi: number) => [[[1, hi]], `search-${hi}`];

function learnIn(dir: string, hi: number): void {
  const state = openState(dir);
  learn(state, hi);
  state.close();
}

/** Commits on the disk alone, as a holder does whose server forgot what it had acknowledged. */
async function commitLocally(dir: string, count: number): Promise<void> {
  const catalog = await openCatalog(dir);
  const log = await openLogWriter({ dir, now: () => 1_770_000_000_001 });
  const positions = new Positions();
  for (let n = 1; n <= count; n += 1) {
    const batch = fill(log.newBatch(), [sampleMail(500 + n)], positions, 500 + n);
    catalog.foldBatch(await log.commit(batch));
  }
  await log.close();
  catalog.close();
}

/** A fleet, and a copy of the folder of its last holder. */
async function filled(): Promise<{ fleet: Fleet; dir: string }> {
  const fleet = await Fleet.make(servers);
  const { late } = await fleet.filled(folders.make(), folders.make);
  const dir = folders.make();
  cpSync(late, dir, { recursive: true });
  return { fleet, dir };
}

const without = (part: Partial<StoredArchive>) => part;

describe.skipIf(skipped)('PostgreSQL and RadosGW', () => {
  describe('the state', () => {
    test('comes from the holder before, without what is secret or of its machine', async () => {
      const fleet = await Fleet.make(servers);
      const first = await fleet.takenOver(folders.make());
      await fleet.write(first.writer, 2);
      const { state } = first.writer;
      learn(state, 6);
      state.set('api-token-key', 'key', 'zebrakey');
      state.set('web-session', 'ostrich', {
        createdAt: 1,
        usedAt: 1,
        agent: 'ferret',
        mailboxes: null,
      });
      state.set('copy-target', '/mnt/giraffe', { made: null });
      state.set('earlier-fetches', `${KEY}/1`, [{ at: 1, sha256: 'walrus' }]);
      state.set('delivery-log', 'main', []);
      done(await storeMemory(first.held, first.writer));
      await first.writer.close();

      const { memory } = await fleet.stored();
      const bytes = inflateSync(memory?.bytes ?? Buffer.alloc(0)).toString('latin1');
      expect(bytes).toContain('search-6');
      const secrets = ['zebrakey', 'ostrich', 'ferret', 'giraffe', 'walrus'];
      expect(secrets.filter((word) => bytes.includes(word))).toEqual([]);

      const second = await fleet.takenOver(folders.make());
      expect(known(second.writer.state)).toEqual(learned(6));
      expect(second.writer.state.get('api-token-key', 'key')).toBeUndefined();
      await fleet.expectWhole(second.held, second.writer);
    });

    test('stays where it is newer than what was saved, and goes where it is older', async () => {
      const fleet = await Fleet.make(servers);
      const [here, there] = [folders.make(), folders.make()];
      let { held, writer } = await fleet.takenOver(here);
      await fleet.write(writer, 1);
      learn(writer.state, 3);
      done(await storeMemory(held, writer));
      await fleet.write(writer, 1);
      learn(writer.state, 6);
      await writer.close();

      ({ held, writer } = await fleet.takenOver(here));
      expect(known(writer.state)).toEqual(learned(6));
      await writer.close();

      ({ held, writer } = await fleet.takenOver(there));
      expect(known(writer.state)).toEqual(learned(3));
      await fleet.write(writer, 1);
      learn(writer.state, 9);
      done(await storeMemory(held, writer));
      await writer.close();

      ({ held, writer } = await fleet.takenOver(here));
      expect(known(writer.state)).toEqual(learned(9));
      await fleet.expectWhole(held, writer);
    });

    test.each([
      ['was never saved', undefined, []],
      ['cannot be inflated', Buffer.from('no deflated bytes'), ['memory: memory-damaged']],
    ] as const)('that %s is learned again', async (_, bytes, unusable) => {
      const { fleet } = await filled();
      const held = await fleet.claimed();
      const memory = bytes === undefined ? undefined : { number: 1, bytes };
      const stored = { ...(await fleet.stored()), memory };
      const writer = await fleet.open(held, folders.make(), { stored });
      expect([known(writer.state), fleet.unusable]).toEqual([NOTHING_KNOWN, unusable]);
      await fleet.expectWhole(held, writer);
    });

    test('of commits that nobody accepted is not believed', async () => {
      const { fleet, dir } = await filled();
      await commitLocally(dir, 1);
      learnIn(dir, 501);
      const { held, writer } = await fleet.takenOver(dir);
      expect(known(writer.state)).toEqual(NOTHING_KNOWN);
      await fleet.expectWhole(held, writer);
    });

    test.each([
      ['whose number the registry has', 1, 1, []],
      ['that only the log shows', 2, 3, ['folder: log-diverged']],
      ['further than the head', 3, 1, []],
    ])(
      'and the catalog of another chain go, by a commit %s',
      async (_, lost, accepted, unusable) => {
        const { fleet, dir } = await filled();
        const other = await fleet.takenOver(folders.make());
        await fleet.write(other.writer, accepted);
        await fleet.chunk(other.held, 3);
        await other.writer.close();
        await commitLocally(dir, lost);
        learnIn(dir, 501);
        const { held, writer } = await fleet.takenOver(dir);
        expect(known(writer.state)).toEqual(NOTHING_KNOWN);
        expect(fleet.unusable).toEqual(unusable);
        await fleet.expectWhole(held, writer);
      },
    );

    test('goes with a catalog that cannot be opened: nobody knows which log it is of', async () => {
      const { fleet, dir } = await filled();
      learnIn(dir, 501);
      writeFileSync(path.join(dir, 'catalog.sqlite'), 'no database');
      const { held, writer } = await fleet.takenOver(dir);
      expect(known(writer.state)).toEqual(NOTHING_KNOWN);
      await fleet.expectWhole(held, writer);
    });

    test('is not put next to the log of an earlier one', async () => {
      const { fleet, dir } = await filled();
      const first = await fleet.takenOver(folders.make());
      learn(first.writer.state, 3);
      done(await storeMemory(first.held, first.writer));
      await first.writer.close();
      // A kill in the middle: the database is gone, its write-ahead log is not.
      const open = openState(dir);
      learn(open, 501);
      cpSync(`${stateFile(dir)}-wal`, path.join(dir, 'kept'));
      open.close();
      rmSync(stateFile(dir));
      cpSync(path.join(dir, 'kept'), `${stateFile(dir)}-wal`);
      rmSync(path.join(dir, 'kept'));
      const { held, writer } = await fleet.takenOver(dir);
      expect(known(writer.state)).toEqual(learned(3));
      await fleet.expectWhole(held, writer);
    });
  });

  describe('the catalog', () => {
    test('of a newer program goes', async () => {
      const { fleet, dir } = await filled();
      const database = new Database(path.join(dir, 'catalog.sqlite'));
      database.pragma('user_version = 99');
      database.close();
      const { held, writer } = await fleet.takenOver(dir);
      await fleet.expectWhole(held, writer);
    });

    test.each([
      ['is not there', () => without({ snapshot: undefined }), []],
      [
        'is of a newer program',
        ({ snapshot }: StoredArchive) =>
          without({ snapshot: snapshot && { ...snapshot, catalogVersion: 99 } }),
        [],
      ],
      [
        'is gone from the store',
        ({ snapshot }: StoredArchive) =>
          without({ snapshot: snapshot && { ...snapshot, key: 'x' } }),
        ['snapshot: object-missing'],
      ],
      [
        'has other bytes than were stored',
        ({ snapshot }: StoredArchive) =>
          without({ snapshot: snapshot && { ...snapshot, sha256: Buffer.alloc(32) } }),
        ['snapshot: object-damaged'],
      ],
      [
        'is of another commit',
        ({ snapshot }: StoredArchive) =>
          without({ snapshot: snapshot && { ...snapshot, hash: Buffer.alloc(32) } }),
        ['snapshot: log-diverged'],
      ],
    ] as const)('is made of the whole log where a snapshot %s', async (_, change, unusable) => {
      const { fleet } = await filled();
      const held = await fleet.claimed();
      const stored = await fleet.stored();
      const dir = folders.make();
      const writer = await fleet.open(held, dir, { stored: { ...stored, ...change(stored) } });
      expect(fleet.unusable).toEqual(unusable);
      expect(readdirSync(writer.spoolDir)).toEqual([]);
      await fleet.expectWhole(held, writer);
    });

    test('in the folder stays where the snapshot is further and cannot be used', async () => {
      const fleet = await Fleet.make(servers);
      const { early } = await fleet.filled(folders.make(), folders.make);
      const held = await fleet.claimed();
      const stored = await fleet.stored();
      const snapshot = stored.snapshot && { ...stored.snapshot, sha256: Buffer.alloc(32) };
      const writer = await fleet.open(held, early, { stored: { ...stored, snapshot } });
      expect(fleet.unusable).toEqual(['snapshot: object-damaged']);
      await fleet.expectWhole(held, writer);
    });

    test('does not go for damage that is not its own', async () => {
      const { fleet, dir } = await filled();
      rmSync(path.join(dir, 'log', '0000000003.1.seg'));
      const held = await fleet.claimed();
      const stored = await fleet.stored();
      const covers = stored.covers.map((cover) =>
        cover.segment === 3 ? { ...cover, sha256: Buffer.alloc(32) } : cover,
      );
      const opening = fleet.open(held, dir, { stored: { ...stored, covers } });
      await expect(opening).rejects.toMatchObject({ code: 'object-damaged' });
      expect([existsSync(path.join(dir, 'catalog.sqlite')), fleet.unusable]).toEqual([true, []]);
    });
  });
});
