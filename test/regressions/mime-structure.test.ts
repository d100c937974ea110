import { describe, expect, test } from 'vitest';
import { extractMessage } from '../../src/mail/extract-message.ts';
import { DEFAULT_LIMITS } from '../../src/mail/extraction.ts';

/** The text of a message, and its attachments: name, type and size. */
async function read(lines: readonly string[], lineEnd = '\r\n') {
  const source = Buffer.from(lines.join(lineEnd), 'latin1');
  const { subject, body, attachments, status } = await extractMessage(
    source,
    false,
    DEFAULT_LIMITS,
  );
  const files = attachments.map(({ filename, contentType, size }) => [filename, contentType, size]);
  return { subject, status, text: body.trim(), files };
}

const HEAD = ['From: Ada <ada@example.org>', 'Date: Tue, 3 Mar 2020 10:00:00 +0000', 'Subject: s'];
const PDF = [
  'Content-Type: application/pdf; name="plan.pdf"',
  'Content-Transfer-Encoding: base64',
  '',
  'JVBERi0xLjQ=',
];
const PLAN = ['plan.pdf', 'application/pdf', 8];
const mixed = (boundary: string, type = 'mixed') =>
  `Content-Type: multipart/${type}; boundary="${boundary}"`;

/** Reads a message of two parts: these lines, and a PDF. */
const readInMixed = (...first: string[]) =>
  read([...HEAD, mixed('o'), '', '--o', ...first, '--o', ...PDF, '--o--']);

describe('the delimiter of an outer multipart ends all within it', () => {
  test.each(['alternative', 'related', 'signed', 'digest', 'report', 'parallel'])(
    'multipart/%s',
    async (type) => {
      const inner = [mixed('i', type), '', '--i', 'Content-Type: text/html', '', '<p>ouzel</p>'];
      const found = await readInMixed(...inner);
      expect(found).toMatchObject({ text: 'ouzel', files: [PLAN] });
    },
  );

  test('five levels at once', async () => {
    const levels = ['a', 'b', 'c', 'd'].flatMap((name) => [
      mixed(name, 'related'),
      '',
      `--${name}`,
    ]);
    const text = ['Content-Type: text/plain', '', 'ouzel'];
    const found = await readInMixed(...levels, ...text);
    expect(found).toMatchObject({ text: 'ouzel', files: [PLAN] });
  });

  test('an attached message', async () => {
    const inner = [
      'Content-Type: message/rfc822',
      '',
      'Subject: in',
      mixed('i'),
      '',
      '--i',
      '',
      'x',
    ];
    const found = await readInMixed(...inner);
    expect(found.files).toEqual([[null, 'message/rfc822', 68], PLAN]);
    expect(found.text).toBe('in\n\nx');
  });

  test('an inner multipart whose boundary begins like the outer one', async () => {
    const inner = [mixed('oo'), '', '--oo', '', 'ouzel', '--oo--'];
    const found = await readInMixed(...inner);
    expect(found).toMatchObject({ text: 'ouzel', files: [PLAN] });
  });

  test('a header without an end', async () => {
    const found = await read([
      ...[...HEAD, mixed('o'), '', '--o', mixed('i'), '--o', ...PDF, '--o--'],
    ]);
    expect(found.files).toEqual([PLAN]);
  });

  test('parts behind a closing delimiter that came too early', async () => {
    const found = await read([...HEAD, mixed('o'), '', '--o', '', 'ouzel', '--o--', '--o', ...PDF]);
    expect(found).toMatchObject({ text: 'ouzel', files: [PLAN] });
  });
});

