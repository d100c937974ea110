import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { recordDiskSample } from '../../src/catalog/disk-samples.ts';
import { openState, readState, type StateFile } from '../../src/core/state.ts';
import type { RequestReport } from '../../src/service/transport.ts';
import { RequestLog } from '../../src/sync/account-origins.ts';
import { temporaryDir } from '../catalog/history.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const START = Date.UTC(2026, 10, 22, 22);

let room: ReturnType<typeof temporaryDir>;
let state: StateFile;
beforeEach(() => {
  room = temporaryDir();
  state = openState(room.dir);
});
afterEach(() => {
  state.close();
  room.remove();
});

function report(status: number, more: Partial<RequestReport> = {}): RequestReport {
  const where = {
    operation: 'listMessages',
    key: '',
    surface: 'mailbox',
    host: 'mail.example',
  } as const;
  return { ...where, status, ms: 1, bytes: 1, ...more };
}

test('requests are counted by gate, hour and status, and added up over processes', () => {
  let now = START;
  const first = new RequestLog(state, 60, () => now);
  const second = new RequestLog(state, 90, () => now);
  first.note('main', report(200));
  first.note('main', report(200));
  first.note('main', report(429));
  first.note('main', report(200, { surface: 'platform', host: 'platform.example' }));
  now += HOUR;
  second.note('main', report(0));
  second.save();
  first.save();
  first.save();
  now += HOUR;
  second.note('main', report(200));
  second.save();
  expect(state.entries('requests')).toEqual([
    {
      key: '2026-11-22 mail.example main',
      value: {
        perMinute: 60,
        hours: [
          { hour: 22, status: 200, requests: 2 },
          { hour: 22, status: 429, requests: 1 },
          { hour: 23, status: 0, requests: 1 },
        ],
      },
    },
    {
      key: '2026-11-22 platform.example main platform',
      value: { perMinute: 60, hours: [{ hour: 22, status: 200, requests: 1 }] },
    },
    {
      key: '2026-11-23 mail.example main',
      value: { perMinute: 90, hours: [{ hour: 0, status: 200, requests: 1 }] },
    },
  ]);
});

test('requests are written once a minute, and forgotten after four hundred days', () => {
  let now = START;
  const log = new RequestLog(state, 60, () => now);
  log.note('main', report(200));
  expect(state.entries('requests')).toEqual([]);
  now += 60_000;
  log.note('main', report(200));
  expect(state.entries('requests')).toHaveLength(1);
  now += 400 * DAY;
  log.note('main', report(200));
  expect(state.entries('requests')).toHaveLength(2);
  now += 2 * DAY;
  log.note('main', report(200));
  const days = state.entries('requests').map(({ key }) => key.slice(0, 10));
  expect(days).toEqual(['2027-12-27', '2027-12-29']);
});

test('a state that cannot be written costs no request, and no count', () => {
  let now = START;
  const reading = readState(room.dir);
  if (reading === undefined) throw new Error('there is no state');
  let current: StateFile = reading;
  const log = new RequestLog(
    {
      get: (scope, key) => current.get(scope, key),
      entries: (scope) => current.entries(scope),
      set: (scope, key, value) => current.set(scope, key, value),
      together: (act) => current.together(act),
    },
    60,
    () => now,
  );
  log.note('main', report(200));
  now += HOUR;
  log.note('main', report(200));
  log.save();
  expect(state.entries('requests')).toEqual([]);
  current = state;
  log.save();
  const written = state.entries('requests').flatMap(({ value }) => value.hours);
  expect(written).toEqual([
    { hour: 22, status: 200, requests: 1 },
    { hour: 23, status: 200, requests: 1 },
  ]);
  reading.close();
});

const CATALOG = { totals: () => ({ messages: 2, bytes: 5_000, pending: 0, unparsed: 0 }) };

test('the disk is sampled once a day, the last time of a day counts, and nothing fails for want of it', () => {
  const archive = { catalog: CATALOG, dataDir: room.dir };
  recordDiskSample(state, archive, START);
  // Without a log there is nothing to measure.
  expect(state.entries('disk-sample')).toEqual([]);
  mkdirSync(path.join(room.dir, 'log'));
  writeFileSync(path.join(room.dir, 'log', '0000000001.1.seg'), Buffer.alloc(700));
  writeFileSync(path.join(room.dir, 'catalog.sqlite'), Buffer.alloc(300));
  recordDiskSample(state, archive, START);
  writeFileSync(path.join(room.dir, 'log', '0000000002.1.seg'), Buffer.alloc(100));
  recordDiskSample(state, archive, START + HOUR / 2);
  const at = (): unknown => state.entries('disk-sample').map(({ value }) => [value.at, value.log]);
  expect(at()).toEqual([[START, 700]]);
  recordDiskSample(state, archive, START + HOUR);
  expect(state.entries('disk-sample')).toEqual([
    { key: '2026-11-22', value: { at: START + HOUR, log: 800, catalog: 300, mail: 5_000 } },
  ]);
  recordDiskSample(state, archive, START + DAY);
  recordDiskSample(state, archive, START + 11 * 366 * DAY);
  expect(state.entries('disk-sample').map(({ key }) => key)).toEqual(['2037-11-30']);
  rmSync(path.join(room.dir, 'log'), { recursive: true });
  recordDiskSample(state, archive, START + 12 * 366 * DAY);
  expect(readFileSync(path.join(room.dir, 'catalog.sqlite'))).toHaveLength(300);
});
