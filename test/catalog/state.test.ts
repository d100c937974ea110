import { closeSync, openSync, readdirSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openState, readState, stateFile } from '../../src/core/state.ts';
import { temporaryDir } from './history.ts';

describe('the state file', () => {
  let room: ReturnType<typeof temporaryDir>;
  beforeEach(() => {
    room = temporaryDir();
  });
  afterEach(() => room.remove());

  test('remembers JSON by scope and key across openings', () => {
    const state = openState(room.dir);
    state.set('held', 'a', { since: 3 });
    state.set('held', 'b', { since: 7 });
    state.set('held', 'odd', 7);
    state.set('unlisted', 'a', [1, 2]);
    state.set('held', 'a', { since: 4 });
    state.close();
    const again = openState(room.dir);
    expect(again.get('held', 'a')).toEqual({ since: 4 });
    expect(again.get('held', 'c')).toBeUndefined();
    expect(again.get('held', 'b')).toEqual({ since: 7 });
    expect(again.get('held', 'odd')).toBeUndefined();
    expect(again.entries('held')).toEqual([
      { key: 'a', value: { since: 4 } },
      { key: 'b', value: { since: 7 } },
    ]);
    again.set('held', 'b', null);
    expect(again.get('held', 'b')).toBeUndefined();
    again.close();
  });

  test('a reader sees what the writer sets, and nothing where there is no state', () => {
    expect(readState(room.dir)).toBeUndefined();
    const writer = openState(room.dir);
    const reader = readState(room.dir);
    writer.set('schedule', 'x', 1);
    expect(reader?.get('schedule', 'x')).toBe(1);
    expect(() => reader?.set('schedule', 'x', 2)).toThrow(/catalog-io .*SQLITE_READONLY/);
    reader?.close();
    writer.close();
  });

  test('deleting it forgets everything and hurts nothing', () => {
    const state = openState(room.dir);
    state.set('schedule', 'x', 1);
    state.close();
    rmSync(stateFile(room.dir));
    const again = openState(room.dir);
    expect(again.get('schedule', 'x')).toBeUndefined();
    again.close();
  });

  test('a file that is no database is moved aside and said', () => {
    for (const round of [1, 2]) {
      writeFileSync(stateFile(room.dir), 'no database at all, but long enough to be taken for one');
      const aside: string[] = [];
      const state = openState(room.dir, (file) => aside.push(file));
      expect(aside).toEqual([`${stateFile(room.dir)}.damaged-${round}`]);
      state.set('schedule', 'x', round);
      expect(state.get('schedule', 'x')).toBe(round);
      state.close();
    }
    expect(readdirSync(room.dir).filter((name) => name.includes('damaged'))).toHaveLength(2);
  });

  test('a page of nonsense inside is found on opening', () => {
    const state = openState(room.dir);
    for (let i = 0; i < 400; i += 1) state.set('saved-search', `key ${i}`, 'x'.repeat(100));
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
    expect(again.entries('saved-search')).toEqual([]);
    again.close();
  });
});
