import { mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, syncedFrom, type Workplace } from './child.ts';

/** Escape sequences that set titles, clear screens and report back; C1 controls; bidi controls. */
const EVIL = '\u001b]0;owned\u0007\u001b[2J\u001b[6n\u009b31m\u202egnp.exe\u2066x\u2069\u200f';
/** What no terminal may get: all controls but line feed and tab, and what turns the direction of text. */
const STEERING = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

const base64 = (text: string) => Buffer.from(text).toString('base64');
const encoded = (text: string) => `=?utf-8?B?${base64(text)}?=`;

function source(word: string, headers: readonly string[], ...lines: string[]): Buffer {
  const known = [
    `Message-ID: <${word}@evil.example>`,
    'Date: Mon, 02 Feb 2026 10:00:00 +0000',
    'To: ada@example.org',
    'MIME-Version: 1.0',
  ];
  return Buffer.from([...known, ...headers, '', ...lines, ''].join('\r\n'));
}

const part = (headers: readonly string[], body: string) => ['--cut', ...headers, '', body];
const named = (parameter: string, body: string) =>
  part(
    [
      `Content-Type: application/octet-stream`,
      `Content-Disposition: attachment; ${parameter}`,
      'Content-Transfer-Encoding: base64',
    ],
    base64(body),
  );
const extended = (name: string) => `filename*=utf-8''${encodeURIComponent(name)}`;
const CUT = 'Content-Type: multipart/mixed; boundary=cut';

function headersOf(length: number): string[] {
  return [
    `From: ${'Eve '.repeat(length / 4)}<eve@evil.example>`,
    `Subject: ${'long '.repeat(length / 5)}`,
    `X-Line: ${'x'.repeat(length)}`,
    ...Array.from({ length: 3_000 }, (_, i) => `X-Many-${i}: ${i}`),
    `References: ${'<a@b.example> '.repeat(length / 14)}`,
  ];
}

/** One message a danger, whose name is its word and its Message-ID. */
const SOURCES = {
  steering: source(
    'steering',
    [`From: ${encoded(`Eve ${EVIL}`)} <eve@evil.example>`, `Subject: ${encoded(`s ${EVIL}`)}`, CUT],
    ...part(
      ['Content-Type: text/plain; charset=utf-8', 'Content-Transfer-Encoding: base64'],
      base64(`the word steering and ${EVIL} around it`),
    ),
    ...named(extended(`note ${EVIL}.txt`), 'one'),
    '--cut--',
  ),
  enormous: source(
    'enormous',
    [...headersOf(40_000), CUT],
    ...part(['Content-Type: text/plain'], 'the word enormous'),
    ...named(`filename="${'name'.repeat(20_000)}.txt"`, 'one'),
    '--cut--',
  ),
  /** Beyond the ceiling on header blocks: kept, found by its id, and not looked into. */
  endless: source(
    'endless',
    [...headersOf(400_000), CUT],
    ...part(['Content-Type: text/plain'], 'the word endless'),
    '--cut--',
  ),
  scripted: source(
    'scripted',
    ['From: eve@evil.example', 'Subject: page', CUT],
    ...part(
      ['Content-Type: text/html; charset=utf-8'],
      [
        '<html><head><title>t</title><base href="https://tracker.example/">',
        '<meta http-equiv="refresh" content="0;url=https://tracker.example/refresh">',
        '<link rel="stylesheet" href="https://tracker.example/style.css">',
        '<style>@import "https://tracker.example/i.css"; p { background: url(https://tracker.example/b) }</style>',
        '<script>steal()</script></head>',
        '<body onload="steal()" background="https://tracker.example/bg.png"><p onclick="steal()">the word scripted</p>',
        '<img src="https://tracker.example/pixel.png" srcset="https://tracker.example/2x.png 2x">',
        '<img src=x onerror=steal()><svg onload=steal()><script>steal()</script></svg>',
        '<p style="background:url(https://tracker.example/css)">styled</p>',
        '<iframe src="https://tracker.example/frame" srcdoc="<script>steal()</script>"></iframe>',
        '<object data="https://tracker.example/o"></object><embed src="https://tracker.example/e">',
        '<video src="https://tracker.example/v" poster="https://tracker.example/p"></video>',
        '<form action="https://tracker.example/form"><input name=a><button>send</button></form>',
        '<a href="javascript:steal()">click</a><a href="data:text/html,<script>steal()</script>">d</a>',
        '</body></html>',
      ].join('\r\n'),
    ),
    '--cut--',
  ),
  pathed: source(
    'pathed',
    ['From: eve@evil.example', 'Subject: paths', CUT],
    ...part(['Content-Type: text/plain'], 'the word pathed'),
    ...named('filename="/etc/passwd"', '1'),
    ...named('filename="..\\\\..\\\\windows.ini"', '2'),
    ...named(extended('../../up\0.sh'), '3'),
    ...named(extended('\0'), '4'),
    ...named(extended('..'), '5'),
    ...named('filename="-rf"', '6'),
    ...named(extended('.profile'), '7'),
    '--cut--',
  ),
} as const;
type Danger = keyof typeof SOURCES;
const DANGERS = Object.keys(SOURCES) as Danger[];

