import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { s3Store } from '../../src/copies/s3-store.ts';
import { seeded } from '../bench/seeded.ts';
import { mailkeep } from '../cli/child.ts';
import type { S3Server } from '../objects/servers/s3-server.ts';
import { targetAt } from '../objects/servers/s3-server.ts';
import { message, ProgramArchive, s3Environment } from './copy-program.ts';
import { batchesIn, signal } from './sample-copy.ts';

/** Long enough for several parts of an upload. */
const LARGE = 9_000_000;

/** Returns the names of all objects of a copy in a folder. */
export async function objectsAt(
  server: S3Server,
  bucket: string,
  prefix: string,
  folder: string,
): Promise<string[]> {
  const store = s3Store(targetAt(server, bucket, { prefix }));
  const names: string[] = [];
  for await (const { name } of store.list(`${folder}/`, signal)) names.push(name);
  await store.close();
  return names;
}

/**
 * The life of a copy, by the program: it begins, grows, is interrupted and continued, forgets a message, and comes back
 * with nothing but the recovery key, into an archive that is equal to the original.
 */
export async function expectLife(server: S3Server, bucket: string): Promise<void> {
  const to = `s3://${bucket}/life`;
  const env = s3Environment(server);
  const archive = new ProgramArchive(env);
  const key = path.join(archive.folder, 'recovery-key.txt');
  const objects = (folder: string) => objectsAt(server, bucket, 'life', folder);
  try {
    await archive.import([message(1, 'walrus'), message(2, 'giraffe')]);
    const begun = ['copy', 'init', '--to', to, '--create-bucket', '--recovery-key-file', key];
    await archive.run(...begun);
    expect(await archive.run('copy', '--to', to)).toMatchObject({ uploaded: 1, objects: 1 });
    await archive.import([message(3, 'ocelot', seeded('ocelot').bytes(LARGE))]);
    await archive.closeSegment();
    await archive.import([message(4, 'heron')]);
    // The first segment is closed now, and the next one has begun.
    expect(await archive.run('copy', '--to', to)).toMatchObject({ uploaded: 2, objects: 2 });
    await archive.import([message(5, 'badger')]);
    // The segment stays; the tail is joined.
    const grown = await archive.run('copy', '--to', to);
    expect(grown).toMatchObject({ uploaded: 1, objects: 2, invalid: [] });
    expect(await archive.run('copy', '--to', to)).toMatchObject({ uploaded: 0, bytes: 0 });
    expect(await archive.run('verify', '--copy', to)).toMatchObject({ opened: true, findings: [] });

    const before = { data: await objects('data'), manifests: await objects('manifests') };
    expect(before.manifests.length).toBe(3);
    const found = await archive.ended(['search', 'walrus']);
    const { id } = JSON.parse(found.stdout.split('\n')[0] ?? '') as { id: string };
    await archive.run('forget', id, '--yes');
    const after = await archive.run('copy', '--to', to);
    expect(after).toMatchObject({ removed: { manifests: 3, locked: [] } });
    // Nothing that was there before the purge leads to the message.
    const left = { data: await objects('data'), manifests: await objects('manifests') };
    expect(left.manifests.filter((name) => before.manifests.includes(name))).toEqual([]);
    expect(left.manifests.length).toBe(1);
    expect(left.data.length).toBe(2);

    const back = path.join(archive.folder, 'back');
    mkdirSync(back);
    const from = ['copy', '--from', to, '--to', back, '--recovery-key-file', key, '--json'];
    const brought = await mailkeep(from, { env });
    expect(`${brought.code} ${brought.stderr}`).toBe('0 ');
    expect(JSON.parse(brought.stdout)).toMatchObject({
      number: after.number,
      messages: 4,
      bytes: bytesBelow(path.join(back, 'log')),
      lost: [],
      invalid: [],
    });
    const verified = await mailkeep(['verify', '--data', back, '--json']);
    expect(JSON.parse(verified.stdout)).toMatchObject({ ok: true, catalog: 'equal' });
    expect(verified.code).toBe(0);
    const hits = async (word: string) =>
      (await mailkeep(['search', word, '--data', back, '--json'])).stdout.split('\n').length - 1;
    expect(await Promise.all(['giraffe', 'ocelot', 'badger', 'walrus'].map(hits))).toEqual([
      ...[1, 1, 1, 0],
    ]);
    expect(await batchesIn(back)).toEqual(await batchesIn(archive.data));
  } finally {
    rmSync(archive.folder, { recursive: true });
  }
}

function bytesBelow(folder: string): number {
  return readdirSync(folder)
    .map((name) => statSync(path.join(folder, name)).size)
    .reduce((sum, size) => sum + size, 0);
}
