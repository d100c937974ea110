import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { isEncrypted, unpackContainer } from '../../src/mail/containers.ts';
import { extractMessage } from '../../src/mail/extract-message.ts';
import { DEFAULT_LIMITS } from '../../src/mail/extraction.ts';
import { type LeafInfo, PLAIN_TEXT } from '../../src/mail/part-tree.ts';
import { openAttachments, readMessage } from '../../src/mail/reading.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { attached, mail, multipart, text } from '../mime/compose.ts';
import { attribute, property, tnef } from './contained-mail/tnef.ts';

/** Mail within a file: signed (S/MIME), of Exchange (TNEF), or encrypted. */

let workerFile: URL;
beforeAll(async () => {
  workerFile = await buildWorker();
});

const stored = (name: string) =>
  readFileSync(new URL(`./contained-mail/${name}.eml`, import.meta.url));

async function* pieces(source: Buffer) {
  for (let at = 0; at < source.length; at += 1000) yield source.subarray(at, at + 1000);
}

/** What the index, a reader and who saves attachments get of a message. */
async function seen(source: Buffer) {
  const { body, attachments, status } = await extractMessage(source, false, DEFAULT_LIMITS);
  const reading = await readMessage(pieces(source), { workerFile });
  const files = new Map<number, [string | null, Buffer]>();
  for await (const piece of openAttachments(pieces(source), { workerFile })) {
    if ('attachment' in piece)
      files.set(piece.attachment.number, [piece.attachment.filename, Buffer.alloc(0)]);
    else if ('bytes' in piece) {
      const [name, bytes] = files.get(piece.number) ?? [null, Buffer.alloc(0)];
      files.set(piece.number, [name, Buffer.concat([bytes, piece.bytes])]);
    }
  }
  const saved = Object.fromEntries(
    [...files.values()].map(([name, bytes]) => [name, bytes.toString()]),
  );
  const names = attachments.map(({ filename }) => filename);
  expect(reading.attachments.map(({ filename }) => filename)).toEqual(names);
  expect([...files.values()].map(([name]) => name)).toEqual(names);
  return { status, body, names, saved, shown: reading.text, encrypted: reading.encrypted };
}

const LETTER = 'The sextant is in the drawer.';

describe('opaque signed S/MIME', () => {
  test.each(['signed', 'streamed', 'twice'])(
    '%s: shown, indexed, listed and saved',
    async (name) => {
      const { body, shown, names, saved, encrypted } = await seen(stored(name));
      expect(body).toContain(LETTER);
      expect(shown).toContain(LETTER);
      expect(names.filter((file) => file !== 'smime.p7m')).toEqual(['chart.txt']);
      expect(saved['chart.txt']).toContain('astrolabe');
      expect(encrypted).toBeNull();
    },
  );

  test.each([
    ['application/x-pkcs7-mime', 'smime.p7m'],
    ['application/pkcs7-mime', null],
    ['application/octet-stream', 'letter.p7m'],
  ])('as %s, named %s, among other parts', async (type, name) => {
    const [, body = ''] = stored('signed').toString('latin1').split('\n\n');
    const part = {
      headers: {
        'Content-Type': type,
        'Content-Transfer-Encoding': 'base64',
        ...(name === null ? {} : { 'Content-Disposition': `attachment; filename="${name}"` }),
      },
      body,
    };
    const { body: indexed, names } = await seen(multipart('mixed', [text('Footer'), part]));
    expect(indexed).toContain(LETTER);
    expect(names.at(-1)).toBe('chart.txt');
  });

  test('a signed file is a file', async () => {
    const [, body = ''] = stored('signed').toString('latin1').split('\n\n');
    const { names } = await seen(
      mail(
        {
          'Content-Type': 'application/pkcs7-mime; name="bill.xml.p7m"',
          'Content-Transfer-Encoding': 'base64',
        },
        body,
      ),
    );
    expect(names).toEqual(['bill.xml.p7m', 'bill.xml']);
  });

  test('cut off or damaged anywhere, it is what is left, and nothing is thrown', async () => {
    const [, body = ''] = stored('streamed').toString('latin1').split('\n\n');
    const bytes = Buffer.from(body, 'base64');
    const info: LeafInfo = { ...PLAIN_TEXT, contentType: 'application/pkcs7-mime' };
    for (let at = 0; at < bytes.length; at++) {
      unpackContainer(info, bytes.subarray(0, at));
      for (const byte of [0, 0x24, 0x30, 0x80, 0xff]) {
        const changed = Buffer.from(bytes);
        changed[at] = byte;
        unpackContainer(info, changed);
      }
    }
  });

  test('levels without end cost no more than their bytes', () => {
    const info: LeafInfo = { ...PLAIN_TEXT, contentType: 'application/pkcs7-mime' };
    for (const level of ['3080', '2480', 'a080', '30800609' + '2a864886f70d010702' + 'a080'])
      expect(unpackContainer(info, Buffer.from(level.repeat(500_000), 'hex'))).toEqual([]);
  });
});

