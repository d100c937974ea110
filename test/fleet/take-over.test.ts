import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { segmentPath } from '../../src/archive/format.ts';
import type { UploadingStore } from '../../src/copies/object-store.ts';
import { openState } from '../../src/core/state.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { GrownArchive } from '../verify/grown-archive.ts';
import { Fleet, Folders, segmentsIn } from './servers/nodes.ts';
import { type Servers, startServers, withoutServers } from './servers/scene.ts';

const skipped = withoutServers();
const folders = new Folders();

let servers: Servers;

beforeAll(async () => {
  if (!skipped) servers = await startServers();
});
afterAll(async () => {
  await servers?.stop();
});
afterEach(() => folders.remove());

/** The hot segment of a folder. */
function hotOf(dir: string): string {
  return segmentPath(dir, { segment: 3, generation: 1 });
}

describe.skipIf(skipped)('PostgreSQL and RadosGW', () => {
  test('an archive without commits is opened, and what is committed is there for the next holder', async () => {
    const fleet = await Fleet.make(servers);
    const first = await fleet.takenOver(folders.make());
    await fleet.write(first.writer, 2);
    await first.writer.close();
    const second = await fleet.takenOver(folders.make());
    await fleet.expectWhole(second.held, second.writer);
  });

  test.each([
    ['is empty', () => undefined],
    [
      'is that of an earlier holder',
      (dir: string, { early }: { early: string }) => cpSync(early, dir, { recursive: true }),
    ],
    [
      'is complete',
      (dir: string, { late }: { late: string }) => cpSync(late, dir, { recursive: true }),
    ],
    [
      'has bytes that nobody accepted',
      (dir: string, { late }: { late: string }) => {
        cpSync(late, dir, { recursive: true });
        writeFileSync(hotOf(dir), 'more', { flag: 'a' });
      },
    ],
    [
      'has a segment that was not begun',
      (dir: string, { late, early }: { late: string; early: string }) => {
        cpSync(late, dir, { recursive: true });
        const stray = segmentPath(early, { segment: 1, generation: 1 });
        cpSync(stray, segmentPath(dir, { segment: 4, generation: 1 }));
      },
    ],
    [
      'has the first generation of what was sealed',
      (dir: string, { late, early }: { late: string; early: string }) => {
        cpSync(late, dir, { recursive: true });
        const file = { segment: 1, generation: 1 };
        cpSync(segmentPath(early, file), segmentPath(dir, file));
        rmSync(segmentPath(dir, { segment: 1, generation: 2 }));
      },
    ],
    [
      'has damage in the hot segment',
      (dir: string, { late }: { late: string }) => {
        cpSync(late, dir, { recursive: true });
        const bytes = readFileSync(hotOf(dir));
        bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
        writeFileSync(hotOf(dir), bytes);
      },
    ],
    [
      'has a catalog that is none',
      (dir: string, { late }: { late: string }) => {
        cpSync(late, dir, { recursive: true });
        writeFileSync(path.join(dir, 'catalog.sqlite'), 'no database');
      },
    ],
    [
      'has half of a snapshot',
      (dir: string, { late }: { late: string }) => {
        cpSync(late, dir, { recursive: true });
        rmSync(path.join(dir, 'catalog.sqlite'));
        writeFileSync(path.join(dir, 'tmp', 'catalog.fetched'), 'half');
      },
    ],
  ] as const)('a folder that %s becomes a copy', async (_, prepare) => {
    const fleet = await Fleet.make(servers);
    const copies = await fleet.filled(folders.make(), folders.make);
    const dir = folders.make();
    prepare(dir, copies);
    const { held, writer } = await fleet.takenOver(dir);
    expect(existsSync(segmentPath(dir, { segment: 1, generation: 1 }))).toBe(false);
    await writer.segments.fetch([1]);
    expect(segmentsIn(dir)).toEqual(segmentsIn(copies.late));
    await fleet.expectWhole(held, writer);
    expect(readdirSync(dir).filter((name) => /fetched|snapshot/.test(name))).toEqual([]);
    expect(readdirSync(path.join(dir, 'tmp'))).toEqual([]);
  });

  test('a catalog of commits that nobody accepted goes, and the snapshot takes its place', async () => {
    const fleet = await Fleet.make(servers);
    const { late } = await fleet.filled(folders.make(), folders.make);
    const other = await Fleet.make(servers);
    const dir = folders.make();
    await other.filled(dir, folders.make);
    // Another history of as many commits: its catalog is of another chain.
    const mine = folders.make();
    cpSync(late, mine, { recursive: true });
    for (const name of readdirSync(mine).filter((one) => one.startsWith('catalog.sqlite')))
      rmSync(path.join(mine, name));
    const further = await other.takenOver(dir);
    await other.write(further.writer, 1);
    await further.writer.close();
    cpSync(path.join(dir, 'catalog.sqlite'), path.join(mine, 'catalog.sqlite'));
    const { held, writer } = await fleet.takenOver(mine);
    await fleet.expectWhole(held, writer);
  });

  test('wherever a takeover is cut off, the next one succeeds', async () => {
    const fleet = await Fleet.make(servers);
    const { early } = await fleet.filled(folders.make(), folders.make);
    const dir = folders.make();
    cpSync(early, dir, { recursive: true });
    for (let pieces = 0; ; pieces += 1) {
      let left = pieces;
      const objects = new Proxy(fleet.objects, {
        get(store, name) {
          if (name !== 'get')
            return Reflect.get(store, name).bind?.(store) ?? Reflect.get(store, name);
          return async function* (...asked: Parameters<UploadingStore['get']>) {
            for await (const piece of store.get(...asked)) {
              if (left === 0) throw new Error('cut off');
              left -= 1;
              yield piece;
            }
          };
        },
      });
      const held = await fleet.claimed();
      try {
        const writer = await fleet.open(held, dir, { objects });
        await writer.close();
        expect(pieces).toBeGreaterThan(2);
        break;
      } catch (error) {
        expect(error).toMatchObject({ message: 'cut off' });
      }
    }
    const { held, writer } = await fleet.takenOver(dir);
    await fleet.expectWhole(held, writer);
  });

  test('a file under the name of one that another holder published is gone before anything is fetched', async () => {
    const fleet = await Fleet.make(servers);
    const { late } = await fleet.filled(folders.make(), folders.make);
    const dir = folders.make();
    cpSync(late, dir, { recursive: true });
    const file = segmentPath(dir, { segment: 1, generation: 2 });
    writeFileSync(file, 'more', { flag: 'a' });
    const { held, writer } = await fleet.takenOver(dir);
    expect([existsSync(file), writer.segments.present(1)]).toEqual([false, false]);
    await fleet.expectWhole(held, writer);
  });

  test('the folder of another archive is left as it is', async () => {
    const fleet = await Fleet.make(servers);
    await fleet.filled(folders.make(), folders.make);
    const grown = new GrownArchive(folders.make());
    mkdirSync(grown.dir);
    await grown.grow([sampleMail(1)], true);
    openState(grown.dir).close();
    const before = [readdirSync(grown.dir).toSorted(), segmentsIn(grown.dir)];
    await expect(fleet.takenOver(grown.dir)).rejects.toMatchObject({
      ...{ code: 'log-damaged', facts: { reason: 'diverged' } },
    });
    const names = readdirSync(grown.dir).filter((name) => !name.startsWith('lock'));
    expect([names.toSorted(), segmentsIn(grown.dir)]).toEqual(before);
  });

  test('whoever lost the archive opens nothing', async () => {
    const fleet = await Fleet.make(servers);
    await fleet.filled(folders.make(), folders.make);
    const late = await fleet.claimed();
    await fleet.claimed();
    const dir = folders.make();
    await expect(fleet.open(late, dir)).rejects.toMatchObject({ code: 'log-fenced' });
    expect([late.lostBy, existsSync(dir)]).toEqual(['lease', false]);
  });
});