describe('a part follows delimiters that follow each other', () => {
  const text = ['Content-Type: text/plain', '', 'ouzel'];
  test.each([
    ['twice', ['--o', '--o']],
    ['the closing one second', ['--o', '--o--']],
    ['the closing one first', ['--o--', '--o']],
    ['one of a multipart that has ended', ['--o', '--i']],
  ])('%s', async (_, delimiters) => {
    const inner = [mixed('i'), '', '--i', ...text, '--i--'];
    const found = await read([
      ...[...HEAD, mixed('o'), '', '--o', ...inner],
      ...[...delimiters, ...PDF, '--o--', ''],
    ]);
    expect(found).toMatchObject({ text: 'ouzel', files: [PLAN] });
  });

  test('but a part may begin with dashes', async () => {
    const found = await read([
      ...HEAD,
      mixed('o'),
      '',
      '--o',
      '',
      '--i',
      'Content-Type: a/b',
      '--o--',
    ]);
    expect(found).toMatchObject({ text: '--i\nContent-Type: a/b', files: [] });
  });
});

describe('a parameter ends with its quote', () => {
  test.each([
    'filename="plan.pdf" name="plan.pdf"',
    'filename="plan.pdf"\r\n\tsize=8; name="x.pdf"',
    'filename="plan.pdf" (the plan); size=8',
    'filename = "plan.pdf"\r\n\tTue, 3 Mar 2020 10:00:00 +0000',
  ])('%s', async (parameters) => {
    const [type = '', ...rest] = PDF;
    const disposition = `Content-Disposition: attachment; ${parameters}`;
    const found = await read([...HEAD, type.replace(/;.*/, ''), disposition, ...rest]);
    expect(found.files).toEqual([PLAN]);
  });
});

describe('delimiters are found however they are written', () => {
  test.each([
    ['blanks behind', 'boundary="b"', '--b \t'],
    ['a comment', 'boundary="b" (not c)', '--b'],
    ['a comment behind the type', 'boundary="b"', '--b', 'multipart/mixed (of all)'],
    ['a continuation', 'boundary*0="a"; boundary*1="b"', '--ab'],
    ['an encoding', "boundary*=us-ascii'en'a%62", '--ab'],
    ['single quotes', "boundary='b'", '--b'],
    ['a missing quote', 'boundary="b', '--b'],
    ['another case', 'boundary="ab"', '--AB'],
    ['a missing semicolon', 'boundary=b', '--b', 'multipart/mixed charset=utf-8'],
    ['no boundary in the header', 'charset=utf-8', '--b'],
    ['another boundary in the header', 'boundary=other', '--b'],
    ['two boundaries in the header', 'boundary=b; boundary=c', '--b'],
    ['8-bit signs', 'boundary="b\xe9"', '--b\xe9'],
  ])('%s', async (_, parameter, delimiter, type = 'multipart/mixed') => {
    const text = ['Content-Type: text/plain', '', 'ouzel'];
    const found = await read([
      ...[...HEAD, `Content-Type: ${type}; ${parameter}`, ''],
      ...[delimiter, ...text, delimiter, ...PDF, `${delimiter.trim()}--`],
    ]);
    expect(found).toMatchObject({ text: 'ouzel', files: [PLAN] });
  });
});

const WHOLE = [
  ...[...HEAD, mixed('b'), '', '--b', 'Content-Type: text/plain', ''],
  ...['ouzel', '--b', ...PDF, '--b--', ''],
];

describe('a first delimiter that is lost', () => {
  test.each([
    ['removed', []],
    ['in the header', ['--b']],
  ])('and %s leaves its part', async (_, moved) => {
    const lines = WHOLE.toSpliced(WHOLE.indexOf('--b'), 1).toSpliced(2, 0, ...moved);
    expect(await read(lines)).toMatchObject({ subject: 's', text: 'ouzel', files: [PLAN] });
  });

  test('is not missed in a preamble', async () => {
    const at = WHOLE.indexOf('--b');
    const lines = WHOLE.toSpliced(at, 0, 'This is a message in MIME format.');
    expect(await read(lines)).toMatchObject({ text: 'ouzel', files: [PLAN] });
  });
});

