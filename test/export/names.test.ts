import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { foldedName } from '../../src/mail/file-names.ts';
import {
  decodeModifiedUtf7,
  encodeModifiedUtf7,
  flagsFromName,
} from '../../src/mail/mail-files.ts';
import { checkExport } from '../../src/transfer/check-export.ts';
import {
  FolderPaths,
  maildirFileName,
  messageName,
  type NamedFolder,
} from '../../src/transfer/export-names.ts';
import { runExport } from '../../src/transfer/run-export.ts';
import { EVERYTHING, exporting, StoredArchive, tree } from './stored-archive.ts';

/** Texts as mail has them: scripts, marks, controls, separators, devices, dots and blanks at either end. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.string({ unit: 'grapheme', maxLength: 80 }),
  fc.constantFrom(
    'CON',
    'nul.txt',
    '..',
    '.',
    '',
    ' . ',
    '../../etc/passwd',
    'a\\b',
    'é',
    'e\u0301',
  ),
  fc.constantFrom(
    'STRASSE',
    'straße',
    'INBOX',
    'inbox',
    'x.eml',
    'x.mbox',
    'COM1',
    '-rf',
    '~',
    ':',
  ),
  fc.constantFrom('ﬁ', 'fi', '\ud800', '\u202egnp.exe', '🙂'.repeat(90), 'Å', 'Å', 'K', 'K'),
);
const hash = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((b) => Buffer.from(b).toString('hex'));
const message = fc.record({
  id: hash,
  generation: fc.integer({ min: 1, max: 99 }),
  uid: fc.integer({ min: 1, max: 4_294_967_295 }),
  date: fc.option(fc.date({ noInvalidDate: true }).map((date) => date.toISOString())),
  from: fc.option(fc.record({ name: text, address: text })),
  subject: fc.option(text),
});
const folder = fc.record({
  host: fc.constantFrom('a.example', 'b.example'),
  mailbox: fc.constantFrom('AC1', 'AC2', 'AC3'),
  address: text,
  path: fc.array(text, { minLength: 1, maxLength: 12 }).map((levels) => levels.join('/')),
});
const delimiter = fc.constantFrom('/', '.', '');

/** One component that Linux, macOS and Windows all take, and give back as it was. */
function expectSafe(name: string): void {
  expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255);
  expect(name).not.toBe('');
  expect(name).toBe(name.normalize('NFC'));
  expect(name).not.toMatch(/[<>:"/\\|?*\p{Cc}\p{Surrogate}\u202e]/u);
  expect(name).not.toMatch(/[. ]$/);
  expect(name).not.toMatch(/^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i);
}

const keyOf = (it: NamedFolder) => JSON.stringify([it.host, it.mailbox, it.path]);

describe('names of messages', () => {
  it('are safe on every system, and within a folder unlike each other in any case', () => {
    fc.assert(
      fc.property(fc.array(message, { maxLength: 12 }), (messages) => {
        const names = new Map<string, string>();
        for (const it of messages) {
          const name = `${messageName(it)}.eml`;
          expectSafe(name);
          expect(Buffer.byteLength(name)).toBeLessThanOrEqual(200);
          const key = `${it.id} ${it.generation} ${it.uid}`;
          expect(names.get(foldedName(name)) ?? key).toBe(key);
          names.set(foldedName(name), key);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('tell date, sender, subject and a short id', () => {
    const from = { name: 'Anna Berg', address: 'anna@example.org' };
    const id = '3f2a91c4'.padEnd(64, '0');
    const place = { id, generation: 1, uid: 12, date: '2026-03-01T09:41:07.000Z' };
    expect(messageName({ ...place, from, subject: 'Rent: March?' })).toBe(
      '2026-03-01 0941 - Anna Berg - Rent_ March_ - 3f2a91c4-12',
    );
    expect(messageName({ ...place, generation: 2, date: null, from: null, subject: null })).toBe(
      'undated - unknown sender - no subject - 3f2a91c4-12g2',
    );
  });
});

describe('paths of folders', () => {
  it('are safe, never meet, and do not depend on folders that came later', () => {
    const formats = fc.constantFrom('nested' as const, 'maildir' as const);
    fc.assert(
      fc.property(
        fc.array(folder, { maxLength: 12 }),
        delimiter,
        formats,
        fc.nat(),
        (named, parting, format, cut) => {
          const folders = named.map((it) => ({ ...it, delimiter: parting }));
          const paths = new FolderPaths(format);
          const given = new Map(folders.map((it) => [keyOf(it), paths.of(it)]));
          const taken = new Map<string, string>();
          for (const it of folders) {
            const path = paths.of(it);
            expect(path).toBe(given.get(keyOf(it)));
            for (const level of path.split('/')) expectSafe(level);
            expect(path.split('/').length).toBeLessThanOrEqual(9);
            expect(taken.get(foldedName(path)) ?? keyOf(it)).toBe(keyOf(it));
            taken.set(foldedName(path), keyOf(it));
          }
          const fewer = new FolderPaths(format);
          for (const it of folders.slice(0, cut % (folders.length + 1))) {
            expect(fewer.of(it)).toBe(given.get(keyOf(it)));
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('are what people know where every system takes that', () => {
    const own = { host: 'a.example', mailbox: 'AC1', address: 'anna@example.org' };
    const nested = new FolderPaths('nested');
    expect(nested.of({ ...own, path: 'INBOX.Sent', delimiter: '.' })).toBe(
      'anna@example.org/INBOX.Sent',
    );
    expect(nested.of({ ...own, path: 'Work/2024', delimiter: '/' })).toBe(
      'anna@example.org/Work/2024',
    );
    const maildir = new FolderPaths('maildir');
    expect(maildir.of({ ...own, path: 'INBOX', delimiter: '.' })).toBe('anna@example.org');
    expect(maildir.of({ ...own, path: 'INBOX.Büro.a', delimiter: '.' })).toBe(
      'anna@example.org/.B&APw-ro.a',
    );
  });
});

describe('names in a Maildir', () => {
  it('give flags and folder names back', () => {
    const flags = fc.subarray([
      '\\Draft',
      '\\Flagged',
      '$forwarded',
      '\\Answered',
      '\\Seen',
      '\\Deleted',
    ]);
    fc.assert(
      fc.property(message, flags, fc.constantFrom(':' as const, ';' as const), (it, set, mark) => {
        const name = maildirFileName({ ...it, size: 1, flags: set }, mark);
        expect(flagsFromName(name).sort()).toEqual([...set].sort());
        expect(name).toMatch(/^\d+\.[!-9;-~]+[:;]2,[A-Z]*$/);
      }),
    );
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (name) => {
        expect(encodeModifiedUtf7(name)).toMatch(/^[\x20-\x7e]*$/);
        expect(decodeModifiedUtf7(encodeModifiedUtf7(name))).toBe(name);
      }),
    );
  });
});

const check = (at: string) => checkExport({ at, signal: new AbortController().signal });

it('two folders whose names are the same text are told apart, and no message is dropped silently', async () => {
  const odd = await StoredArchive.create();
  try {
    await odd.store([
      { folder: 'a\ud800', source: Buffer.from('Subject: one\n\n1\n') },
      { folder: 'a\ud801', uid: 1, source: Buffer.from('Subject: one\n\n1\n') },
    ]);
    const to = path.join(odd.dir, 'out');
    const result = await runExport(exporting(odd, to, 'eml'));
    expect(result).toMatchObject({ places: 2, exported: 2, failures: [] });
    expect(await check(to)).toMatchObject({ sound: true, found: 0, messages: 2 });
  } finally {
    odd.remove();
  }
});

describe('two folders with one path', () => {
  /** One that went as INBOX.Old, and another that was renamed to it; each had the same message at the same uid. */
  async function withNamesakes(): Promise<StoredArchive> {
    const stored = await StoredArchive.create();
    const source = Buffer.from('Subject: twice\r\n\r\nThe same in both.\r\n');
    await stored.store([{ folder: 'INBOX.Old', source, uid: 7 }]);
    await stored.commitFacts([
      { fact: 'ended', folder: 'INBOX.Old', generation: 1, uid: 7, reason: 'gone' },
      { fact: 'folder-gone', folder: 'INBOX.Old' },
    ]);
    await stored.store([{ folder: 'INBOX.New', source, uid: 7 }]);
    await stored.commitFacts([
      { fact: 'folder-renamed', folder: 'INBOX.New', to: 'INBOX.Old' },
      { fact: 'ended', folder: 'INBOX.Old', generation: 1, uid: 7, reason: 'gone' },
    ]);
    return stored;
  }

  it.each(['eml', 'zip', 'mbox', 'maildir'] as const)(
    'are told apart in %s, now and by the next export',
    async (format) => {
      const stored = await withNamesakes();
      try {
        const to = path.join(stored.dir, format === 'zip' ? 'out.zip' : 'out');
        const options = exporting(stored, to, format);
        const selection = { ...EVERYTHING, deleted: true };
        const first = await runExport({ ...options, selection });
        expect(first).toMatchObject({ places: 2, exported: 2, kept: 0 });
        expect(await check(to)).toMatchObject({ sound: true, found: 0, messages: 2 });
        for (const incremental of [false, true]) {
          const again = await runExport({ ...options, selection, incremental });
          expect(again).toMatchObject({ places: 2, kept: 0, failures: [] });
          expect(again.exported + again.skipped).toBe(2);
          expect(await check(to)).toMatchObject({ sound: true, found: 0, messages: 2 });
        }
      } finally {
        stored.remove();
      }
    },
  );
});

it('ends loudly when what it counted does not add up, and leaves no manifest that says otherwise', async () => {
  const stored = await StoredArchive.create();
  try {
    await stored.store([{ folder: 'INBOX', source: Buffer.from('Subject: one\r\n\r\n1\r\n') }]);
    const to = path.join(stored.dir, 'out');
    const { catalog, ...options } = exporting(stored, to, 'eml');
    const twice: typeof catalog = {
      ...catalog,
      *listPlaces(filter) {
        for (const place of stored.catalog.listPlaces(filter)) yield* [place, place];
      },
    };
    await expect(runExport({ ...options, catalog: twice })).rejects.toMatchObject({
      code: 'export-incomplete',
      facts: { places: 2, told: 1 },
    });
    expect([...tree(to).keys()]).not.toContain('mailkeep-export.json');
  } finally {
    stored.remove();
  }
});