let sandbox: Sandbox;
let work: Workplace;
const ids = new Map<Danger, string>();

beforeAll(async () => {
  ({ sandbox, work } = await syncedFrom(Object.values(SOURCES)));
  for (const danger of DANGERS) {
    const { stdout } = await asked('search', `id:${danger}@evil.example`, '--json');
    const [line] = jsonLines(stdout);
    ids.set(danger, String(Object(line).id));
  }
});
afterAll(() => sandbox.close());

const asked = (...args: string[]) => mailkeep([...args, '--data', work.data]);
const idOf = (danger: Danger) => ids.get(danger) ?? '';

/** What cannot be read through is said to be so. */
const codeOf = (danger: Danger) => (danger === 'endless' ? 1 : 0);

describe.each(DANGERS)('%s mail', (danger) => {
  test.each<[string, () => string[]]>([
    ['search', () => ['search', `id:${danger}@evil.example`]],
    ['search for a word', () => ['search', `${danger} OR evil`]],
    ['show', () => ['show', idOf(danger)]],
    ['show --headers', () => ['show', idOf(danger), '--headers']],
    ['attachments', () => ['attachments', idOf(danger)]],
    ['list', () => ['list']],
  ])('does nothing to a terminal in %s', async (_, args) => {
    const { code, stdout, stderr } = await asked(...args());
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout.replaceAll(/[\n\t]/g, '')).not.toMatch(STEERING);
  });

  test('stays in its folder under harmless names with attachments --save', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-saved-'));
    const target = path.join(folder, 'deep', 'inside');
    mkdirSync(target, { recursive: true });
    const { code, stdout } = await asked('attachments', idOf(danger), '--save', target, '--json');
    expect(code).toBe(codeOf(danger));
    const files = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name, parentPath }) => [parentPath, name] as const);
    expect(files).toHaveLength(jsonLines(stdout).length);
    for (const [parent, name] of files) {
      expect(parent).toBe(target);
      expect(name).not.toMatch(/[/\\\p{C}]|^[.-]/u);
      expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255);
    }
  });

  test('makes a page without effects with --html', async () => {
    const { code, stdout, stderr } = await asked('show', idOf(danger), '--html');
    expect(code).toBe(codeOf(danger));
    expect((stdout + stderr).replaceAll(/[\n\t\r]/g, '')).not.toMatch(STEERING);
    if (danger !== 'scripted') return expect(stdout).toBe('');
    expect(stdout).toContain('the word scripted');
    expect(stdout).toContain("default-src 'none'");
    expect(stdout).not.toMatch(/steal|tracker\.example|javascript:/);
    expect(stdout).not.toMatch(/<(?:script|iframe|object|embed|form|base|link|svg|video)\b/i);
    expect(stdout).not.toMatch(/\son\w+\s*=|http-equiv="?refresh/i);
  });

  test('comes back byte for byte with --raw', async () => {
    const { bytes } = await asked('show', idOf(danger), '--raw');
    expect(bytes.equals(SOURCES[danger])).toBe(true);
  });
});

test('of enormous headers a search shows a line, and one of the text', async () => {
  const { stdout } = await asked('search', 'body:enormous');
  expect(stdout.trimEnd().split('\n')).toHaveLength(2);
});

test('all attachments with odd paths are saved, each with its content', async () => {
  const target = mkdtempSync(path.join(tmpdir(), 'mailkeep-saved-'));
  await asked('attachments', idOf('pathed'), '--save', target);
  const contents = readdirSync(target).map((name) =>
    readFileSync(path.join(target, name), 'utf8').trim(),
  );
  expect(contents.sort()).toEqual(['1', '2', '3', '4', '5', '6', '7']);
});

test('show prints of a page what can be read, and fetches nothing', async () => {
  const { stdout } = await asked('show', idOf('scripted'));
  expect(stdout).toContain('the word scripted');
  expect(stdout).not.toMatch(/steal|<script/);
});
