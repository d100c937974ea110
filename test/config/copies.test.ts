import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/core/config.ts';
import { hasCode } from '../../src/core/errors.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-config-'));

function load(copies: unknown) {
  const file = path.join(folder, 'config.json');
  const account = { name: 'main', baseUrl: 'https://mail.example', token: 'hush-hush-1' };
  writeFileSync(file, JSON.stringify({ accounts: [account], copies }), { mode: 0o600 });
  return loadConfig(file).settings.copies;
}

/** Path, found and expected of each problem. */
function problems(copies: unknown): unknown {
  try {
    return load(copies);
  } catch (error) {
    if (!hasCode(error, 'config-invalid')) throw error;
    const { paths, found, expected } = error.facts as Record<string, readonly string[]>;
    return (paths ?? []).map((at, i) => `${at}: ${found?.[i]} / ${expected?.[i]}`);
  }
}

test('copies have the address that the command line gives them, and when they are made', () => {
  expect(load(undefined)).toEqual([]);
  expect(
    load([
      {
        to: 'S3://bucket/mail/',
        every: '6h',
        lockDays: 90,
        limitRate: '2M/s',
        verify: { sample: '1.5%' },
      },
      { to: '../disk', schedule: '0 3 * * *', keep: 7, verify: { sample: 3, full: '30d' } },
      { to: '/media/disk', every: '1m', encrypt: true, verify: { full: '0 5 1 * *' } },
    ]),
  ).toEqual([
    {
      ...{ to: 's3://bucket/mail', rhythm: { everyMs: 6 * 3_600_000 }, encrypt: false, keep: 1 },
      ...{ lockDays: 90, limitRate: '2M/s', sample: '1.5%', full: null },
    },
    {
      ...{
        to: path.join(folder, '../disk'),
        rhythm: { cron: '0 3 * * *' },
        encrypt: false,
        keep: 7,
      },
      ...{ lockDays: null, limitRate: null, sample: '3', full: { everyMs: 30 * 86_400_000 } },
    },
    {
      ...{ to: '/media/disk', rhythm: { everyMs: 60_000 }, encrypt: true, keep: 1 },
      ...{ lockDays: null, limitRate: null, sample: null, full: { cron: '0 5 1 * *' } },
    },
  ]);
});

test('a wrong field is named with what was found and what belongs there', () => {
  expect(
    problems([
      { to: 's3://b', every: '59s', keep: 0, lockDays: 36501, limitRate: '0', secret: true },
      { to: '', schedule: '@daily', verify: { sample: '0%', full: 'monthly' } },
      { to: '/a', every: '1h', limitRate: 5, verify: { sample: 1.5, full: '30s' } },
    ]),
  ).toEqual([
    'copies[0].to: "s3://b" / "s3://BUCKET/PREFIX", or the path of a folder',
    'copies[0].every: "59s" / a duration of at least 1m, such as 15m, 6h or 7d',
    'copies[0].keep: 0 / a whole number from 1 to 10000',
    'copies[0].lockDays: 36501 / a whole number from 1 to 36500, or null',
    'copies[0].limitRate: "0" / a number of bytes a second such as "500k" or "2M", or null',
    'copies[0].secret:  / to, every, schedule, encrypt, keep, lockDays, limitRate, verify',
    'copies[1].to: an empty text / "s3://BUCKET/PREFIX", or the path of a folder',
    'copies[1].schedule: "@daily" / a cron expression of 5 fields, or 6 with seconds',
    'copies[1].verify.sample: "0%" / a whole number from 1 to 1000000, a share such as "1%", or null',
    'copies[1].verify.full: "monthly" / a duration of at least 1m, such as 15m, 6h or 7d, a cron expression, or null',
    'copies[2].limitRate: 5 / a number of bytes a second such as "500k" or "2M", or null',
    'copies[2].verify.sample: 1.5 / a whole number from 1 to 1000000, a share such as "1%", or null',
    'copies[2].verify.full: "30s" / a duration of at least 1m, such as 15m, 6h or 7d, a cron expression, or null',
  ]);
});

test('a copy needs one time, a place of its own, and a bucket to be locked', () => {
  expect(
    problems([
      { to: 's3://bucket/mail' },
      { to: 's3://bucket/mail/', every: '1h', schedule: '0 3 * * *' },
      { to: './disk', every: '1h' },
      { to: 'disk/', every: '2h', lockDays: 30 },
    ]),
  ).toEqual([
    'copies[0]: neither every nor schedule / when to copy: "every": "1h", or a cron expression in "schedule"',
    'copies[1].schedule: both every and schedule / one of them',
    'copies[1].to: the same place / another place than copies[0].to',
    'copies[3].lockDays: a lock in a folder / null: only buckets lock',
    'copies[3].to: the same place / another place than copies[2].to',
  ]);
});

test('credentials in an address are never shown', () => {
  expect(JSON.stringify(problems([{ to: 's3://user:hush@bucket', every: '1h' }]))).not.toContain(
    'hush',
  );
});
