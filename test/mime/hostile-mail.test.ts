import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { extractHeaders, extractMessage } from '../../src/mail/extract-message.ts';
import type { Extraction } from '../../src/mail/extraction.ts';
import { DEFAULT_LIMITS } from '../../src/mail/extraction.ts';
import { mail, multipart, rawMail } from './compose.ts';

const extract = (source: Buffer): Promise<Extraction> =>
  extractMessage(source, false, DEFAULT_LIMITS);

/** What every extraction is, whatever came in. */
function expectSound(e: Extraction): void {
  expect(e.status === 'parsed').toBe(e.reason === null);
  const texts = [
    e.subject,
    e.from,
    e.to,
    e.cc,
    e.bcc,
    e.deliveredTo,
    e.body,
    e.listId ?? '',
    e.messageId ?? '',
    ...e.references,
    ...e.attachments.flatMap((a) => [a.filename ?? '', a.contentType, a.contentId ?? '']),
  ];
  for (const text of texts) expect(text).not.toContain('\0');
  // Bodies are joined by empty lines beyond the ceiling on their text.
  expect(e.body.length).toBeLessThanOrEqual(DEFAULT_LIMITS.bodyChars + 4 * DEFAULT_LIMITS.parts);
  expect(e.attachments.map(({ number }) => number)).toEqual(e.attachments.map((_, i) => i + 1));
}

describe('floods come to an end with the headers', () => {
  const typed = (type: string, encoding: string, body: string) =>
    mail({ Subject: 'flood', 'Content-Type': type, 'Content-Transfer-Encoding': encoding }, body);
  const headed = (name: string, value: string) => mail({ Subject: 'flood', [name]: value }, 'b');

  it.each([
    ['soft line breaks', typed('text/plain', 'quoted-printable', '=\n'.repeat(2_000_000))],
    ['escapes', typed('text/plain', 'quoted-printable', '=E4'.repeat(500_000))],
    ['one base64 line', typed('text/plain', 'base64', 'QUJD'.repeat(2_000_000))],
    ['one base64 line of an attachment', typed('image/png', 'base64', 'QUJD'.repeat(2_000_000))],
    ['base64 padding', typed('text/plain', 'base64', 'QQ=='.repeat(500_000))],
    ['empty lines', typed('text/plain', '7bit', '\n'.repeat(2_000_000))],
    ['entities', typed('text/html', '7bit', '&amp;&lt;&#x41;'.repeat(300_000))],
    ['elements', typed('text/html', '7bit', '<p>word <b>x</b></p>'.repeat(300_000))],
    ['flowed lines', typed('text/plain; format=flowed; delsp=yes', '7bit', 'a \n'.repeat(500_000))],
    ['quote marks', typed('text/plain; format=flowed', '7bit', '>'.repeat(2_000_000))],
    [
      'shifts between charsets',
      typed('text/plain; charset=utf-7', '7bit', '+AGE-'.repeat(200_000)),
    ],
    ['addresses', headed('To', 'a <b@c.example>, '.repeat(50_000))],
    ['comments', headed('To', '('.repeat(60_000))],
    ['quotes', headed('From', '"\\'.repeat(30_000))],
    ['groups', headed('Cc', 'a:;'.repeat(20_000))],
    ['encoded words', headed('X-Other', '=?utf-8?Q?a?= '.repeat(10_000))],
    ['encoded words that never end', headed('From', '=?'.repeat(30_000))],
    ['references', headed('References', '<a@b> '.repeat(10_000))],
    ['parameters', headed('Content-Type', `text/plain; ${'a*0=1; '.repeat(20_000)}`)],
    ['brackets', headed('List-Id', '<'.repeat(60_000))],
  ])('%s', async (_, source) => {
    const e = await extract(source);
    expectSound(e);
    expect(e).toMatchObject({ status: 'parsed', subject: 'flood' });
  });

  it.each([
    ['NULs', Buffer.alloc(4_000_000)],
    ['0xff', Buffer.alloc(4_000_000, 0xff)],
    ['line breaks', Buffer.alloc(4_000_000, 0x0a)],
    ['colons', Buffer.alloc(500_000, ':\n')],
    [
      'delimiters',
      rawMail({ 'Content-Type': 'multipart/mixed; boundary=b' }, '--\n'.repeat(500_000)),
    ],
  ])('nothing but %s', async (_, source) => {
    expectSound(await extract(source));
  });
});

