import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { csvField, footerText } from '../../src/cli/output.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, program, screen, syncedFrom, type Workplace } from './child.ts';
import { ran } from './surface.ts';

/** As an attacker would write them: formulas, quotes, ends of lines, what a terminal obeys. */
const SUBJECTS = [
  '=HYPERLINK("http://evil.example","ferry")',
  '+1+1 ferry',
  '-2 ferry',
  '@SUM(A1) ferry',
  'ferry, "quoted"; and more',
  'ferry\r\nid,mailbox\r\n',
  '\u001b]0;owned\u0007\u009b31mferry \u202egnp',
  ' =1+1 ferry',
  'Fähre ferry',
];

let sandbox: Sandbox;
let work: Workplace;

beforeAll(async () => {
  const messages = SUBJECTS.map((subject, i) =>
    [
      `Message-ID: <${i}@example.org>`,
      `Date: ${new Date(Date.UTC(2026, 1, i + 1, 10)).toUTCString()}`,
      'From: =?utf-8?B?PUNNRCgp?= <eve@example.org>',
      'To: ada@example.org',
      `Subject: =?utf-8?B?${Buffer.from(subject).toString('base64')}?=`,
      '',
      `The ferry of day ${i + 1}.`,
      '',
    ].join('\r\n'),
  );
  ({ sandbox, work } = await syncedFrom(messages));
});
afterAll(() => sandbox.close());

const on = (...args: string[]) => ran([...args, '--data', work.data]);

function field(line: unknown, name: string): unknown {
  return typeof line === 'object' && line !== null ? Reflect.get(line, name) : undefined;
}

/** CSV as RFC 4180 has it; anything else is an error. */
function parsed(csv: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  for (let at = 0; at < csv.length; ) {
    const [all = '', quoted, plain] =
      /^(?:"((?:[^"]|"")*)"|([^",\r\n]*))/.exec(csv.slice(at)) ?? [];
    row.push(quoted?.replaceAll('""', '"') ?? plain ?? '');
    at += all.length;
    const end = /^(?:,|\r\n)/.exec(csv.slice(at))?.[0];
    if (end === undefined) throw new Error(`no end of a field at ${at}: ${csv.slice(at, at + 20)}`);
    if (end !== ',') {
      rows.push(row);
      row = [];
    }
    at += end.length;
  }
  expect(row).toEqual([]);
  return rows;
}

describe('ids', () => {
  test('search prints the full id of everything that is found, unless it is limited', async () => {
    const json = jsonLines((await on('search', 'ferry', '--json', '-n', '100')).stdout);
    const all = json.map((line) => `${field(line, 'id')}\n`);
    expect(all).toHaveLength(SUBJECTS.length);
    expect((await on('search', 'ferry', '--format', 'ids')).stdout).toBe(all.join(''));
    expect((await on('search', 'ferry', '--format', 'ids', '-n2')).stdout).toBe(
      all.slice(0, 2).join(''),
    );
    const oldest = await on('search', 'ferry', '--format', 'ids', '--sort', 'oldest');
    expect(oldest.stdout).toBe(all.toReversed().join(''));
    const best = await on('search', 'ferry', '--sort', 'relevance', '--json', '-n', '4');
    const ranked = await on('search', 'ferry', '--sort', 'relevance', '--format', 'ids', '-n', '4');
    expect(ranked.stdout.trimEnd().split('\n')).toEqual(
      jsonLines(best.stdout).map((line) => field(line, 'id')),
    );
    expect(await on('search', 'in:Nope', '--format', 'ids')).toMatchObject({ code: 2, stdout: '' });
    expect(await on('search', 'xylophone', '--format', 'ids')).toMatchObject({
      code: 0,
      stdout: '',
    });
  });

  test('list prints the id of a message once, however many places it has', async () => {
    const { code, stdout } = await on('list', '--format', 'ids');
    const ids = stdout.trimEnd().split('\n');
    expect([code, ids.length, new Set(ids).size]).toEqual([0, SUBJECTS.length, SUBJECTS.length]);
  });

  test('an export takes ids from standard input and from a file, whole or shortened', async () => {
    const found = (await on('search', 'subject:ferry', '--format', 'ids', '-n', '3')).stdout;
    const to = mkdtempSync(path.join(tmpdir(), 'mailkeep-ids-'));
    const exported = (name: string, ids: string, input: string) =>
      ran(
        ['export', '--ids', ids, '--to', name, '--format', 'eml', '--json', '--data', work.data],
        { cwd: to, stdin: () => Readable.from([input]) },
      );
    const piped = await exported('piped', '-', found);
    expect(jsonLines(piped.stdout)).toMatchObject([{ places: 3, exported: 3 }]);
    const short = found.replace(/^(.{12}).*$/gm, '$1').replaceAll('\n', '\r\n\r\n');
    writeFileSync(path.join(to, 'ids'), short.trimEnd());
    const filed = await exported('filed', 'ids', '');
    expect(jsonLines(filed.stdout)).toMatchObject([{ places: 3, exported: 3 }]);
    const files = (name: string) =>
      readdirSync(path.join(to, name), { recursive: true }).filter((file) =>
        String(file).endsWith('.eml'),
      );
    expect(files('filed')).toEqual(files('piped'));
    const manifest = readFileSync(path.join(to, 'piped', 'mailkeep-export.json'), 'utf8');
    expect(manifest).toContain('"ids":3');
    // As a query that finds nothing exports nothing.
    expect(jsonLines((await exported('none', '-', '')).stdout)).toMatchObject([{ places: 0 }]);
    const wrong = await exported('wrong', '-', 'ffffffffffff\n');
    expect([wrong.code, JSON.parse(wrong.stderr).error.code]).toEqual([2, 'usage-unknown-message']);
    const missing = await exported('missing', 'nowhere', '');
    expect([missing.code, JSON.parse(missing.stderr).error]).toEqual([
      2,
      expect.objectContaining({
        code: 'usage-ids-unreadable',
        message: expect.stringContaining('nowhere'),
      }),
    ]);
    const both = await on('export', '--ids', '-', '--query', 'x', '--to', 'x', '--format', 'eml');
    expect(both.code).toBe(2);
  });

  test('the program ends after a wrong id, although its input stays open', async () => {
    const line = ['export', '--ids', '-', '--to', 'x', '--format', 'eml', '--data', work.data];
    const child = spawn(process.execPath, [program, ...line]);
    child.stdin.write('ffffffff\n');
    const [[code], stderr] = await Promise.all([once(child, 'close'), text(child.stderr)]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('begins with ffffffff')]);
  });
});

