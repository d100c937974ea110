import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { MANIFEST_VERSION } from '../../src/transfer/export-manifest.ts';
import { ExportIndex } from '../../src/transfer/import-manifests.ts';

/** The lines of a manifest with one list, and the hash that seals them. */
async function* manifestOf(list: 'files' | 'entries', items: readonly object[]) {
  const head = {
    mailkeep: MANIFEST_VERSION,
    format: 'eml',
    commit: { number: 0, hash: '' },
    asOf: null,
    selection: {},
  };
  const last = items.length - 1;
  const lines = [
    `${JSON.stringify(head).slice(0, -1)},`,
    `"${list}":[`,
    ...items.map((item, at) => `${JSON.stringify(item)}${at === last ? '' : ','}`),
    '],',
  ];
  const digest = createHash('sha256').update(lines.map((line) => `${line}\n`).join(''));
  yield* lines;
  yield `"sha256":"${digest.digest('hex')}"}`;
}

function fileAt(path: string): object {
  return { path, sha256: '0'.repeat(64), size: 0 };
}

function entryAt(path: string, more: object = {}): object {
  return {
    ...fileAt(path),
    mailbox: 'anna@example.org',
    host: 'mail.example.org',
    resourceId: 'r1',
    folder: 'INBOX',
    delimiter: '/',
    generation: 1,
    uid: 1,
    flags: [],
    date: null,
    firstSeen: null,
    endedAt: null,
    ...more,
  };
}

test('a file is found under either form of its accents', async () => {
  const index = await ExportIndex.read(manifestOf('files', [fileAt('a/é.json')]));
  expect(index.isOther('a/e\u0301.json')).toBe(true);
  expect(index.isOther('a/e.json')).toBe(false);
  index.close();
});

test('a path of many marks takes no longer than its length', async () => {
  const cost = async (length: number): Promise<number> => {
    const before = process.cpuUsage();
    (
      await ExportIndex.read(manifestOf('files', [fileAt(`a${'\u0301\u0323'.repeat(length / 2)}`)]))
    ).close();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  };
  await cost(100);
  const short = await cost(40_000);
  // Milliseconds; normalizing such a path in one piece takes seconds.
  expect(await cost(80_000)).toBeLessThan(3 * short + 200);
});

test('what was not met is listed for a folder, a file, or the whole export', async () => {
  const paths = ['a', 'a b/1', 'a.b', 'a/1', 'a/b/2', 'a0', '\u{10ffff}\u{10ffff}'];
  const index = await ExportIndex.read(
    manifestOf(
      'entries',
      paths.map((path) => entryAt(path)),
    ),
  );
  expect([...index.unmet('')].sort()).toEqual([...paths].sort());
  expect([...index.unmet('a')].sort()).toEqual(['a', 'a/1', 'a/b/2']);
  expect([...index.unmet('a/1')]).toEqual(['a/1']);
  const found = index.find('a/1');
  if (found !== undefined) index.meet(found);
  expect([...index.unmet('a')].sort()).toEqual(['a', 'a/b/2']);
  index.close();
});

test('a thousand files named one by one cost no more than their number', async () => {
  const cost = async (count: number): Promise<number> => {
    const paths = Array.from({ length: count }, (_, at) => `folder/${at}.eml`);
    const index = await ExportIndex.read(
      manifestOf(
        'entries',
        paths.map((path) => entryAt(path)),
      ),
    );
    const before = process.cpuUsage();
    for (const path of paths) expect([...index.unmet(path)]).toEqual([path]);
    const { user, system } = process.cpuUsage(before);
    index.close();
    return (user + system) / 1000;
  };
  await cost(100);
  const short = await cost(4_000);
  // Milliseconds; a scan of all entries for each file takes seconds.
  expect(await cost(8_000)).toBeLessThan(3 * short + 200);
});

test('names and delimiters that no service has are not taken from a manifest', async () => {
  const long = 'x'.repeat(5000);
  const index = await ExportIndex.read(
    manifestOf('entries', [
      entryAt('1.eml', { mailbox: long }),
      entryAt('2.eml', { folder: 'a/b', delimiter: long }),
    ]),
  );
  expect(index.find('1.eml')).toBeUndefined();
  const found = index.find('2.eml');
  expect(found && index.folderOf(found)).toMatchObject({
    folder: 'a/b',
    name: 'b',
    delimiter: '/',
  });
  index.close();
});
