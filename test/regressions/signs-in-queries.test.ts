import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { mailkeep } from '../cli/child.ts';
import { ran } from '../cli/surface.ts';

let data: string;

const LETTERS: readonly (readonly [subject: string, text: string])[] = [
  ['Summer ❤️ sandals ☀️ for you', 'Order by phone ☎️ or by plane ✈️.'],
  ['Step 1️⃣ invoice from Acme™ #️⃣', 'the voice of the invoice, 100 €'],
  ['Flags 🇩🇪🇫🇷 and 👩🏽‍🚀 families 👨‍👩‍👧‍👦', 'rent due'],
  ['*** SPAM *** hotel 5* in town', 'a+b usr/bin?query=what'],
];

beforeAll(async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-signs-'));
  data = path.join(folder, 'archive');
  const files = LETTERS.map(([subject, text], i) => {
    const file = path.join(folder, `${i}.eml`);
    const head = `Subject: ${subject}\r\nFrom: anna@example.org\r\nContent-Type: text/plain; charset=utf-8`;
    writeFileSync(file, `${head}\r\nContent-Transfer-Encoding: 8bit\r\n\r\n${text}\r\n`);
    return file;
  });
  const { code, stderr } = await mailkeep(['import', ...files, '--data', data]);
  expect(code, stderr).toBe(0);
});

const search = (query: string) => ran(['search', '--count', '--data', data, '--', query]);

async function count(query: string): Promise<number> {
  const { code, stdout, stderr } = await search(query);
  expect([code, stderr]).toEqual([0, '']);
  return Number(stdout);
}

describe('an emoji changes nothing', () => {
  const EMOJI = [
    ...['❤', '❤️', '❤︎', '☀️', '☎️', '✈️', '©️', '1️⃣', '1⃣', '#️⃣', '*️⃣', '👍🏽', '🇩🇪', '🏴󠁧󠁢󠁥󠁮󠁧󠁿'],
    // NFKC makes letters of these.
    ...['™️', 'ℹ️', 'Ⓜ️', '㊙️', '🈁', '🉐'],
    ...['👩🏽‍🚀', '👨‍👩‍👧‍👦', '\u{1f9d1}\u200d\u2764\ufe0f\u200d\u{1f9d1}'],
    // Marks, joiners and fillers without a letter.
    ...['\u0301', '\u20e3', '\ufe0f', '\u200d', '\u3164', '\u0640', '\u05b8', '\u064e'],
  ];

  test.each(EMOJI)('%s', async (emoji) => {
    expect(await count(`${emoji} sandals`)).toBe(1);
    expect(await count(`sandals ${emoji}${emoji} summer`)).toBe(1);
    expect(await count(`sandals -${emoji}`)).toBe(1);
    expect(await count(`(${emoji} OR sandals)`)).toBe(1);
    expect(await count(`{${emoji} sandals invoice}`)).toBe(2);
    expect(await count(`subject:${emoji} sandals`)).toBe(1);
    expect(await count(`subject:(sandals ${emoji})`)).toBe(1);
    expect(await search(emoji)).toMatchObject({ code: 2, stdout: '' });
  });

  test('a subject that is copied from the list is found', async () => {
    for (const [i, [subject]] of LETTERS.entries()) {
      if (i === 3) continue;
      expect(await count(`subject:"${subject}"`)).toBe(1);
      expect(await count(`"${subject}"`)).toBe(1);
      expect(await count(subject)).toBe(1);
    }
    expect(await count('1')).toBe(1);
  });
});

describe('a sign that would part words silently is refused', () => {
  test.each([
    ...[
      'inv*ce',
      '*voice',
      '*inv*',
      'i*e*',
      'in**e',
      '"inv*"',
      '"inv*ce"',
      '"*voice"',
      '"the inv* due"',
    ],
    ...['subject:*x', 'subject:*', 'from:*', 'subject:"inv*"', 'subject:inv*ce', '-inv*ce'],
    ...[
      '(a OR *voice)',
      'сч*т',
      '領*書',
      'list:new*',
      'flag:imp*',
      'id:3f2a*',
      'mime:im*',
      'mime:*/pdf',
    ],
  ])('a star: %s', async (query) => {
    const { code, stdout, stderr } = await search(query);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/A star is not supported in .*\n.*inv\*, "rent inv"\*/);
  });

  test.each(['inv?ce', '?nvoice', 'in??ice', 'subject:inv?ice', 'colou?r', 'inv?*'])(
    'a question mark: %s',
    async (query) => {
      const { code, stderr } = await search(query);
      expect(code).toBe(2);
      expect(stderr).toContain('is not a wildcard.');
    },
  );

  test.each(['/x/', '/inv.*ce/', '/inv[ao]ice/i', 'subject:/voice$/', '/^a\\/b/'])(
    'a regular expression: %s',
    async (query) => {
      const { code, stderr } = await search(query);
      expect(code).toBe(2);
      expect(stderr).toContain('Regular expressions such as');
    },
  );

  test('a bar without spaces, and fields that do not exist', async () => {
    expect((await search('rent|invoice')).stderr).toContain('Write rent | deposit');
    for (const [query, suggestion] of [
      ['form:anna', 'from:'],
      ['subjct:"x y"', 'subject:'],
      ['older-than:3d', 'older_than:'],
      ['list-id:news', 'list:'],
      ['reply-to:anna', 'from:'],
    ] as const) {
      const { code, stderr } = await search(query);
      expect(code).toBe(2);
      expect(stderr).toContain(`Did you mean ${suggestion}?`);
    }
  });

  test('what is supported still finds', async () => {
    for (const [query, hits] of [
      ['inv*', 1],
      ['"the inv"*', 1],
      ['subject:sand*', 1],
      ['*', 4],
      ['-*', 0],
      ['invoice?', 1],
      ['rent | invoice', 2],
      ['"SPAM hotel"', 1],
      ['"*** SPAM"', 1],
      ['"hotel 5* in town"', 1],
      ['usr/bin?query=what', 1],
      ['/usr/bin', 1],
      ['in:IN*', 4],
      ['mime:text/*', 0],
      ['from:<anna@example.org>', 4],
    ] as const)
      expect([query, await count(query)]).toEqual([query, hits]);
  });
});