describe('line ends of other systems', () => {
  test.each([
    ['CR', '\r'],
    ['CR CR LF', '\r\r\n'],
    ['LF', '\n'],
  ])('%s', async (_, lineEnd) => {
    const found = await read(WHOLE, lineEnd);
    expect(found).toEqual({ subject: 's', status: 'parsed', text: 'ouzel', files: [PLAN] });
  });

  test.each([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])('CR behind line %i', async (line) => {
    const found = await read([
      WHOLE.map((text, i) => text + (i === line ? '\r' : '\r\n')).join(''),
    ]);
    expect(found).toEqual({ subject: 's', status: 'parsed', text: 'ouzel', files: [PLAN] });
  });

  test.each(['\r', '\r\r\n'])('soft line breaks with %j', async (lineEnd) => {
    const quoted = ['Content-Transfer-Encoding: quoted-printable', '', 'oy=', 'ster', 'catcher'];
    expect((await read([...HEAD, ...quoted], lineEnd)).text).toBe('oyster\ncatcher');
  });
});

describe('a header ends where the body begins', () => {
  test('with a delimiter', async () => {
    const found = await read(WHOLE.filter((line, i) => line !== '' || i > 4));
    expect(found).toMatchObject({ text: 'ouzel', files: [PLAN] });
  });

  test('with a line that is no field', async () => {
    expect((await read([...HEAD, 'This ouzel is no field.', 'Note: well'])).text).toBe(
      'This ouzel is no field.\nNote: well',
    );
    expect((await read(['Dear all,', 'an ouzel', '', 'and a dunlin.'])).text).toBe(
      'Dear all,\nan ouzel\n\nand a dunlin.',
    );
    const part = ['--b', 'An ouzel without a header.', '--b--'];
    expect((await read([...HEAD, mixed('b'), '', ...part])).text).toBe(
      'An ouzel without a header.',
    );
  });

  test.each(['-- ', '--b', '--other'])('not with %s before its type', async (line) => {
    const found = await read([...HEAD, line, ...WHOLE.slice(HEAD.length)]);
    expect(found).toMatchObject({ subject: 's', text: 'ouzel', files: [PLAN] });
  });

  test('with lines of base64, whatever follows', async () => {
    const lines = base64('ouzels and dunlins at the weir').replace(/.{20}/g, '$&\n').split('\n');
    const part = ['Content-Type: text/plain', 'Content-Transfer-Encoding: base64', ...lines];
    const found = await read([
      ...HEAD,
      mixed('b'),
      '',
      '--b',
      ...part,
      PDF[0] ?? '',
      '',
      'x',
      '--b--',
    ]);
    expect(found.text).toContain('ouzels and dunlins at the weir');
  });

  test('not with a damaged line before what describes the body', async () => {
    const found = await read([...HEAD.slice(0, 2), 'damaged by somebody', ...WHOLE.slice(2)]);
    expect(found).toMatchObject({ subject: 's', text: 'ouzel', files: [PLAN] });
  });

  test.each([
    ['an empty line', ['']],
    ['empty lines', ['', '', '']],
    ['a line of an mbox', ['From ada@example.org Tue Mar  3 10:00:00 2020']],
    ['a quoted line of an mbox', ['>From ada@example.org Tue Mar  3 10:00:00 2020']],
    ['both', ['', 'From ada@example.org Tue Mar  3 10:00:00 2020']],
  ])('and begins behind %s', async (_, before) => {
    const found = await read([...before, ...WHOLE]);
    expect(found).toEqual({ subject: 's', status: 'parsed', text: 'ouzel', files: [PLAN] });
  });

  test('and begins behind a byte order mark', async () => {
    const found = await read([`\xef\xbb\xbf${WHOLE[0]}`, ...WHOLE.slice(1)]);
    expect(found).toEqual({ subject: 's', status: 'parsed', text: 'ouzel', files: [PLAN] });
  });

  test.each([
    ['before', [mixed('i', 'alternative'), mixed('o')]],
    ['behind', [mixed('o'), mixed('i', 'alternative')]],
    ['without its boundary before', ['Content-Type: multipart/related;', mixed('o')]],
  ])('with another multipart %s it', async (_, types) => {
    const inner = ['--i', 'Content-Type: text/plain', '', 'ouzel', '--i--'];
    const found = await read([
      ...[...HEAD, ...types, '', '--o', '', ...inner],
      ...['--o', ...PDF, '--o', ...PDF, '--o--'],
    ]);
    expect(found.files).toEqual([PLAN, PLAN]);
    expect(found.text).toContain('ouzel');
  });

  test.each(['multipart/', 'multipart/mixed@here', 'multipart/mixed/other', 'multipart/mixed:x'])(
    'with the odd type %s',
    async (type) => {
      const found = await read([
        ...[...HEAD, `Content-Type: ${type}; boundary=o`, '', '--o', '', 'ouzel'],
        ...['--o', ...PDF, '--o--'],
      ]);
      expect(found).toMatchObject({ status: 'parsed', text: 'ouzel', files: [PLAN] });
    },
  );

  test.each(['-- ', '--', '--i--', '--o--'])(
    'not with %j before what describes the body',
    async (line) => {
      const [type = '', ...rest] = PDF;
      const found = await read([...HEAD, mixed('o'), '', '--o', type, line, ...rest, '--o--']);
      expect(found.files).toEqual([PLAN]);
    },
  );

  test.each([0, 1])('with two types, of which number %i names the boundary', async (at) => {
    const types = ['Content-Type: text/plain; charset=utf-8'];
    types.splice(at, 0, mixed('b'));
    const rest = WHOLE.slice(HEAD.length).filter((line) => line !== mixed('b'));
    const found = await read([...HEAD, ...types, ...rest]);
    expect(found).toMatchObject({ text: 'ouzel', files: [PLAN] });
  });

  test('with blanks before the colons', async () => {
    const found = await read(WHOLE.map((line) => line.replace(/^([\w-]+):/, '$1 \t:')));
    expect(found).toEqual({ subject: 's', status: 'parsed', text: 'ouzel', files: [PLAN] });
  });
});

