import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { DIMENSIONS } from '../../src/catalog/sums.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, syncedFrom, type Workplace } from './child.ts';
import { ran } from './surface.ts';

let sandbox: Sandbox;
let work: Workplace;

const row = z.looseObject({ key: z.string(), messages: z.number(), query: z.string().nullable() });

const WITH_PICTURE = [
  'Content-Type: multipart/mixed; boundary=b',
  ...['', '--b', '', 'ferry', '--b', 'Content-Type: image/png; name="a.png"', ''],
  ...['not a picture', '--b--'],
];

beforeAll(async () => {
  const messages = Array.from({ length: 12 }, (_, i) =>
    [
      `Message-ID: <${i % 10}@example.org>`,
      `Date: ${new Date(Date.UTC(2024, i, 1)).toUTCString()}`,
      `From: ${['Eve <eve@example.org>', '=HYPER <x.eve@example.org>'][i % 2]}`,
      'To: ada@example.org, "Bo (home)" <bo@example.net>',
      `Subject: Ferry ${i}`,
      ...(i % 3 === 0 ? WITH_PICTURE : ['', 'The ferry.']),
      '',
    ].join('\r\n'),
  );
  ({ sandbox, work } = await syncedFrom(messages));
});
afterAll(() => sandbox.close());

const on = (...args: string[]) => ran([...args, '--data', work.data]);
const asJson = async (...args: string[]) => {
  const { code, stdout, stderr } = await on('stats', ...args, '--json');
  expect(code, stderr).toBe(0);
  return jsonLines(stdout);
};

describe('stats', () => {
  test.each(DIMENSIONS)('by %s: each query counts its number', async (by) => {
    for (const within of [
      [],
      ['--query', 'ferry OR from:x.eve'],
      ['--query', 'asof:2099-01-01 -from:x.eve'],
    ]) {
      const lines = await asJson('--by', by, ...within);
      expect(lines.length).toBeGreaterThan(0);
      for (const line of lines) {
        const { messages, query } = row.parse(line);
        const found = await on('search', query ?? 'nothing', '--count', '--json');
        expect(JSON.parse(found.stdout), query ?? '').toEqual({ count: messages });
      }
    }
  });

  test('counts all in one line, or what a query finds', async () => {
    expect(await asJson()).toEqual([{ messages: 12, bytes: expect.any(Number), deleted: 0 }]);
    expect(await asJson('--query', 'has:attachment')).toMatchObject([{ messages: 4 }]);
    expect((await on('stats')).stdout).toMatch(
      /^12 messages, \S+ kB, 0 of them deleted at the service\.\n$/,
    );
    expect((await on('stats', '--format', 'csv')).stdout).toMatch(
      /^messages,bytes,deleted\r\n12,\d+,0\r\n$/,
    );
  });

  test('prints a table, and CSV that no spreadsheet obeys', async () => {
    const text = await on('stats', '--by', 'from');
    expect(text.stdout).toMatch(/^from +messages +last\n(x\.)?eve@example\.org +6 +20\d\d-/);
    const csv = await on('stats', '--largest', '-n', '3', '--format', 'csv');
    expect(csv.stdout.split('\r\n')[0]).toBe('bytes,id,date,from,subject');
    expect(csv.stdout.split('\r\n')).toHaveLength(5);
    const domains = await on('stats', '--by', 'domain', '--format', 'csv');
    expect(domains.stdout).toMatch(/^domain,messages,last\r\nexample\.org,12,/);
  });

  test('lists messages with one Message-ID, and as many lines as it is told', async () => {
    const lines = await asJson('--duplicates');
    expect(lines).toHaveLength(2);
    expect(lines).toContainEqual(
      expect.objectContaining({ messageId: '0@example.org', messages: 2 }),
    );
    expect(await asJson('--duplicates', '-n', '1')).toHaveLength(1);
    expect(await asJson('--by', 'month', '-n', '5')).toHaveLength(5);
  });

  test('says when there is nothing', async () => {
    const nothing = await on('stats', '--by', 'from', '--query', 'unheardof');
    expect(nothing).toMatchObject({ code: 0, stdout: '' });
    expect(nothing.stderr).toContain('Nothing found.');
  });

  test('refuses what it cannot do, and names that never were', async () => {
    expect((await on('stats', '--by', 'week')).code).toBe(2);
    expect((await on('stats', '--largest', '--by', 'year')).code).toBe(2);
    expect((await on('stats', '--json', '--format', 'csv')).code).toBe(2);
    const unknown = await on('stats', '--query', 'in:Nowhere');
    expect(unknown.code).toBe(2);
    expect(unknown.stderr).toContain('Nowhere');
  });
});
