import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkExport } from '../../src/transfer/check-export.ts';
import { runExport } from '../../src/transfer/run-export.ts';
import { EVERYTHING, exporting, StoredArchive, tree } from './stored-archive.ts';

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
        const options = { ...exporting(stored, to, format), platform: 'linux' as const };
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
