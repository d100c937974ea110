import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { MANIFEST_VERSION } from '../../src/export/manifest.ts';
import { ExportIndex } from '../../src/import/export-index.ts';

/** The lines of a manifest that lists one file, with the hash that seals them. */
async function* manifestOf(path: string): AsyncGenerator<string> {
  const head = {
    mailkeep: MANIFEST_VERSION,
    format: 'eml',
    commit: { number: 0, hash: '' },
    asOf: null,
    selection: {},
  };
  const file = { path, sha256: '0'.repeat(64), size: 0 };
  const lines = [`${JSON.stringify(head).slice(0, -1)},`, '"files":[', JSON.stringify(file), '],'];
  const digest = createHash('sha256').update(lines.map((line) => `${line}\n`).join(''));
  yield* lines;
  yield `"sha256":"${digest.digest('hex')}"}`;
}

test('a file is found under either form of its accents', async () => {
  const index = await ExportIndex.read(manifestOf('a/é.json'));
  expect(index.isOther('a/e\u0301.json')).toBe(true);
  expect(index.isOther('a/e.json')).toBe(false);
  index.close();
});

test('a path of many marks takes no longer than its length', async () => {
  const cost = async (length: number): Promise<number> => {
    const before = process.cpuUsage();
    (await ExportIndex.read(manifestOf(`a${'\u0301\u0323'.repeat(length / 2)}`))).close();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  };
  await cost(100);
  const short = await cost(40_000);
  // Milliseconds; normalizing such a path in one piece takes seconds.
  expect(await cost(80_000)).toBeLessThan(3 * short + 200);
});
