import { copyFileSync, globSync, readdirSync, readlinkSync, renameSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { canonicalZone, ServedArchive } from '../../src/web/served-archive.ts';
import { StoredArchive } from '../export/stored-archive.ts';
import { archiveOf, letter, serve } from './served.ts';

/** Files below a folder that this process holds open although they are removed. */
function removedFiles(folder: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const file = readlinkSync(`/proc/self/fd/${fd}`);
      return file.startsWith(folder) && file.endsWith(' (deleted)') ? [file] : [];
    } catch {
      return [];
    }
  });
}

test.skipIf(process.platform !== 'linux')(
  'a segment that was replaced is let go of with the next request',
  async () => {
    const data = await archiveOf({ ferry: letter('Ferry', 'When does it leave?') });
    const archive = new ServedArchive(data);
    const read = () =>
      archive.use(null, ({ catalog, sources }) => {
        const [hit] = catalog
          .prepare({ node: { kind: 'all', span: { start: 0, end: 0 } } })
          .page({ limit: 1, sort: 'newest' }).hits;
        return sources()
          .readMessage(hit?.line.id ?? '')
          .toString();
      });
    expect(await read()).toContain('When does it leave?');
    const [segment = ''] = globSync('log/*.seg', { cwd: data });
    const file = path.join(data, segment);
    copyFileSync(file, `${file}.new`);
    renameSync(`${file}.new`, file);
    expect(removedFiles(data)).toHaveLength(1);
    await archive.use(null, () => {});
    expect(removedFiles(data)).toEqual([]);
    expect(await read()).toContain('When does it leave?');
    await archive.close();
  },
);

test('a folder whose path no query can hold is shown without a link', async () => {
  const archive = await StoredArchive.create();
  const long = `Long/${'x'.repeat(4_100)}`;
  await archive.store([
    { folder: long, source: Buffer.from(letter('Ferry', 'When does it leave?')) },
    { folder: 'INBOX', source: Buffer.from(letter('Other', 'Text')) },
  ]);
  onTestFinished(() => archive.remove());
  const served = await serve(archive.dir);
  for (const address of [
    '/mail',
    '/mail?q=asof:2030-01-01',
    '/files',
    '/health/folders',
    '/dashboard',
  ]) {
    const { status, text } = await served.get(address);
    expect([address, status]).toEqual([address, 200]);
    if (address.startsWith('/mail')) expect(text).toContain('x'.repeat(4_100));
  }
  const [mailbox] = (await served.data('/api/frame?q=')).tree.mailboxes;
  const named = mailbox.folders.map(({ name, query }: { name: string; query: string | null }) => [
    name === long,
    query === null,
  ]);
  expect(named.sort()).toEqual([
    [false, false],
    [true, true],
  ]);
  expect(served.errors).toEqual([]);
});

test('each spelling of a zone is the same zone', () => {
  expect(['eUrOpE/bErLiN', 'Europe/Berlin'].map(canonicalZone)).toEqual([
    'Europe/Berlin',
    'Europe/Berlin',
  ]);
  for (const unknown of [undefined, '', 'Nowhere/Land', 'x'.repeat(10_000)])
    expect(canonicalZone(unknown)).toBeUndefined();
});
