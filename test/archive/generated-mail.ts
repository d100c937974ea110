import fc from 'fast-check';

/** Bytes as base64 in lines of this length; the last line has no end. */
export function base64Lines(bytes: Buffer, lineLength: number, eol: string): string {
  return (bytes.toString('base64').match(new RegExp(`.{1,${lineLength}}`, 'g')) ?? []).join(eol);
}

const eol = fc.constantFrom('\r\n', '\n', '\r', '\n\r\n', '\0\n');
const lineLength = fc.constantFrom(4, 60, 64, 72, 75, 76, 77, 80, 100, 996, 20_000);

/** Big enough to be split out more often than not. */
const content = fc
  .tuple(fc.uint8Array({ minLength: 1, maxLength: 40 }), fc.integer({ min: 0, max: 5000 }))
  .map(([seed, length]) => Buffer.alloc(length, seed));

const base64Run = fc
  .tuple(content, lineLength, eol)
  .map(([bytes, length, end]) => base64Lines(bytes, length, end));

/** Base64 with something wrong in it: any byte of it replaced, removed or doubled. */
const spoiltRun = fc
  .tuple(
    base64Run,
    fc.nat(),
    fc.constantFrom('=', '==', '-', '_', ' ', '\n', '\r\n', '', 'AAAA', '\0', 'ZWh=', 'é'),
    fc.nat({ max: 5 }),
  )
  .map(([run, at, piece, removed]) => {
    const place = run.length === 0 ? 0 : at % run.length;
    return run.slice(0, place) + piece + run.slice(place + removed);
  });

const paddingBits = fc
  .tuple(content, fc.constantFrom('ZWh=', 'ZWg=', 'ZR==', 'ZQ==', 'Zm9v', 'Zg=', '====', '='))
  .map(([bytes, tail]) => {
    const whole = bytes.subarray(0, bytes.length - (bytes.length % 57));
    return `${base64Lines(whole, 76, '\r\n')}\r\n${tail}`;
  });

const header = fc.constantFrom(
  'From: a@example.org',
  'Subject: =?utf-8?B?w6k=?=',
  'Content-Type: multipart/mixed; boundary="b"',
  'Content-Type: message/rfc822',
  'Content-Transfer-Encoding: base64',
  '--b',
  '--b--',
  '',
);

const textPiece = fc.oneof(
  fc.array(header, { maxLength: 6 }).chain((lines) => eol.map((end) => lines.join(end) + end)),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
);

const emptyLine = fc.constantFrom('\r\n\r\n', '\n\n', '\n\r\n', '\r\r', '\n', '');

/** Anything that may come as a raw source, with runs of base64 in it that are nearly, or quite, what an attachment is. */
export const anyMail: fc.Arbitrary<Buffer> = fc
  .array(fc.oneof(textPiece, emptyLine, base64Run, spoiltRun, paddingBits), { maxLength: 9 })
  .chain((pieces) => {
    const source = Buffer.from(pieces.join(''), 'latin1');
    // Truncated at any byte, as mail is that a client gave up sending.
    return fc
      .option(fc.nat({ max: source.length }), { freq: 3 })
      .map((cut) => (cut === null ? source : source.subarray(0, cut)));
  });

/** A message with one attachment, as most clients write it. */
export function mailWithAttachment(
  attachment: Buffer,
  { lineLength: length = 76, eol: end = '\r\n' } = {},
): Buffer {
  const lines = [
    'From: Ada <ada@example.org>',
    'To: Bob <bob@example.org>',
    'Subject: the report',
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary="frontier"',
    '',
    '--frontier',
    'Content-Type: text/plain',
    '',
    'Here it is.',
    '--frontier',
    'Content-Type: application/octet-stream; name="report.bin"',
    'Content-Transfer-Encoding: base64',
    '',
    base64Lines(attachment, length, end),
    '',
    '--frontier--',
    '',
  ];
  return Buffer.from(lines.join(end), 'latin1');
}

/** Bytes that do not repeat and are the same in every run. */
export function noise(length: number, seed = 1): Buffer {
  const bytes = Buffer.alloc(length);
  let state = seed >>> 0 || 1;
  for (let i = 0; i < length; i += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    bytes[i] = state & 0xff;
  }
  return bytes;
}
