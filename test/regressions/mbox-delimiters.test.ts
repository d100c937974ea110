import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { type AmbiguousLine, mboxRanges, unquoteFromLines } from '../../src/mail/mail-files.ts';
import { StoredArchive } from '../export/stored-archive.ts';
import { importing } from '../import/importing.ts';

const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-delimiters-'));
afterAll(() => rmSync(work, { recursive: true, force: true }));

const FIRST = 'From ada@example.org Tue Mar  3 10:00:01 2020\n';
const SECOND = 'From bob@example.org Tue Mar  3 10:00:02 2020\n';
const head = (subject: string): string => `From: Ada <ada@example.org>\nSubject: ${subject}\n\n`;

/** Sources of the messages in an mbox, the dates of its delimiters, and the lines in doubt. */
function read(text: string) {
  const file = path.join(work, 'one.mbox');
  writeFileSync(file, Buffer.from(text, 'latin1'));
  const bytes = readFileSync(file);
  const doubts: AmbiguousLine[] = [];
  const stray: number[] = [];
  const ranges = [
    ...mboxRanges(file, {
      onDoubt: (line) => doubts.push(line),
      onStray: (count) => stray.push(count),
    }),
  ];
  const sources = ranges.map(({ start, end, quotedLines, lineEnds }) => {
    const source = bytes.subarray(start, end);
    return (quotedLines === 0 ? source : unquoteFromLines(source, lineEnds)).toString('latin1');
  });
  return { sources, dates: ranges.map(({ date }) => date), doubts, stray };
}

const one = `${head('one')}first body\n`;
const two = `${head('two')}second body\n`;

it.each([
  ['with an empty line', `${FIRST}${one}\n${SECOND}${two}`, [one, two]],
  ['without an empty line', `${FIRST}${one}${SECOND}${two}`, [one, two]],
  ['behind a line of blanks', `${FIRST}${one} \t\n${SECOND}${two}`, [`${one} \t\n`, two]],
  ['behind several empty lines', `${FIRST}${one}\n\n\n${SECOND}${two}`, [`${one}\n\n`, two]],
  ['behind the mark of UTF-8', `\xef\xbb\xbf${FIRST}${one}\n${SECOND}${two}\n`, [one, two]],
  ['behind empty lines of the file', `\n\r\n${FIRST}${one}\n${SECOND}${two}\n`, [one, two]],
])('divides messages %s', (_, text, sources) => {
  expect(read(text)).toMatchObject({ sources, doubts: [], stray: [] });
});

it.each([
  ['CRLF', '\r\n'],
  ['CR CR LF', '\r\r\n'],
  ['CR', '\r'],
])('divides messages whose lines end in %s, with and without empty lines', (_, end) => {
  const ends = (text: string): string => text.replaceAll('\n', end);
  for (const between of ['\n', '']) {
    const text = ends(`${FIRST}${one}${between}${SECOND}${two}`);
    expect(read(text)).toMatchObject({ sources: [ends(one), ends(two)], doubts: [] });
  }
});

it('divides a file whose parts end lines in different ways', () => {
  const mac = (text: string): string => text.replaceAll('\n', '\r');
  const text = `${FIRST}${one}\n${mac(`${SECOND}${two}\n`)}${FIRST}${one}\n${mac(`${SECOND}${two}`)}`;
  expect(read(text).sources).toEqual([one, mac(two), one, mac(two)]);
});

it.each([
  'From ada@example.org Tue Mar  3 10:00:02 2020',
  'From ada@example.org Tue Mar  3 10:00 2020',
  'From ada@example.org Tue Mar 03 10:00:02 CET 2020',
  'From ada@example.org Tue Mar  3 10:00:02 2020 +0100',
  'From ada@example.org  Tue Mar  3 10:00:02 MET DST 2020',
  'From 1660000000000000001@xxx Mon Mar 02 09:15:00 +0000 2020',
  'From - Tue Mar  3 10:00:02 2020',
  'From MAILER-DAEMON Tue Mar  3 10:00:02 2020',
  'From  Tue Mar  3 10:00:02 2020',
  'From ???@??? Tue Mar 03 10:00:02 2020',
  'From uucp!ada Tue Mar  3 10:00:02 2020 remote from gate',
  'From "ada of the lake"@example.org Tue Mar  3 10:00:02 2020',
  'From Ada Berg <ada@example.org> Tue, 3 Mar 2020 10:00:02 +0100',
  'From ada@example.org Tue, 03 Mar 2020 10:00:02 GMT',
  'From ada@example.org 2020-03-03T10:00:02+01:00',
  'From ada@example.org 2020-03-03 10:00:02',
  'From ada@example.org Tue Mar  3 10:00:02 2020   ',
  'From ada@example.org Di M\xc3\xa4r  3 10:00:02 2020',
  'From ',
])('takes %j for a delimiter', (line) => {
  expect(read(`${FIRST}${one}\n${line}\n${two}`)).toMatchObject({
    sources: [one, two],
    doubts: [],
  });
});

