import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { extractMessage } from '../../src/mail/extract-message.ts';
import type { Extraction } from '../../src/mail/extraction.ts';
import { DEFAULT_LIMITS, type MimeLimits } from '../../src/mail/extraction.ts';
import { attached, html, mail, multipart, parts, rawMail, text } from './compose.ts';

function extract(source: Buffer, limits: Partial<MimeLimits> = {}): Promise<Extraction> {
  return extractMessage(source, false, { ...DEFAULT_LIMITS, ...limits });
}

describe('bodies', () => {
  it('takes plain text as it is, with line ends of one kind', async () => {
    const { body, status, truncated } = await extract(mail({ Subject: 'a' }, 'one\r\ntwo\n'));
    expect(body).toBe('one\ntwo\n');
    expect(status).toBe('parsed');
    expect(truncated).toBe(false);
  });

  it('turns HTML into text where there is no plain part', async () => {
    const source = mail(
      { 'Content-Type': 'text/html' },
      '<html><body><h1>Hello</h1><p>one &amp; two</p><script>no()</script></body></html>',
    );
    expect((await extract(source)).body).toBe('Hello\n\none & two');
  });

  it('puts the plain alternative before words that only the HTML has', async () => {
    const source = multipart('alternative', [text('plain words'), html('<p>other words</p>')]);
    expect((await extract(source)).body).toBe('plain words\n\nother words');
  });

  it('adds the HTML when the plain alternative is only a stub', async () => {
    const source = multipart('alternative', [
      text('Your program cannot show this.'),
      html(`<p>${'the real newsletter text '.repeat(40)}</p>`),
    ]);
    const { body } = await extract(source);
    expect(body).toContain('Your program cannot show this.');
    expect(body).toContain('the real newsletter text');
  });

  it('takes the HTML when the plain alternative is empty', async () => {
    const source = multipart('alternative', [text(' \n'), html('<p>words</p>')]);
    expect((await extract(source)).body).toBe('words');
  });

  it('keeps an HTML body to which a list added a plain footer', async () => {
    const source = multipart('mixed', [html('<p>the message</p>'), text('_____\nlist footer')]);
    const { body } = await extract(source);
    expect(body).toContain('the message');
    expect(body).toContain('list footer');
  });

  it('joins the soft lines of format=flowed', async () => {
    const source = mail(
      { 'Content-Type': 'text/plain; format=flowed; delsp=no' },
      'one \r\ntwo\r\n',
    );
    expect((await extract(source)).body).toBe('one two');
  });

  it('takes a multipart without parts for text', async () => {
    const source = mail({ 'Content-Type': 'multipart/mixed; boundary=nowhere' }, 'just words\n');
    expect((await extract(source)).body).toContain('just words');
  });

  it('accepts delimiters that end in blanks', async () => {
    const body = '--b  \t\nContent-Type: text/plain\n\nfirst\n--b \n\nsecond\n--b-- \n';
    const source = mail({ 'Content-Type': 'multipart/mixed; boundary=b' }, body);
    expect((await extract(source)).body).toBe('first\n\nsecond');
  });

  it('cuts text at the ceiling and says so', async () => {
    const { body, truncated } = await extract(mail({}, 'x'.repeat(500)), { bodyChars: 100 });
    expect(body).toBe('x'.repeat(100));
    expect(truncated).toBe(true);
  });

  it('includes delivery reports and unnamed text of other kinds', async () => {
    const source = multipart('report', [
      text('could not deliver'),
      { headers: { 'Content-Type': 'message/delivery-status' }, body: 'Status: 5.1.1' },
      { headers: { 'Content-Type': 'text/x-patch' }, body: '+added line' },
    ]);
    const { body } = await extract(source);
    expect(body).toContain('could not deliver');
    expect(body).toContain('Status: 5.1.1');
    expect(body).toContain('+added line');
  });
});

