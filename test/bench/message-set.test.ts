import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { simpleParser } from 'mailparser';
import { afterAll, describe, expect, test } from 'vitest';
import { attachmentFor } from './attachment.ts';
import { attach, repeatMessage } from './message-copy.ts';
import { makeMessageSet } from './message-set.ts';
import { seeded } from './seeded.ts';
import { generatedStock, type SourceStock } from './source-stock.ts';

const folder = mkdtempSync(join(tmpdir(), 'mailkeep-bench-set-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const sources = Array.from({ length: 50 }, (_, i) =>
  Buffer.from(
    `From: Ann ${i} <ann@example.org>\nMessage-ID: <m${i}@example.org>\nReferences: <m0@example.org>\n` +
      `Date: Tue, 0${1 + (i % 9)} Mar 2022 10:00:00 +0100\nContent-Type: text/plain;\n charset=iso-8859-1\n` +
      `Content-Transfer-Encoding: 8bit\nSubject: S${i}\n\n` +
      `Some words of gr\xfc\xdfe about number${i} follow the others here\n`.repeat(1 + (i % 7)) +
      // What only some messages say: the searches of a benchmark are chosen from that.
      (i % 3 === 1 ? 'Attached is the quarterly report once more\n' : ''),
    'latin1',
  ),
);
const stock: SourceStock = {
  name: 'samples',
  size: sources.length,
  hasAttachments: false,
  source: (index) => sources[index] ?? Buffer.alloc(0),
};

function hashes(maildir: string): string[] {
  return readdirSync(maildir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) =>
      createHash('sha256')
        .update(readFileSync(join(entry.parentPath, entry.name)))
        .digest('hex'),
    )
    .sort();
}

describe('the messages of a benchmark', () => {
  test('are as many as asked for, all different, and the same for the same seed', () => {
    const one = makeMessageSet(join(folder, 'one'), stock, 400, 7);
    const again = makeMessageSet(join(folder, 'again'), stock, 400, 7);
    const other = makeMessageSet(join(folder, 'other'), stock, 400, 8);
    expect(new Set(hashes(one.maildir)).size).toBe(400);
    expect(hashes(again.maildir)).toEqual(hashes(one.maildir));
    expect(hashes(other.maildir)).not.toEqual(hashes(one.maildir));
    expect(again.rawBytes).toBe(one.rawBytes);
    expect(one.folderCounts.reduce((sum, count) => sum + count, 0)).toBe(400);
    expect(one.attachmentShare).toBeGreaterThan(0.1);
    expect(one.attachmentShare).toBeLessThan(0.3);
  });

  test('come from the generator where there is no real mail', () => {
    const set = makeMessageSet(join(folder, 'generated'), generatedStock(300, 5), 300, 5);
    expect(new Set(hashes(set.maildir)).size).toBe(300);
    expect(set.attachmentShare).toBeGreaterThan(0.05);
  });

  test('keep their text when an attachment is put behind it', async () => {
    const [source] = sources;
    if (source === undefined) throw new Error('no source');
    const attachment = attachmentFor(1, 3);
    const parsed = await simpleParser(attach(source, attachment, seeded('test')));
    expect(parsed.text?.trim()).toBe('Some words of grüße about number0 follow the others here');
    expect(parsed.subject).toBe('S0');
    expect(parsed.attachments.map(({ filename }) => filename)).toEqual([attachment.filename]);
    expect(parsed.attachments[0]?.content.equals(attachment.bytes)).toBe(true);
  });

  test('are repeated with other ids, another date and another word, and keep their threads', async () => {
    const [source] = sources;
    if (source === undefined) throw new Error('no source');
    const copy = repeatMessage(source, 2, seeded('test'));
    const parsed = await simpleParser(copy);
    expect(parsed.messageId).toBe('<k2.m0@example.org>');
    expect(parsed.references).toBe('<k2.m0@example.org>');
    expect(parsed.date?.getTime()).toBeLessThan(Date.UTC(2022, 0, 1));
    const words = (parsed.text ?? '').trim().split(' ');
    const before = 'Some words of grüße about number0 follow the others here'.split(' ');
    expect(words.filter((word, i) => word !== before[i])).toHaveLength(1);
    expect(copy.includes('\r')).toBe(false);
  });

  test('do not share an attachment that came with the source, except now and then', () => {
    const lines = seeded('bytes').bytes(570).toString('base64').match(/.{76}/g) ?? [];
    const source = Buffer.from(
      `Message-ID: <a@b>\nContent-Transfer-Encoding: base64\n\n${lines.join('\n')}\n`,
    );
    const copies = Array.from(
      { length: 40 },
      (_, i) => repeatMessage(source, 1, seeded('copy', i)).toString('latin1').split('\n\n')[1],
    );
    const same = copies.filter((body) => body === `${lines.join('\n')}\n`).length;
    expect(same).toBeLessThan(20);
    for (const body of copies) expect(body?.length).toBe(lines.join('\n').length + 1);
  });
});
