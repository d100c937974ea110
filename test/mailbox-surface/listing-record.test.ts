import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import PostalMime from 'postal-mime';
import { describe, expect, test } from 'vitest';
import { writeMessage } from '../../src/sandbox/generated-mail.ts';
import {
  decodeQuotedPrintable,
  readAttachment,
  readListingRecord,
  receivedFromSource,
  UNDATED,
} from '../../src/service/message-view.ts';

function message(...lines: string[]): Buffer {
  return Buffer.from(lines.join('\r\n'), 'latin1');
}

test('reads the fields of a listing, in whatever form they are written', () => {
  const source = message(
    'From: =?ISO-8859-1?Q?J=FCrgen_M=FCller?= <jm@example.org>',
    'To: "Doe, Jane" <jane@example.org>, list@example.org',
    'Cc: Friends: a@example.org, b@example.org;',
    'Subject: =?utf-8?B?R3LDvMOfZQ==?= aus',
    '\tK\xf6ln',
    'Message-ID: <1@example.org>',
    'In-Reply-To: <0@example.org>',
    '',
    'Body',
  );
  expect(readListingRecord(source)).toEqual({
    size: source.length,
    subject: 'Grüße aus Köln',
    from: { name: 'Jürgen Müller', address: 'jm@example.org' },
    to: [
      { name: 'Doe, Jane', address: 'jane@example.org' },
      { name: '', address: 'list@example.org' },
    ],
    cc: [
      { name: '', address: 'a@example.org' },
      { name: '', address: 'b@example.org' },
    ],
    bcc: [],
    messageId: '<1@example.org>',
    inReplyTo: '<0@example.org>',
    attachments: [],
  });
});

test('lists attachments with the size of their decoded bytes, and hands those out', () => {
  const source = message(
    'Subject: x',
    'Content-Type: multipart/mixed; boundary="b 1"',
    '',
    'preamble',
    '--b 1',
    'Content-Type: multipart/related; boundary=b2',
    '',
    '--b2',
    'Content-Type: text/html',
    '',
    '<img src="cid:logo">',
    '--b2',
    'Content-Type: image/png',
    'Content-ID: <logo>',
    'Content-Transfer-Encoding: base64',
    '',
    'AAEC',
    'Aw==',
    '--b2--',
    '--b 1',
    "Content-Type: text/plain; name*=utf-8''%C3%BCber.txt",
    'Content-Disposition: attachment',
    'Content-Transfer-Encoding: quoted-printable',
    '',
    'a=FCb=',
    'c',
    '--b 1',
    'Content-Type: message/rfc822',
    '',
    'Subject: inner',
    '',
    'inner body',
    '--b 1--',
    'epilogue',
  );
  const { attachments } = readListingRecord(source);
  expect(attachments).toEqual([
    {
      id: 'part-1.2',
      contentType: 'image/png',
      sizeBytes: 4,
      inline: true,
      filename: null,
      contentId: 'logo',
    },
    {
      id: 'part-2',
      contentType: 'text/plain',
      sizeBytes: 4,
      inline: false,
      filename: 'über.txt',
      contentId: null,
    },
    {
      id: 'part-3',
      contentType: 'message/rfc822',
      sizeBytes: 28,
      inline: false,
      filename: null,
      contentId: null,
    },
  ]);
  expect(readAttachment(source, 'part-1.2')).toEqual(Buffer.from([0, 1, 2, 3]));
  expect(readAttachment(source, 'part-2')?.toString('latin1')).toBe('a\xfcbc');
  expect(readAttachment(source, 'part-1.1')).toBeNull();
  expect(readAttachment(source, 'nothing')).toBeNull();
});

test('a boundary that is never closed ends with the message', () => {
  const { attachments } = readListingRecord(
    message(
      'Content-Type: multipart/mixed; boundary=b',
      '',
      '--b',
      '',
      'text',
      '--b',
      'Content-Type: application/x',
      '',
      'torn',
    ),
  );
  expect(attachments.map(({ sizeBytes }) => sizeBytes)).toEqual([4]);
});