describe('CSV', () => {
  test('list and search print the fields of JSON, an object or list in columns of its own', async () => {
    const json = jsonLines((await on('list', '--json')).stdout);
    const [header = [], ...rows] = parsed((await on('list', '--format', 'csv')).stdout);
    expect(header).toEqual(
      'id mailbox folder uid flags size date fromName fromAddress subject messageId firstSeen endedAt'.split(
        ' ',
      ),
    );
    expect(rows.map(([id]) => id)).toEqual(json.map((line) => field(line, 'id')));
    expect(rows.map((row) => row[5])).toEqual(json.map((line) => String(field(line, 'size'))));
    expect(rows.map((row) => row[8])).toEqual(rows.map(() => 'eve@example.org'));
    const [searched = [], ...found] = parsed(
      (await on('search', 'ferry', '--format', 'csv')).stdout,
    );
    expect(searched).toEqual([...header, 'places', 'snippet']);
    expect(found.map((row) => row[0])).toEqual(rows.map(([id]) => id));
    const nothing = await on('search', 'xylophone', '--format', 'csv');
    expect(nothing.stdout).toBe(`${searched.join(',')}\r\n`);
  });

  test('nothing that mail says is a formula, another row or an order to a terminal', async () => {
    for (const line of [['list'], ['search', 'ferry']]) {
      const { code, stdout } = await on(...line, '--format', 'csv');
      expect(code).toBe(0);
      expect(stdout).not.toMatch(
        // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
        /[\u0000-\u0009\u000b-\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e]/,
      );
      const [header = [], ...rows] = parsed(stdout);
      expect(rows).toHaveLength(SUBJECTS.length);
      for (const row of rows) {
        expect(row).toHaveLength(header.length);
        for (const cell of row) expect(cell).not.toMatch(/^\s*[=+\-@]/);
      }
      const subjects = rows.map((row) => row[header.indexOf('subject')]);
      expect(subjects).toContain(`'=HYPERLINK("http://evil.example","ferry")`);
      expect(subjects).toContain('ferry, "quoted"; and more');
      expect(subjects).toContain('Fähre ferry');
    }
  });

  test('any text comes back from a field on one line, but for what is replaced', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (value) => {
        const [[field = '', ...more] = [], ...rows] = parsed(`${csvField(value)}\r\n`);
        expect([more, rows]).toEqual([[], []]);
        if (/^[\x20-\x7e]*$/.test(value))
          expect(field).toBe(/^ *[=+\-@]/.test(value) ? `'${value}` : value);
      }),
    );
  });

  test.each([['list'], ['search', 'ferry']])(
    '%s refuses a format together with JSON',
    async (...line) => {
      for (const format of ['ids', 'csv']) {
        const { code, stdout, stderr } = await on(...line, '--format', format, '--json');
        expect([code, stdout]).toEqual([2, '']);
        expect(stderr).toContain(`--format ${format} cannot be used with --json.`);
      }
      if (line.includes('search'))
        expect(await on(...line, '--format', 'csv', '--count')).toMatchObject({
          code: 2,
          stdout: '',
        });
      expect((await on(...line, '--format', 'cvs')).stderr).toContain('Did you mean csv?');
    },
  );
});

