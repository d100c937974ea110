import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { keepLeaf, type Part, parseTree, type TreeLimits } from '../../src/mail/part-tree.ts';
import { attached, html, multipart, parts, text } from './compose.ts';

const LIMITS: TreeLimits = {
  headerBytes: 1024 * 1024,
  depth: 100,
  parts: 2000,
  textPartBytes: 1024 * 1024,
};

/** The tree with each leaf's bytes as text, in a form to compare. */
function outline(part: Part<{ bytes: string }> | null): unknown {
  if (part === null) return null;
  if (part.kind === 'leaf') return [part.info.contentType, part.content.bytes];
  return { [part.subtype]: part.children.map(outline) };
}

async function* drip(source: Buffer, size: number): AsyncIterable<Uint8Array> {
  for (let at = 0; at < source.length; at += size) yield source.subarray(at, at + size);
}

async function treeOf(source: Buffer | AsyncIterable<Uint8Array>, limits = LIMITS) {
  const tree = await parseTree(
    source,
    () => {
      const content = { bytes: '' };
      const sink = (chunk: Buffer) => {
        content.bytes += chunk.toString('latin1');
        return undefined;
      };
      return { content, sink };
    },
    limits,
  );
  return { ...tree, outline: outline(tree.root) };
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
  'YQ\r\n=\r\nPond list\r\n',
  'Content-Transfer-Encoding: x-uuencode\r\n\r\n',
  'begin 644 a.txt\r\n',
  '#86)C\r\n',
  'end\r\n',
  'Content-Type: multipart/mixed; boundary=c\r\nContent-Transfer-Encoding: base64\r\n\r\n',
  'LS1jCgpoaWRkZW4KLS1jLS0K\r\n',
  'text ',
  `${'long '.repeat(60)}\r\n`,
);

const START = [
  'Content-Type: multipart/mixed; boundary=a\r\n\r\n',
  '--a\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n',
].join('');

const nested = multipart('mixed', [
  {
    headers: { 'Content-Type': 'multipart/alternative; boundary=in' },
    body: parts('in', [text('plain'), html('<p>rich</p>')]),
  },
  attached(Buffer.from('attached bytes'), 'a.bin', 'application/octet-stream'),
  { headers: { 'Content-Type': 'message/rfc822' }, body: 'Subject: in\n\ninner' },
  {
    headers: { 'Content-Transfer-Encoding': 'quoted-printable' },
    body: 'a=3Db=\nc',
  },
]);

const EXPECTED = {
  mixed: [
    {
      alternative: [
        ['text/plain', 'plain'],
        ['text/html', '<p>rich</p>'],
      ],
    },
    ['application/octet-stream', 'attached bytes'],
    ['message/rfc822', 'Subject: in\r\n\r\ninner'],
    ['text/plain', 'a=bc'],
  ],
};

describe('parseTree', () => {
  it('finds the tree, undoes transfer encodings and keeps attached messages whole', async () => {
    const tree = await treeOf(nested);
    expect(tree.outline).toEqual(EXPECTED);
    expect(tree.breach).toBeNull();
    expect(tree.parts).toBe(7);
  });

  it.each([1, 7, 61, 1000])('finds the same in pieces of %i bytes', async (size) => {
    expect((await treeOf(drip(nested, size))).outline).toEqual(EXPECTED);
  });

  it('finds the same in whatever pieces the source comes', async () => {
    const message = fc
      .tuple(fc.constantFrom('', START), fc.array(piece, { maxLength: 24 }))
      .map(([start, pieces]) => Buffer.from(start + pieces.join(''), 'latin1'));
    const limits = { ...LIMITS, headerBytes: 400, depth: 5, parts: 12 };
    await fc.assert(
      fc.asyncProperty(message, fc.integer({ min: 1, max: 100 }), async (source, size) => {
        const whole = await treeOf(source, limits);
        const streamed = await treeOf(drip(source, size), limits);
        expect({ ...streamed, root: null }).toEqual({ ...whole, root: null });
      }),
      { numRuns: 2_000 },
    );
  }, 60_000);

  it('ends at each limit, with the parts before it', async () => {
    const few = await treeOf(nested, { ...LIMITS, parts: 4 });
    expect(few.breach).toBe('parts');
    expect(few.outline).toEqual({
      mixed: [
        {
          alternative: [
            ['text/plain', 'plain'],
            ['text/html', '<p>rich</p>'],
          ],
        },
      ],
    });
    expect((await treeOf(nested, { ...LIMITS, depth: 2 })).breach).toBe('depth');
    expect((await treeOf(nested, { ...LIMITS, headerBytes: 20 })).breach).toBe('header');
  });

  it('holds the source back while a sink is busy', async () => {
    const body = Buffer.alloc(12_000_000, 'x'.repeat(70).concat('\r\n'));
    let given = 0;
    let taken = 0;
    async function* source() {
      yield Buffer.from('Content-Type: application/octet-stream\r\n\r\n');
      for (let at = 0; at < body.length; at += 50_000) {
        given = at;
        yield body.subarray(at, at + 50_000);
      }
    }
    let ahead = 0;
    await parseTree(
      source(),
      () => ({
        content: null,
        sink: async (chunk) => {
          await new Promise(setImmediate);
          taken += chunk.length;
          ahead = Math.max(ahead, given - taken);
        },
      }),
      LIMITS,
    );
    expect(taken).toBe(body.length);
    expect(ahead).toBeLessThan(4_000_000);
  });

  it('rejects when the source does', async () => {
    async function* broken() {
      yield Buffer.from('Subject: s\r\n\r\nwords');
      throw new Error('disk gone');
    }
    await expect(treeOf(broken())).rejects.toThrow('disk gone');
  });
});

it('keeps no large buffer for a few of its bytes', async () => {
  const { content, sink } = keepLeaf(1000);
  for (let i = 0; i < 100; i += 1) await sink(Buffer.alloc(65_536, 'a').subarray(10, 11));
  const buffers = new Set(content.kept.map(({ buffer }) => buffer));
  const bytes = [...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0);
  // Copies share the pool of Buffer.
  expect([content.size, bytes <= 2 * Buffer.poolSize]).toEqual([100, true]);
});