describe('encrypted mail', () => {
  test('S/MIME is said to be encrypted', async () => {
    const { body, shown, names, encrypted } = await seen(stored('encrypted'));
    expect([body, shown.trim(), names, encrypted]).toEqual(['', '', ['smime.p7m'], 'S/MIME']);
  });

  test.each([
    [
      'as MIME',
      multipart('encrypted; protocol="application/pgp-encrypted"', [
        { headers: { 'Content-Type': 'application/pgp-encrypted' }, body: 'Version: 1\n' },
        {
          headers: { 'Content-Type': 'application/octet-stream; name="encrypted.asc"' },
          body: '-----BEGIN PGP MESSAGE-----\n\nabcd\n-----END PGP MESSAGE-----\n',
        },
      ]),
    ],
    [
      'in the text',
      mail({}, 'Hi\n-----BEGIN PGP MESSAGE-----\n\nabcd\n-----END PGP MESSAGE-----\n'),
    ],
  ])('OpenPGP %s is said to be encrypted', async (_, source) => {
    expect((await seen(source)).encrypted).toBe('OpenPGP');
  });

  test('and its attachments are', async () => {
    const armour = Buffer.from('-----BEGIN PGP MESSAGE-----\n\nabcd\n');
    const source = multipart('mixed', [text('x'), attached(armour, 'a.pgp', 'application/pgp')]);
    const { attachments } = await extractMessage(source, false, DEFAULT_LIMITS);
    expect(attachments.map(({ form }) => form)).toEqual(['encrypted']);
    expect(isEncrypted(armour)).toBe(true);
    expect(isEncrypted(Buffer.from('-----BEGIN PGP SIGNED MESSAGE-----'))).toBe(false);
  });
});

describe('mail of Exchange', () => {
  const winmail = (bytes: Buffer, type = 'application/ms-tnef', name = 'winmail.dat') =>
    multipart('mixed', [attached(bytes, name, type)]);
  const plan = [
    attribute(0x9002, Buffer.alloc(14), 2),
    attribute(0x8010, Buffer.from('plan.txt\0'), 2),
    attribute(0x800f, Buffer.from('the veranda'), 2),
  ];

  test('its letter is shown and indexed, its files are listed and saved', async () => {
    const bytes = tnef(attribute(0x800c, Buffer.from('The turnstile is shut.\0')), ...plan);
    for (const source of [
      winmail(bytes),
      winmail(bytes, 'application/vnd.ms-tnef'),
      winmail(bytes, 'application/octet-stream', 'WINMAIL.DAT'),
      winmail(bytes, 'application/ms-tnef', 'att1.dat'),
    ]) {
      const { body, shown, names, saved } = await seen(source);
      expect(body).toContain('The turnstile is shut.');
      expect(shown).toContain('The turnstile is shut.');
      expect(names.slice(1)).toEqual(['plan.txt']);
      expect(saved['plan.txt']).toBe('the veranda');
    }
  });

  test('properties have long names, texts in Unicode, HTML and RTF', async () => {
    const named = attribute(
      0x9005,
      Buffer.concat([
        Buffer.from([3, 0, 0, 0]),
        property(0x3707, 0x1f, Buffer.from('длинное имя.txt\0', 'utf16le')),
        property(0x370e, 0x1e, Buffer.from('text/plain\0')),
        property(0x3712, 0x1e, Buffer.from('a@x\0')),
      ]),
      2,
    );
    const bodies = {
      unicode: property(0x1000, 0x1f, Buffer.from('Das Drehkreuz öffnet.\0', 'utf16le')),
      html: property(0x1013, 0x102, Buffer.from('<p>Das Drehkreuz &ouml;ffnet.</p>')),
      rtf: property(
        0x1009,
        0x102,
        Buffer.concat([
          Buffer.from('00000000ff0000004d454c4100000000', 'hex'),
          Buffer.from(
            "{\\rtf1\\ansi\\ansicpg1252{\\fonttbl{\\f0 Arial;}}\\pard Das Drehkreuz \\'f6ffnet.\\par}",
          ),
        ]),
      ),
    };
    for (const body of Object.values(bodies)) {
      const properties = attribute(0x9003, Buffer.concat([Buffer.from([1, 0, 0, 0]), body]));
      const found = await seen(winmail(tnef(properties, ...plan, named)));
      expect(found.body).toContain('Das Drehkreuz öffnet.');
      expect(found.names.slice(1)).toEqual(['длинное имя.txt']);
    }
  });

  test('cut off or damaged anywhere, it is what is left, and nothing is thrown', () => {
    const bytes = tnef(attribute(0x800c, Buffer.from('Words\0')), ...plan);
    const info: LeafInfo = { ...PLAIN_TEXT, contentType: 'application/ms-tnef' };
    for (let at = 0; at < bytes.length; at++) {
      unpackContainer(info, bytes.subarray(0, at));
      for (const byte of [0, 1, 0x7f, 0xff]) {
        const changed = Buffer.from(bytes);
        changed[at] = byte;
        unpackContainer(info, changed);
      }
    }
  });
});
