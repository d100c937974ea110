import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Part, parseTree, type TakeLeaf, type TreeLimits } from '../../src/mime/part-tree.ts';
import { walkParts } from '../../src/mime/part-walk.ts';

const LIMITS: TreeLimits = { headerBytes: 400, depth: 5, parts: 12, textPartBytes: 1024 * 1024 };

interface Bytes {
  text: string;
}

const take: TakeLeaf<Bytes> = () => {
  const content = { text: '' };
  const sink = (chunk: Buffer) => {
    content.text += chunk.toString('latin1');
    return undefined;
  };
  return { content, sink };
};

function outline(part: Part<Bytes> | null): unknown {
  if (part === null) return null;
  if (part.kind === 'leaf') return { ...part.info, text: part.content.text };
  return { [part.subtype]: part.children.map(outline) };
}

/** Pieces of which mail is made, in some order: delimiters of three multiparts among all that looks like them. */
const piece = fc.constantFrom(
  ...['a', 'b', 'ab'].flatMap((name) => [`--${name}`, `--${name}`, `--${name}--`, `--${name} `]),
  '--',
  '-- ',
  '--a-',
  '--a--x',
  '\r\n',
  '\r\n',
  '\r\n\r\n',
  '\n',
  '\n\n',
  '\r',
  'Content-Type: multipart/mixed; boundary=a\r\n\r\n',
  'Content-Type: multipart/alternative; boundary="b"\r\n\r\n',
  'Content-Type: multipart/digest; boundary=ab\n\n',
  'Content-Type: multipart/mixed\r\n',
  'Content-Type: text/plain; boundary=a\r\n\r\n',
  'Content-Type: text/html; charset=utf-8\r\n\r\n',
  'Content-Type: text/plain; format=flowed; delsp=yes\r\n\r\n',
  'Content-Type: image/png; name="=?utf-8?q?p=C3=A9?="\r\nContent-ID: <x@y>\r\n\r\n',
  'Content-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\n',
  'Content-Transfer-Encoding: base64\r\n\r\n',
  'Content-Transfer-Encoding: quoted-printable\r\n\r\n',
  'Content-Disposition: attachment; filename=x.pdf\r\n',
  'From nobody Mon\r\n',
  'Subject: some\r\n folded\r\n',
  'Received: from a\r\n\tby b; content-type: text/html\r\n',
  'Content-Type\r\n : text/html\r\n\r\n',
  '\v\r\n Content-Type: text/html; name=a\r\n\r\n',
  '\u00a0Content-Type: text/csv\r\n\r\n',
  ' content-type: text/html\r\n',
  'x\r\n content-type: text/html\r\n',
  'YWJj\r\nZGVm\r\n',
  'YQ==\r\n',
  'YQ==YQ==',
  'a=3Db=\r\nc  \r\n',
  'text ',
  `${'long '.repeat(60)}\r\n`,
);

const START = [
  'Content-Type: multipart/mixed; boundary=a\r\n\r\n',
  '--a\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n',
].join('');

test('wherever the walk has an answer, it is that of the streams', async () => {
  let answered = 0;
  let asked = 0;
  const message = fc
    .tuple(fc.constantFrom('', START), fc.array(piece, { maxLength: 24 }))
    .map(([start, pieces]) => Buffer.from(start + pieces.join(''), 'latin1'));
  await fc.assert(
    fc.asyncProperty(message, async (source) => {
      asked += 1;
      const walked = walkParts(source, take, LIMITS);
      if (walked === null) return;
      answered += 1;
      const parsed = await parseTree(source, take, LIMITS);
      expect({ ...walked, root: outline(walked.root) }).toEqual({
        ...parsed,
        root: outline(parsed.root),
      });
    }),
    { numRuns: 3_000 },
  );
  expect(answered / asked).toBeGreaterThan(0.2);
}, 60_000);

test('no leaf is taken where the streams decide', () => {
  const taken: string[] = [];
  const noting: TakeLeaf<Bytes> = (info) => {
    taken.push(info.contentType);
    return take(info);
  };
  const source = `${START}\r\n\r\nfirst\r\n--b\r\nContent-Transfer-Encoding: base64\r\n\r\nYQ==YQ==\r\n--b--\r\n--a--\r\n`;
  expect(walkParts(Buffer.from(source), noting, LIMITS)).toBe(null);
  expect(taken).toEqual([]);
});

test('a carriage return alone behind a delimiter is left to the streams', () => {
  const source = `${START}--b\rx\r\n content-type: text/html\r\n`;
  expect(walkParts(Buffer.from(source), take, LIMITS)).toBe(null);
});

test('base64 without end is decided in linear time', () => {
  const source = `Content-Transfer-Encoding: base64\r\n\r\n${'\r\n'.repeat(2_000_000)}!`;
  expect(walkParts(Buffer.from(source), take, LIMITS)).toBe(null);
});

const corpus = process.env.MAILKEEP_CORPUS;

test.skipIf(corpus === undefined)(
  'real mail: the same trees, and the streams decide for few',
  async () => {
    const limits = { ...LIMITS, headerBytes: 1024 * 1024, depth: 100, parts: 2_000 };
    const folder = corpus ?? '';
    const files = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
    let odd = 0;
    for (const file of files) {
      const source = readFileSync(file);
      const walked = walkParts(source, take, limits);
      if (walked === null) odd += 1;
      else {
        const parsed = await parseTree(source, take, limits);
        const same = isDeepStrictEqual(outline(walked.root), outline(parsed.root));
        expect(same, file).toBe(true);
      }
    }
    expect(odd / files.length).toBeLessThan(0.02);
  },
  300_000,
);