const encoded = (encoding: string, lines: readonly string[], type = 'text/plain') => [
  ...HEAD,
  `Content-Type: ${type}; charset=utf-8`,
  `Content-Transfer-Encoding: ${encoding}`,
  '',
  ...lines,
];
const base64 = (text: string) => Buffer.from(text).toString('base64');

describe('base64', () => {
  const FOOTER = ['_______', 'Pond mailing list', 'Pond@lists.example.org'];

  test.each([
    ['behind padding', ['Größe!'], FOOTER],
    ['without padding', ['Größe!!'], FOOTER],
    ['of one word', ['Größe!'], ['Pond']],
    ['of two lines', ['Größe!'], ['Regards', 'Ada']],
  ])('ends before a footer %s', async (_, [text = ''], footer) => {
    const found = await read(encoded('base64', [base64(text), '', ...footer]));
    expect(found.text).toBe(`${text}\n\n${footer.join('\n')}`);
  });

  test('does not take the charset of a footer for its own', async () => {
    const found = await read(encoded('base64', [base64('Größe!'), 'f\xfcr alle im Verteiler']));
    expect(found.text).toBe('Größe!\n\nfür alle im Verteiler');
  });

  test('behind a file leaves the file as it is', async () => {
    const found = await read([...HEAD, ...PDF, ...FOOTER]);
    expect(found).toMatchObject({ text: FOOTER.join('\n'), files: [PLAN] });
  });

  test('of nothing is empty', async () => {
    const found = await read([...HEAD, ...PDF.slice(0, 3), '', '']);
    expect(found.files).toEqual([['plan.pdf', 'application/pdf', 0]]);
  });

  test('begins behind a line of another kind', async () => {
    const stray = 'X-Stray: a field in the body';
    const found = await read([
      ...HEAD,
      ...PDF.slice(0, 3),
      stray,
      base64('%PDF-1.4 of some pages'),
    ]);
    expect(found.files).toEqual([['plan.pdf', 'application/pdf', 22]]);
    expect(found.text).toBe(stray);
  });

  test.each([
    ['junk', 'b3V*6Z!Ww='],
    ['no padding', 'b3V6ZWw'],
    ['pieces', 'b3U=\r\nemU=\r\nbA=='],
    ['blanks', ' b3V6 \r\n\t ZWw= '],
    ['a word where there should be digits', 'ouzel'],
    ['words', 'an ouzel'],
  ])('is read with %s', async (_, text) => {
    expect((await read(encoded('base64', [text]))).text).toMatch(/^(?:an )?ouzel$/);
  });

  test('of any length is that of the bytes', async () => {
    const text = 'x'.repeat(100_001);
    expect((await read(encoded('BASE64 (folded)', [base64(text)]))).text).toBe(text);
  });
});