describe('a list by received dates', () => {
  const dates = async (...more: string[]) => {
    const { code, stdout, stderr } = await on('list', '--json', ...more);
    expect(code, stderr).toBe(0);
    return jsonLines(stdout).map((line) => String(field(line, 'date')).slice(0, 10));
  };
  const day = (n: number) => `2026-02-0${n}`;

  test('oldest first is the reverse of newest first', async () => {
    expect(await dates('--sort', 'oldest')).toEqual((await dates()).toReversed());
    expect(await dates('--sort', 'oldest', '-n', '2')).toEqual([day(1), day(2)]);
  });

  test('after takes the beginning of a date, before ends there', async () => {
    expect(await dates('--after', day(8))).toEqual([day(9), day(8)]);
    expect(await dates('--before', day(3))).toEqual([day(2), day(1)]);
    expect(await dates('--after', day(3), '--before', day(5), '--sort', 'oldest')).toEqual([
      day(3),
      day(4),
    ]);
    expect(await dates('--after', '2026', '--before', '2026-02')).toEqual([]);
    // The clock of `ran` stands at 2026-03-01.
    expect(await dates('--after', '21d')).toEqual([day(9), day(8)]);
    expect(await dates('--folder', 'inbox', '--before', '2026-02-02T00:00:00Z')).toEqual([day(1)]);
    const query = jsonLines(
      (await on('search', `after:${day(3)} before:${day(5)}`, '--json')).stdout,
    );
    expect(query).toHaveLength(2);
    const wrong = await on('list', '--before', '1/2/2026');
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('--before')]);
  });
});

describe('the line below a page', () => {
  /** What a command prints on standard error, on a terminal. */
  async function onTerminal(args: readonly string[], clock: () => number): Promise<string> {
    const { stream: stdout } = screen(100);
    const { stream: stderr, text } = screen(100);
    const given = { stdout, stderr, env: { NO_COLOR: '1' }, now: clock };
    expect((await ran([...args, '--data', work.data], given)).code).toBe(0);
    return text();
  }
  const still = () => Date.UTC(2026, 2, 1);

  test('says how many there are in all, and how to get more', async () => {
    expect(await onTerminal(['search', 'ferry', '-n', '2'], still)).toMatch(
      /^2 of 9 messages; more with -n, or with --page-after [0-9a-f]{8}\n$/,
    );
    expect(await onTerminal(['search', 'ferry -xylophone', '-n', '2'], still)).toMatch(/^2 of 9 /);
    expect(await onTerminal(['search', 'ferry', '-n', '2', '--sort', 'relevance'], still)).toBe(
      '2 of 9 messages; more with -n\n',
    );
    expect(await onTerminal(['search', 'ferry'], still)).toBe('9 messages\n');
    expect(await onTerminal(['search', 'ferry', '-n', '9'], still)).toBe('9 messages\n');
    expect(await onTerminal(['list', '-n', '2'], still)).toBe('2 of 9 places; more with -n\n');
    expect(await onTerminal(['list', '--quiet', '-n', '2'], still)).toBe('');
  });

  test('does not wait for a count that takes long', async () => {
    let now = still();
    const hurried = () => {
      now += 1_000;
      return now;
    };
    expect(await onTerminal(['list', '-n', '2'], hurried)).toMatch(
      /^2 of more than [3-9] places; more with -n\n$/,
    );
    expect(footerText(20, { count: 65_536, complete: false }, 'message', '-n')).toBe(
      '20 of more than 65,536 messages; more with -n',
    );
  });

  test('is for terminals only', async () => {
    expect((await on('search', 'ferry', '-n', '2')).stderr).toBe('');
    expect((await on('list', '-n', '2')).stderr).toBe('');
  });
});