describe('charsets', () => {
  const typed = (charset: string | null, bytes: string) =>
    rawMail(charset === null ? {} : { 'Content-Type': `text/plain; charset=${charset}` }, bytes);
  it.each([
    ['utf-8', 'Gr\xc3\xbc\xc3\x9fe', 'Grüße'],
    ['iso-8859-1', 'Gr\xfc\xdfe', 'Grüße'],
    ['iso-8859-1', 'it\x92s', 'it’s'],
    ['windows-1251', '\xcf\xf0\xe8\xe2\xe5\xf2', 'Привет'],
    ['koi8-r', '\xf0\xd2\xc9\xd7\xc5\xd4', 'Привет'],
    ['iso-2022-jp', '\x1b$BF|K\\8l\x1b(B', '日本語'],
    ['shift_jis', '\x93\xfa\x96\x7b\x8c\xea', '日本語'],
    ['euc-jp', '\xc6\xfc\xcb\xdc\xb8\xec', '日本語'],
    ['gb2312', '\xc4\xe3\xba\xc3', '你好'],
    ['big5', '\xa7\xda', '我'],
    ['ks_c_5601-1987', '\xc7\xd1\xb1\xdb', '한글'],
    ['utf-7', 'Hi +AOQ-!', 'Hi ä!'],
    ['"UTF-8"', '\xe2\x82\xac', '€'],
    ['us-ascii', 'caf\xe9', 'café'],
    ['us-ascii', 'caf\xc3\xa9', 'café'],
    [null, 'caf\xe9', 'café'],
    ['x-no-such-charset', 'caf\xe9 ol\xe9', 'café olé'],
    ['x-no-such-charset', 'caf\xc3\xa9', 'café'],
    // Damaged UTF-8 keeps its good characters.
    ['utf-8', 'Gr\xc3\xbc\xc3\x9fe \xe4\xb8', 'Grüße \ufffd'],
  ])('reads %s', async (charset, bytes, expected) => {
    expect((await extract(typed(charset, bytes))).body).toBe(expected);
  });

  it('removes NULs', async () => {
    expect((await extract(rawMail({ Subject: 'a\0b' }, 'c\0d'))).body).toBe('cd');
  });
});

describe('headers', () => {
  it('reads every address header apart', async () => {
    const e = await extract(
      mail({
        From: '"Doe, Jane" <jane@example.org>',
        Sender: 'secretary@example.org',
        'Reply-To': 'Desk <desk@example.org>',
        To: 'a@example.org, Bee <b@example.org>',
        Cc: 'Team: c1@example.org, c2@example.org;',
        Bcc: '<d@example.org>',
        'Delivered-To': 'inbox@example.org',
        'X-Original-To': 'alias@example.org',
      }),
    );
    expect(e.from).toBe(
      'Doe, Jane <jane@example.org>, secretary@example.org, Desk <desk@example.org>',
    );
    expect(e.to).toBe('a@example.org, Bee <b@example.org>');
    expect(e.cc).toBe('c1@example.org, c2@example.org');
    expect(e.bcc).toBe('d@example.org');
    expect(e.deliveredTo).toBe('inbox@example.org, alias@example.org');
  });

  it('takes all fields of a name that stands twice', async () => {
    const source = Buffer.from('To: a@x.example\r\nTo: b@x.example\r\n\r\n');
    expect((await extract(source)).to).toBe('a@x.example, b@x.example');
  });

  it('decodes encoded words, also with commas inside', async () => {
    const e = await extract(
      mail({
        Subject: '=?utf-8?B?R3LDvMOf?=\r\n =?utf-8?Q?e_dich?=',
        From: '=?iso-8859-1?Q?M=FCller=2C_J=FCrgen?= <j@example.org>',
      }),
    );
    expect(e.subject).toBe('Grüße dich');
    expect(e.from).toBe('Müller, Jürgen <j@example.org>');
  });

  it('reads raw 8-bit headers, in the charset of the body where they are not UTF-8', async () => {
    expect((await extract(rawMail({ Subject: 'Gr\xc3\xbc\xc3\x9fe' }))).subject).toBe('Grüße');
    expect((await extract(rawMail({ Subject: 'Gr\xfc\xdfe' }))).subject).toBe('Grüße');
    const korean = { Subject: '\xc7\xd1\xb1\xdb', 'Content-Type': 'text/plain; charset=euc-kr' };
    expect((await extract(rawMail(korean))).subject).toBe('한글');
  });

  it('gives internationalized domains in both spellings', async () => {
    expect((await extract(mail({ From: 'x@xn--mller-kva.example' }))).from).toBe(
      'x@xn--mller-kva.example x@müller.example',
    );
  });

  it('reads ids without their brackets', async () => {
    const e = await extract(
      mail({
        'Message-ID': '<one@example.org>',
        References: '<a@x>\r\n\t<b@x> <a@x>',
        'In-Reply-To': 'Your message of Monday <c@x>',
        'List-Id': '"Friends of mail" <friends.example.org>',
      }),
    );
    expect(e.messageId).toBe('one@example.org');
    expect(e.references).toEqual(['a@x', 'b@x', 'c@x']);
    expect(e.listId).toBe('friends.example.org');
  });

  it('reads headers after an mbox line and empty lines', async () => {
    const source = Buffer.from('\r\n\nFrom jane Fri Nov 20\nSubject: kept\n\nbody');
    expect((await extract(source)).subject).toBe('kept');
  });
});