test('any bytes at all give a record and a date', () => {
  const crumbs = fc.constantFrom(
    'Content-Type: multipart/mixed; boundary=b\r\n',
    '--b\r\n',
    '--b--',
    '\r\n\r\n',
    '\n\n',
    'From: a <b@c>\n',
    'Subject: =?x?Q?=zz?=\n',
    'Content-Transfer-Encoding: base64\n',
    'Content-Disposition: attachment; filename*0*=%%%\n',
    '\u0000\u00ff',
    ' ',
  );
  fc.assert(
    fc.property(
      fc.array(fc.oneof(crumbs, fc.string({ maxLength: 5 })), { maxLength: 40 }),
      (parts) => {
        const source = Buffer.from(parts.join(''), 'latin1');
        const record = readListingRecord(source);
        expect(record.size).toBe(source.length);
        for (const { id, sizeBytes } of record.attachments) {
          expect(readAttachment(source, id)?.length).toBe(sizeBytes);
        }
        expect(Number.isSafeInteger(receivedFromSource(source))).toBe(true);
      },
    ),
    { numRuns: 300 },
  );
});

test('quoted-printable is undone, soft breaks and trailing blanks included', () => {
  const decoded = (text: string) =>
    decodeQuotedPrintable(Buffer.from(text, 'latin1')).toString('latin1');
  expect(decoded('a=3Db')).toBe('a=b');
  expect(decoded('one =\r\ntwo')).toBe('one two');
  expect(decoded('one = \ntwo')).toBe('one two');
  expect(decoded('blank \t\r\nnext')).toBe('blank\r\nnext');
  expect(decoded('not =GG an escape=')).toBe('not =GG an escape=');
  expect(decoded('=e4=C4')).toBe('\xe4\xc4');
});

test('the received date is the Date header, else the newest Received line, else a fixed one', () => {
  const received = 'Received: from a by b; Tue, 6 Jan 2026 10:00:00 +0000';
  expect(
    receivedFromSource(message('Date: Mon, 5 Jan 2026 10:00:00 +0000', received, '', '')),
  ).toBe(Date.UTC(2026, 0, 5, 10));
  expect(receivedFromSource(message('Date: nonsense', received, '', ''))).toBe(
    Date.UTC(2026, 0, 6, 10),
  );
  expect(receivedFromSource(message('Subject: x', '', ''))).toBe(UNDATED);
});

test('agrees with another parser on generated mail', async () => {
  const mail = {
    seed: 5,
    documentSeed: 5,
    count: 400,
    owner: 'ada@example.org',
    newest: Date.UTC(2026, 0, 5),
  };
  for (let index = 0; index < 150; index += 1) {
    const source = writeMessage(mail, index);
    const ours = readListingRecord(source);
    const theirs = await PostalMime.parse(source);
    expect(ours.subject).toBe(theirs.subject);
    expect(ours.from).toEqual({ name: theirs.from?.name, address: theirs.from?.address });
    expect(ours.messageId).toBe(theirs.messageId);
    expect(ours.attachments.map(({ filename }) => filename)).toEqual(
      theirs.attachments.map(({ filename }) => filename),
    );
    expect(ours.attachments.map(({ sizeBytes }) => sizeBytes)).toEqual(
      theirs.attachments.map(({ content }) =>
        typeof content === 'string' ? content.length : content.byteLength,
      ),
    );
  }
});

const corpus = process.env.MAILKEEP_CORPUS;

describe.skipIf(corpus === undefined)('real mail', () => {
  test('every message has a record, and its attachments are as long as they are listed', () => {
    const files = readdirSync(corpus ?? '', { recursive: true, withFileTypes: true });
    let read = 0;
    for (const file of files) {
      if (!file.isFile()) continue;
      const source = readFileSync(join(file.parentPath, file.name));
      const record = readListingRecord(source);
      expect(record.size).toBe(source.length);
      for (const { id, sizeBytes } of record.attachments) {
        expect(readAttachment(source, id)?.length).toBe(sizeBytes);
      }
      read += 1;
    }
    expect(read).toBeGreaterThan(0);
  });
});
