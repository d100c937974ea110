import { createHash } from 'node:crypto';
import { simpleParser } from 'mailparser';
import { describe, expect, test } from 'vitest';
import type { MailSeed } from '../../../src/sandbox/generated-mail.ts';
import { documentAt } from '../../../src/sandbox/generated-mail.ts';
import { GeneratedBlock } from '../../../src/sandbox/seed.ts';

const MAIL: MailSeed = {
  seed: 1,
  documentSeed: 1,
  count: 1000,
  owner: 'ada@example.org',
  newest: Date.UTC(2026, 0, 5, 9, 30),
};

describe('generated mail', () => {
  test('is the same for ever', () => {
    const block = new GeneratedBlock(MAIL);
    const hash = createHash('sha256');
    for (let index = 0; index < 100; index += 1) {
      const { folder, flags } = block.place(index);
      hash
        .update(block.read(index))
        .update(`${folder} ${flags.join(' ')} ${block.received(index)}`);
    }
    expect(hash.digest('hex')).toBe(
      '94669a07fd3ecba1d16fe9969801b5b39951546080f7e60c4abc244cdc093477',
    );
  });

  test('needs no other message to be written, and differs from seed to seed', () => {
    const block = new GeneratedBlock(MAIL);
    const late = block.read(900);
    expect(new GeneratedBlock(MAIL).read(900)).toEqual(late);
    expect(new GeneratedBlock({ ...MAIL, seed: 2 }).read(900)).not.toEqual(late);
    expect(block.size(900)).toBe(late.length);
  });

  test('lies in order of its received dates, the newest where it was asked for', () => {
    const block = new GeneratedBlock(MAIL);
    for (let index = 1; index < MAIL.count; index += 1) {
      expect(block.received(index)).toBeGreaterThanOrEqual(block.received(index - 1));
    }
    expect(block.received(MAIL.count - 1)).toBe(MAIL.newest);
  });

  test('holds threads, charsets, languages, attachments that meet again, folders and flags', async () => {
    const block = new GeneratedBlock(MAIL);
    const words = ['ご確認ください', 'Здравствуйте', '请在', 'Grüße', 'séjour', 'almacén'];
    const found = new Set<string>();
    const charsets = new Set<string>();
    const attachments = new Map<string, number>();
    const ids = new Set<string>();
    let answers = 0;
    for (let index = 0; index < MAIL.count; index += 1) {
      const source = block.read(index);
      for (const match of source.toString('latin1').matchAll(/charset=([\w-]+)\r/g)) {
        charsets.add(match[1] ?? '');
      }
      const mail = await simpleParser(source, { skipTextToHtml: true, skipHtmlToText: true });
      const text = String(mail.text ?? mail.html);
      for (const word of words) if (text.includes(word)) found.add(word);
      expect(text).not.toContain('\ufffd');
      ids.add(mail.messageId ?? '');
      if (mail.inReplyTo !== undefined) {
        answers += 1;
        expect(ids).toContain(mail.inReplyTo);
      }
      for (const { checksum } of mail.attachments) {
        attachments.set(checksum, (attachments.get(checksum) ?? 0) + 1);
      }
    }
    expect(found.size).toBe(6);
    expect(ids.size).toBe(MAIL.count);
    expect(answers).toBeGreaterThan(200);
    expect([...charsets]).toEqual(
      expect.arrayContaining([
        'us-ascii',
        'utf-8',
        'iso-8859-1',
        'windows-1252',
        'iso-2022-jp',
        'koi8-r',
        'gb18030',
      ]),
    );
    expect([...attachments.values()].some((count) => count > 10)).toBe(true);
    const places = Array.from({ length: MAIL.count }, (_, index) => block.place(index));
    expect(new Set(places.map(({ folder }) => folder)).size).toBeGreaterThan(8);
    expect(new Set(places.flatMap(({ flags }) => flags))).toEqual(
      new Set(['\\Seen', '\\Draft', '\\Answered', '\\Flagged', '$label1', '$forwarded']),
    );
  });

  test('attaches pictures and documents that are what they say they are', () => {
    const starts = new Map([
      ['application/pdf', '%PDF-1.4'],
      ['image/png', '\x89PNG\r\n'],
      ['text/csv', 'date;'],
    ]);
    for (let number = 0; number < 40; number += 1) {
      const { contentType, bytes } = documentAt(1, number);
      expect(bytes.toString('latin1').startsWith(starts.get(contentType) ?? '')).toBe(true);
    }
  });
});