describe('attachments', () => {
  it('lists them in order with decoded sizes, and keeps their bytes out of the text', async () => {
    const bytes = Buffer.from(Array.from({ length: 5000 }, (_, i) => (i * 7) % 256));
    const e = await extract(
      multipart('mixed', [
        text('see attached'),
        attached(bytes, 'a.bin', 'application/octet-stream'),
        attached(Buffer.from('hello'), 'b.txt', 'text/plain'),
      ]),
    );
    expect(e.body).toBe('see attached');
    expect(e.attachments).toEqual([
      {
        number: 1,
        filename: 'a.bin',
        contentType: 'application/octet-stream',
        size: 5000,
        inline: false,
        contentId: null,
        form: null,
        hash: hash('sha256', bytes),
      },
      {
        number: 2,
        filename: 'b.txt',
        contentType: 'text/plain',
        size: 5,
        inline: false,
        contentId: null,
        form: 'text:',
        hash: hash('sha256', 'hello'),
      },
    ]);
  });

  it('tells the addresses of senders and recipients', async () => {
    const e = await extract(
      mail(
        {
          From: 'Ada <ADA@example.org>, "Bo, B." <bo@example.org>',
          Sender: 'list@example.org',
          To: 'undisclosed-recipients:;, <cy@example.org>',
          Cc: '=?utf-8?q?D=C3=AF?= <di@example.org>, cy@example.org, not an address',
        },
        'x',
      ),
    );
    expect(e.senders).toEqual(['ada@example.org', 'bo@example.org']);
    expect(e.recipients).toEqual(['cy@example.org', 'di@example.org']);
  });

  it('detects inline pictures', async () => {
    const e = await extract(
      multipart('related', [
        html('<img src="cid:logo">'),
        {
          headers: { 'Content-Type': 'image/png', 'Content-ID': '<logo>' },
          body: 'x',
        },
      ]),
    );
    expect(e.attachments).toMatchObject([{ inline: true, contentId: 'logo', filename: null }]);
  });

  it.each([
    ['quoted', 'filename="plain name.pdf"', 'plain name.pdf'],
    ['RFC 2231', "filename*=utf-8''%e2%82%ac%20rates.pdf", '€ rates.pdf'],
    ['RFC 2231 continued', `filename*0*=utf-8''%c3%bc;\r\n filename*1="ber.pdf"`, 'über.pdf'],
    ['RFC 2047', 'filename="=?iso-8859-1?Q?=FCber.pdf?="', 'über.pdf'],
  ])('reads %s file names', async (_, parameter, expected) => {
    const e = await extract(
      multipart('mixed', [
        {
          headers: {
            'Content-Type': 'application/pdf',
            'Content-Disposition': `attachment; ${parameter}`,
          },
          body: 'x',
        },
      ]),
    );
    expect(e.attachments[0]?.filename).toBe(expected);
  });

  it.each([
    ['UTF-8', '\xc3\xbcber.pdf', 'über.pdf'],
    ['damaged UTF-8', '\xd0\x9a\xd0\xb0\xd1\x80\xd1.pdf', 'Кар\ufffd.pdf'],
    ['Latin-1', '\xfcber.pdf', 'über.pdf'],
  ])('reads raw 8-bit file names in %s', async (_, raw, expected) => {
    const head = 'Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n';
    const part = `Content-Type: application/pdf; name="${raw}"\r\n\r\nx\r\n--b--\r\n`;
    const e = await extract(Buffer.from(head + part, 'latin1'));
    expect(e.attachments[0]?.filename).toBe(expected);
  });

  it('lists a named inline text and searches it too', async () => {
    const e = await extract(
      multipart('mixed', [
        text('+added', { 'Content-Disposition': 'inline; filename="fix.patch"' }),
      ]),
    );
    expect(e.attachments).toMatchObject([{ filename: 'fix.patch', inline: true }]);
    expect(e.body).toBe('+added');
  });
});

