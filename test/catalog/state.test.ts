import { closeSync, openSync, readdirSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openState, readState, stateFile } from '../../src/state/state-file.ts';
import { temporaryDir } from './history.ts';

describe('the state file', () => {
  let room: ReturnType<typeof temporaryDir>;
  beforeEach(() => {
    room = temporaryDir();
  });
  afterEach(() => room.remove());

  const asNumber = (value: unknown) => (typeof value === 'number' ? value : undefined);

  test('remembers JSON by scope and key across openings', () => {
    const state = openState(room.dir);
    state.set('limiter', 'a', { pace: 3 });
    state.set('limiter', 'b', 7);
    state.set('proof', 'a', [1, 2]);
    state.set('limiter', 'a', { pace: 4 });
    state.close();
    const again = openState(room.dir);
    expect(again.get('limiter', 'a')).toEqual({ pace: 4 });
    expect(again.get('limiter', 'c')).toBeUndefined();
    expect(again.read('limiter', 'b', asNumber)).toBe(7);
    expect(again.read('limiter', 'a', asNumber)).toBeUndefined();
    expect(again.entries('limiter')).toEqual([
      { key: 'a', value: { pace: 4 } },
      { key: 'b', value: 7 },
    ]);
    again.set('limiter', 'b', null);
    expect(again.get('limiter', 'b')).toBeUndefined();
    again.close();
  });

  test('a reader sees what the writer sets, and nothing where there is no state', () => {
    expect(readState(room.dir)).toBeUndefined();
    const writer = openState(room.dir);
    const reader = readState(room.dir);
    writer.set('proof', 'x', 1);
    expect(reader?.get('proof', 'x')).toBe(1);
    expect(() => reader?.set('proof', 'x', 2)).toThrow(/catalog-io .*SQLITE_READONLY/);
    reader?.close();
    writer.close();
  });

  test('deleting it forgets everything and hurts nothing', () => {
    const state = openState(room.dir);
    state.set('proof', 'x', 1);
    state.close();
    rmSync(stateFile(room.dir));
    const again = openState(room.dir);
    expect(again.get('proof', 'x')).toBeUndefined();
    again.close();
  });

  test('a file that is no database is moved aside and said', () => {
    for (const round of [1, 2]) {
      writeFileSync(stateFile(room.dir), 'no database at all, but long enough to be taken for one');
      const aside: string[] = [];
      const state = openState(room.dir, (file) => aside.push(file));
      expect(aside).toEqual([`${stateFile(room.dir)}.damaged-${round}`]);
      state.set('proof', 'x', round);
      expect(state.get('proof', 'x')).toBe(round);
      state.close();
    }
    expect(readdirSync(room.dir).filter((name) => name.includes('damaged'))).toHaveLength(2);
  });

  test('a page of nonsense inside is found on opening', () => {
    const state = openState(room.dir);
    for (let i = 0; i < 400; i += 1) state.set('proof', `key ${i}`, 'x'.repeat(100));
    state.close();
    const raw = new Database(stateFile(room.dir));
    raw.pragma('wal_checkpoint(TRUNCATE)');
    const page = raw
      .prepare<[], number>("SELECT max(pageno) FROM dbstat WHERE name = 'remembered'")
      .pluck();
    const number = page.get() ?? 2;
    raw.close();
    const file = stateFile(room.dir);
    const fd = openSync(file, 'r+');
    writeSync(fd, Buffer.alloc(4096, 0xee), 0, 4096, (number - 1) * 4096);
    closeSync(fd);
    const aside: string[] = [];
    const again = openState(room.dir, (moved) => aside.push(moved));
    expect(aside).toHaveLength(1);
    expect(again.entries('proof')).toEqual([]);
    again.close();
  });
});