describe('uuencode', () => {
  const UU = ['begin 644 notes.txt', "/9'5C:W,@86YD(&=E97-E", '`', 'end'];

  test.each(['x-uuencode', 'uuencode', 'x-uue', 'UUE'])('as the encoding %s', async (encoding) => {
    const type = 'application/octet-stream; name=ducks.txt';
    const found = await read(encoded(encoding, UU, type));
    expect(found.files).toEqual([['ducks.txt', 'application/octet-stream', 15]]);
  });

  test('within text, twice', async () => {
    const found = await read([...HEAD, '', 'Two:', ...UU, 'and', ...UU, 'begin again', 'end']);
    const notes = ['notes.txt', 'text/plain', 15];
    expect(found).toMatchObject({ text: 'Two:\nand\nbegin again\nend', files: [notes, notes] });
  });

  test('without its end keeps the text behind it', async () => {
    const found = await read([...HEAD, '', ...UU.slice(0, 2), 'the text continues']);
    expect(found).toMatchObject({
      text: 'the text continues',
      files: [['notes.txt', 'text/plain', 15]],
    });
  });

  test('that is none stays text', async () => {
    const lines = ['begin 644 as if', 'there were a file', 'end'];
    expect(await read([...HEAD, '', ...lines])).toMatchObject({
      text: lines.join('\n'),
      files: [],
    });
    expect((await read(encoded('x-uuencode', lines))).text).toBe(lines.join('\n'));
  });

  test.each([
    ['yEnc', ['=ybegin line=128 size=3 name=a.bin', 'ouzel', '=yend size=3']],
    ['BinHex', ['(This file must be converted with BinHex 4.0)', ':ouzel:']],
  ])('%s stays text', async (_, lines) => {
    expect((await read([...HEAD, '', ...lines])).text).toBe(lines.join('\n'));
  });
});

describe('a whole multipart with a transfer encoding', () => {
  const inside = ['--b', 'Content-Type: text/plain', '', 'ouzel', '--b', ...PDF, '--b--', ''];
  const head = (encoding: string) => [
    ...[...HEAD, mixed('b'), `Content-Transfer-Encoding: ${encoding}`, ''],
  ];

  test.each([
    ['base64', base64(inside.join('\r\n')).replace(/.{76}/g, '$&\r\n')],
    ['quoted-printable', inside.join('\r\n').replaceAll('=', '=3D').replaceAll('-', '=2D')],
  ])('%s', async (encoding, body) => {
    const found = await read([...head(encoding), body]);
    expect(found).toMatchObject({ text: 'ouzel', files: [PLAN] });
  });

  test.each(['base64', 'quoted-printable', '8bit'])('that is only said: %s', async (encoding) => {
    const found = await read([...head(encoding), 'to be skipped', ...inside]);
    expect(found).toMatchObject({ text: 'ouzel', files: [PLAN] });
  });

  test('without parts is a file if it has a name', async () => {
    const found = await read([
      ...head('base64').slice(0, -1),
      'Content-Disposition: attachment; filename="plan.pdf"',
      '',
      'JVBERi0xLjQ=',
    ]);
    expect(found.files).toEqual([['plan.pdf', 'multipart/mixed', 8]]);
  });

  test('without parts is text', async () => {
    expect((await read([...head('base64'), base64('an ouzel')])).text).toBe('an ouzel');
  });
});