describe('limits', () => {
  it('stand on nesting through attached messages', async () => {
    let source = 'Subject: bottom\r\n\r\nwords';
    for (let i = 0; i < 150; i++) source = `Content-Type: message/rfc822\r\n\r\n${source}`;
    const limits = { ...DEFAULT_LIMITS, embedded: 1000, depth: 100 };
    const e = await extractMessage(Buffer.from(`Subject: top\r\n${source}`), false, limits);
    expect(e).toMatchObject({ status: 'unparsed', reason: 'depth', subject: 'top' });
  });

  it('stand on parts of all attached messages together', async () => {
    const inner = `Content-Type: multipart/mixed; boundary=i\n\n${'--i\n\nx\n'.repeat(30)}--i--\n`;
    const source = multipart(
      'mixed',
      Array.from({ length: 30 }, () => ({
        headers: { 'Content-Type': 'message/rfc822' },
        body: inner,
      })),
    );
    const limited = (parts: number) => extractMessage(source, false, { ...DEFAULT_LIMITS, parts });
    expect((await limited(500)).reason).toBe('parts');
    expect((await limited(2000)).reason).toBeNull();
  });

  it('leave what was found before them', async () => {
    const body = `--b\r\n\r\nearly words\r\n${'--b\r\n\r\nx\r\n'.repeat(5000)}`;
    const e = await extract(mail({ 'Content-Type': 'multipart/mixed; boundary=b' }, body));
    expect(e.reason).toBe('parts');
    expect(e.body).toContain('early words');
  });
});

/** Pieces that mean something to a parser, and bytes that do not. */
const soup = fc
  .array(
    fc.oneof(
      fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
      fc.constantFrom(
        '\r\n',
        '\n',
        '\r',
        '\r\n\r\n',
        '--b\r\n',
        '--b--\r\n',
        '--c\n',
        ' \t',
        'Content-Type: multipart/mixed; boundary=b\r\n',
        'Content-Type: multipart/alternative; boundary="c"\r\n',
        'Content-Type: multipart/digest; boundary=b\r\n',
        'Content-Type: message/rfc822\r\n',
        'Content-Type: text/html; charset=utf-16\r\n',
        'Content-Type: text/plain; charset=iso-2022-jp; format=flowed; delsp=yes\r\n',
        'Content-Disposition: attachment; filename*0*=utf-8\'\'%; filename="=?x?Q?=?="\r\n',
        'Content-Transfer-Encoding: base64\r\n',
        'Content-Transfer-Encoding: quoted-printable\r\n',
        'Content-ID: <\r\n',
        'Subject: =?utf-8?B?4p?= =?utf-7?Q?+AO?=\r\n',
        'From: a <b@c>, "d\\" (e\r\n',
        'List-Id: <<>>\r\nReferences: <a <b>\r\n',
        'QUJD=\r\n',
        '=3D=\r\n=E4',
        '\x1b$B\xff\xfe\0',
        '<b><a href="javascript:">&#x110000;<!--',
        'begin 644 x\r\n',
      ),
    ),
    { maxLength: 40 },
  )
  .map((pieces) => Buffer.from(pieces.join(''), 'latin1'));

describe('any bytes', () => {
  it('give a sound extraction, never an error', async () => {
    await fc.assert(
      fc.asyncProperty(soup, fc.boolean(), async (source, cut) => {
        const e = await extractMessage(source, cut, DEFAULT_LIMITS);
        expectSound(e);
        if (cut) expect(e.truncated).toBe(true);
        expectSound(extractHeaders(source, cut, 'timeout', DEFAULT_LIMITS));
      }),
      { numRuns: 1500 },
    );
  });

  it('give the same extraction twice', async () => {
    await fc.assert(
      fc.asyncProperty(soup, async (source) => {
        expect(await extract(source)).toEqual(await extract(Buffer.from(source)));
      }),
      { numRuns: 200 },
    );
  });

  it('give headers that do not depend on whether the body parses', async () => {
    await fc.assert(
      fc.asyncProperty(soup, async (source) => {
        const { subject, from, to, listId, messageId, references } = await extract(source);
        expect(extractHeaders(source, false, 'memory', DEFAULT_LIMITS)).toMatchObject({
          subject,
          from,
          to,
          listId,
          messageId,
          references,
        });
      }),
      { numRuns: 300 },
    );
  });
});
