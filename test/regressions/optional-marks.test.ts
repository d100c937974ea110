import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { mailkeep } from '../cli/child.ts';
import { ran } from '../cli/surface.ts';

let data: string;

/** Each text stands in a message alone, as its subject and its body. */
const TEXTS = {
  vowels: 'قَرَأْتُ كِتَابًا فِي الْمَدْرَسَةِ',
  bare: 'القهوة العربية',
  superscript: 'هٰذا الرحمٰن',
  kashida: 'السـلام عليـــكم',
  forms: '\ufee3\ufeae\ufea3\ufe92\ufe8e \ufe71\ufe8d\ufefb\ufee5',
  hamza: 'أحمد إبراهيم آمال',
  persian: 'کیف یکتا',
  niqqud: 'יְרוּשָׁלַיִם',
  cantillation: 'בְּרֵאשִׁ֖ית בָּרָ֣א',
  hebrewForms: '\ufb2aמש \ufb31\ufb35ית',
  gershayim: 'מנכ״ל החברה',
  quote: 'דו"ח שנתי על ב"הארץ"',
  geresh: "צ׳כיה ג'ירפה",
  syriac: 'ܫܠܳܡܳܐ ܡܰܠܟܳܐ',
  apostrophe: 'O\u02bcNeill м\u02bcята',
  stress: 'за́мок йод',
  german: 'Müller Straße',
  spelled: 'Mueller Strasse',
  danish: 'Søren Ærø Århus',
  ascii: 'Soeren Aeroe Aarhus',
} as const;

beforeAll(async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-marks-'));
  data = path.join(folder, 'archive');
  const files = Object.entries(TEXTS).map(([name, text]) => {
    const file = path.join(folder, `${name}.eml`);
    const subject = `=?utf-8?B?${Buffer.from(`${name} ${text}`).toString('base64')}?=`;
    const head = `Subject: ${subject}\r\nFrom: a@example.org\r\nContent-Type: text/plain; charset=utf-8`;
    writeFileSync(file, `${head}\r\nContent-Transfer-Encoding: 8bit\r\n\r\n${text}\r\n`);
    return file;
  });
  const { code, stderr } = await mailkeep(['import', ...files, '--data', data]);
  expect(code, stderr).toBe(0);
});

/** Returns the first words of the subjects that a query finds. */
async function found(query: string): Promise<string[]> {
  const { code, stdout, stderr } = await ran(['search', '--json', '--data', data, '--', query]);
  expect([code, stderr]).toEqual([0, '']);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => String(JSON.parse(line).subject).split(' ')[0] ?? '')
    .toSorted();
}

test.each([
  ...[
    ['كتابا', 'vowels'],
    ['المدرسة', 'vowels'],
    ['المدرسه', 'vowels'],
    ['الْقَهْوَةُ', 'bare'],
    ['"القَهوة العَربيّة"', 'bare'],
    ['هذا', 'superscript'],
    ['الرحمن', 'superscript'],
    ['السلام', 'kashida'],
    ['"السلام عليكم"', 'kashida'],
    ['عـلـيـكم', 'kashida'],
    ['مرحبا', 'forms'],
    ['الان', 'forms'],
    ['احمد', 'hamza'],
    ['ابراهيم', 'hamza'],
    ['ا\u0653مال', 'hamza'],
    ['كيف', 'persian'],
    ['يكتا', 'persian'],
  ],
  ...[
    ['ירושלים', 'niqqud'],
    ['יְרוּשׁלים', 'niqqud'],
    ['בראשית', 'cantillation'],
    ['"בראשית ברא"', 'cantillation'],
    ['שמש', 'hebrewForms'],
    ['בוית', 'hebrewForms'],
    ['מנכל', 'gershayim'],
    ['מנכ"ל', 'gershayim'],
    ['subject:מנכ״ל', 'gershayim'],
    ['"מנכ"ל החברה"', 'gershayim'],
    ['דוח', 'quote'],
    ['דו״ח', 'quote'],
    ['הארץ', 'quote'],
    ['צכיה', 'geresh'],
    ["צ'כיה", 'geresh'],
    ['ג׳ירפה', 'geresh'],
    ['ܫܠܡܐ', 'syriac'],
    ["o'neill", 'apostrophe'],
    ['O’Neill', 'apostrophe'],
    ["м'ята", 'apostrophe'],
    ['замок', 'stress'],
  ],
] as const)('%s is found in %s', async (query, name) => {
  expect(await found(query)).toEqual([name]);
});

test('marks that make another letter stay', async () => {
  expect(await found('иод')).toEqual([]);
});

test('spelling:any finds both spellings, in both directions', async () => {
  for (const [query, names] of [
    ['müller', ['german']],
    ['mueller', ['spelled']],
    ['spelling:any müller', ['german', 'spelled']],
    ['mueller spelling:any', ['german', 'spelled']],
    ['spelling:any MU\u0308LLER', ['german', 'spelled']],
    ['spelling:any subject:"mueller straße"', ['german', 'spelled']],
    ['spelling:any muel*', ['german', 'spelled']],
    ['spelling:any søren', ['ascii', 'danish']],
    ['spelling:any soeren', ['ascii', 'danish']],
    ['spelling:any århus', ['ascii', 'danish']],
    ['spelling:any aarhus', ['ascii', 'danish']],
    ['spelling:any ærø', ['ascii', 'danish']],
    ['spelling:any mueller NEAR/3 strasse', ['german', 'spelled']],
    ['spelling:any müller -strasse', []],
    ['strasse', ['german', 'spelled']],
  ] as const)
    expect([query, await found(query)]).toEqual([query, names]);
});