it.each([
  'From here we walked to the lake and saw a heron.',
  'From 10:00 to 12:00 we slept.',
  'From Tuesday on it rained, and on 3 March 2020 it stopped.',
  'From March 3, 2020 10:00 we were at home again.',
  'From me',
  'From:',
  'From ada@example.org I heard at 10:00 in 2020 that',
])('keeps %j in its message', (line) => {
  for (const before of ['', '\n']) {
    const source = `${one}${before}${line}\nmore text\n\nBye\n`;
    expect(read(`${FIRST}${source}\n${SECOND}${two}`)).toMatchObject({
      sources: [source, two],
      doubts: [],
    });
  }
});

it('reports lines that can be read in two ways, and loses none of them', () => {
  const quoted = `${one}From ada@example.org Mon Mar  2 09:00:00 2020\nwas the first line.\n`;
  expect(read(`${FIRST}${quoted}\n${SECOND}${two}`)).toMatchObject({
    sources: [quoted, two],
    doubts: [{ isDelimiter: false, offset: FIRST.length + one.length }],
  });
  const pasted = `${one}\nFrom Ada Berg\nSubject: lunch\n`;
  expect(read(`${FIRST}${pasted}\n${SECOND}${two}`)).toMatchObject({
    sources: [pasted, two],
    doubts: [{ isDelimiter: false, text: 'From Ada Berg' }],
  });
  expect(read(`${FIRST}${one}\nFrom ada@example.org\n${two}`)).toMatchObject({
    sources: [one, two],
    doubts: [{ isDelimiter: true, text: 'From ada@example.org' }],
  });
});

it('lets Content-Length decide where it leads to a delimiter or to the end of the file', () => {
  const body = `Hello,\n\n${SECOND}Subject: quoted\n\nwas forwarded, >From me\n>From you\n`;
  const long = `From: Ada <ada@example.org>\nContent-Length: ${body.length}\n\n${body}`;
  for (const text of [`${FIRST}${long}\n${SECOND}${two}`, `${FIRST}${long}${SECOND}${two}`]) {
    expect(read(text).sources).toEqual([long, two]);
  }
  expect(read(`${FIRST}${one}\n${SECOND}${long}`).sources).toEqual([one, long]);
  // The delimiter in it could be one of the file.
  expect(read(`${FIRST}${long}\n${SECOND}${two}`).doubts).toMatchObject([{ isDelimiter: false }]);
  for (const wrong of [body.length - 2, body.length + 7, 0, 999_999_999]) {
    const other = long.replace(/Content-Length: \d+/, `Content-Length: ${wrong}`);
    expect(read(`${FIRST}${other}\n${SECOND}${two}`).sources).toHaveLength(3);
  }
});

it('keeps every byte of any file but delimiters, the empty lines before them, and quoting', () => {
  const lines = [
    'From x',
    FIRST.trim(),
    'From: a',
    '',
    '',
    ' ',
    'text',
    '\rFrom y',
    '>From z',
    'A: b',
  ];
  let seed = 7;
  const next = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
  for (let run = 0; run < 500; run += 1) {
    const text =
      FIRST +
      Array.from(
        { length: next(30) },
        () => `${lines[next(lines.length)]}${['\n', '\r\n', '\r', ''][next(4)]}`,
      ).join('');
    const file = path.join(work, 'any.mbox');
    writeFileSync(file, text);
    let at = 0;
    for (const { start, end } of mboxRanges(file)) {
      expect(text.slice(at, start)).toMatch(/^[\r\n]*From [^\r\n]*[\r\n]+$|^[\r\n]*From [^\r\n]*$/);
      at = end;
    }
    expect(text.slice(at)).toMatch(/^\r*\n?$|^\r?$/);
  }
});

it('imports messages whole, reports doubts, and names what belongs to none', async () => {
  const archive = await StoredArchive.create();
  const file = path.join(work, 'letters.mbox');
  writeFileSync(
    file,
    `${FIRST}${one}\nFrom here we walked.\n\n${SECOND}${two}\nFrom Ada Berg\nTo: Bob\n`,
  );
  const cut = path.join(work, 'cut.mbox');
  writeFileSync(cut, `rest of a message\n${FIRST}${one}`);
  const result = await importing(archive, [file, cut]);
  expect(result).toMatchObject({
    messages: 3,
    added: 3,
    doubtful: 1,
    doubtfulLines: [{ path: file, text: 'From Ada Berg', isDelimiter: false }],
    failures: [{ path: cut, reason: 'bytes-before-from-line' }],
  });
  archive.remove();
});

it('takes time in proportion to the size of a file', () => {
  const file = path.join(work, 'large.mbox');
  for (const line of [
    'From \n',
    'From a b \n',
    `${FIRST}x\n`,
    'From \r',
    `From ${' '.repeat(4000)}\n`,
  ]) {
    writeFileSync(file, line.repeat(Math.ceil(3_000_000 / line.length)));
    expect([...mboxRanges(file)].length).toBeGreaterThanOrEqual(0);
  }
}, 60_000);