describe('attached messages', () => {
  const inner = (subject: string, body: string) =>
    `Subject: ${subject}\nFrom: Inner Person <inner@example.org>\n\n${body}`;

  it.each(['', 'attachment', 'inline'])('are listed and searched (disposition %j)', async (d) => {
    const e = await extract(
      multipart('mixed', [
        text('forwarded'),
        {
          headers: {
            'Content-Type': 'message/rfc822',
            ...(d === '' ? {} : { 'Content-Disposition': d }),
          },
          body: inner('Inner subject', 'inner words'),
        },
      ]),
    );
    expect(e.attachments).toMatchObject([{ contentType: 'message/rfc822', number: 1 }]);
    for (const words of ['forwarded', 'Inner subject', 'inner@example.org', 'inner words'])
      expect(e.body).toContain(words);
  });

  it('are searched when encoded in base64, and by the names of what they carry', async () => {
    const carried = parts('in', [
      text('inner text'),
      attached(Buffer.from('x'), 'deep.pdf', 'application/pdf'),
    ]);
    const message = `Subject: s\nContent-Type: multipart/mixed; boundary=in\n\n${carried}`;
    const e = await extract(
      multipart('mixed', [attached(Buffer.from(message), 'msg.eml', 'message/rfc822')]),
    );
    expect(e.body).toContain('inner text');
    expect(e.body).toContain('deep.pdf');
    expect(e.attachments.map(({ filename }) => filename)).toEqual(['msg.eml']);
  });

  it('are what a digest consists of', async () => {
    const e = await extract(
      multipart('digest', [
        { headers: {}, body: inner('First of digest', 'one') },
        { headers: {}, body: inner('Second of digest', 'two') },
      ]),
    );
    expect(e.attachments).toHaveLength(2);
    expect(e.body).toContain('First of digest');
    expect(e.body).toContain('two');
  });

  it('are looked into only so many levels', async () => {
    let source = 'Subject: level 0\n\nthe bottom';
    for (let level = 1; level <= 6; level++) {
      source = `Subject: level ${level}\nContent-Type: message/rfc822\n\n${source}`;
    }
    const e = await extract(Buffer.from(source), { embedded: 3 });
    expect(e.status).toBe('parsed');
    expect(e.truncated).toBe(true);
    expect(e.body).toContain('level 4');
    expect(e.body).not.toContain('the bottom');
    expect((await extract(Buffer.from(source), { embedded: 6 })).body).toContain('the bottom');
  });
});

describe('addresses that come again', () => {
  it('are read as the first time, also after very many others', async () => {
    const peopleOf = async (n: number) => {
      const source = mail({
        From: `"Doe, =?utf-8?q?J=C3=BCrg?= ${n}" <d${n}@example.org>`,
        To: 'a@b.example',
      });
      const { from, to } = await extractMessage(source, false, DEFAULT_LIMITS);
      return [from, to];
    };
    const expected = (n: number) => [`Doe, Jürg ${n} <d${n}@example.org>`, 'a@b.example'];
    for (let n = 0; n < 2200; n++) expect(await peopleOf(n)).toEqual(expected(n));
    for (const n of [0, 999, 2199]) expect(await peopleOf(n)).toEqual(expected(n));
  });
});
