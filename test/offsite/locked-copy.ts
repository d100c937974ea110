import path from 'node:path';
import { expect } from 'vitest';
import { S3Client } from '../../src/copies/s3-client.ts';
import { s3Store } from '../../src/copies/s3-store.ts';
import { copyToTarget } from '../../src/copies/upload-copy.ts';
import type { HttpProxy } from '../objects/servers/http-proxy.ts';
import { type S3Server, targetAt } from '../objects/servers/s3-server.ts';
import { objectsAt } from './copy-life.ts';
import { message, type ProgramArchive } from './copy-program.ts';
import { signal } from './sample-copy.ts';

const DAY = 24 * 3_600_000;

/** A copy that has begun in a bucket with Object Lock, below `mail`. */
interface Begun {
  readonly server: S3Server;
  readonly bucket: string;
  readonly archive: ProgramArchive;
  readonly proxy: HttpProxy;
  readonly to: string;
}

/** Returns the end of each object's lock, in milliseconds since 1970; NaN where it has none. */
async function locksAt({ server, bucket }: Begun): Promise<Map<string, number>> {
  const client = new S3Client(targetAt(server, bucket, { prefix: 'mail' }), {});
  const names = ['mailkeep-copy'];
  for (const folder of ['data', 'keys', 'manifests']) {
    names.push(...(await objectsAt(server, bucket, 'mail', folder)));
  }
  const locks = new Map<string, number>();
  for (const name of names) {
    const request = { operation: 'HeadObject', method: 'HEAD', name } as const;
    const { headers } = await client.request(request, signal);
    const isCompliance = headers['x-amz-object-lock-mode'] === 'COMPLIANCE';
    const until = Date.parse(String(headers['x-amz-object-lock-retain-until-date']));
    locks.set(name, isCompliance ? until : Number.NaN);
  }
  await client.close();
  return locks;
}

/** What the program locks cannot be deleted, and it names what a lock keeps of a message that was to be forgotten. */
export async function expectLocked(begun: Begun): Promise<void> {
  const { server, bucket, archive, to } = begun;
  const before = Date.now();
  // What is there without a lock gets one as well.
  await archive.run('copy', '--to', to);
  const copied = await archive.run('copy', '--to', to, '--lock-days', '30');
  expect(copied).toMatchObject({ uploaded: 0, locks: { extended: 4 } });
  await archive.import([message(2, 'ocelot')]);
  const grown = await archive.run('copy', '--to', to, '--lock-days', '30');
  expect(grown).toMatchObject({ uploaded: 1, locks: { extended: 0 } });
  const { until } = grown.locks as { until: number };
  const locks = await locksAt(begun);
  expect(locks.size).toBe(6);
  const store = s3Store(targetAt(server, bucket, { prefix: 'mail' }));
  for (const [name, end] of locks) {
    expect(`${name} ${end >= before + 30 * DAY && end < before + 31 * DAY}`).toBe(`${name} true`);
    await expect(store.delete(name, signal)).rejects.toMatchObject({ code: 'object-locked' });
  }
  await store.close();
  expect(Math.ceil(until / 1000) * 1000).toBe(Math.min(...locks.values()));

  const found = await archive.ended(['search', 'walrus']);
  const { id } = JSON.parse(found.stdout.split('\n')[0] ?? '') as { id: string };
  await archive.run('forget', id, '--yes');
  const ended = await archive.ended(['copy', '--to', to, '--lock-days', '30']);
  expect(ended.code).toBe(1);
  const { removed } = JSON.parse(ended.stdout) as {
    removed: { locked: { name: string; until: string }[]; lockedUntil: string };
  };
  // Both states of before, and what they list.
  expect(removed).toMatchObject({ manifests: 0, objects: 0 });
  const kept = new Map(removed.locked.map((one) => [one.name, Date.parse(one.until)]));
  expect(kept.size).toBe(4);
  for (const [name, end] of kept) expect(`${name} ${locks.get(name)}`).toBe(`${name} ${end}`);
  expect(Date.parse(removed.lockedUntil)).toBe(Math.max(...kept.values()));
}

/**
 * Locks are extended once less than half of their time is left, only of what the newest manifest names, and without any
 * request before that.
 */
export async function expectExtended(begun: Begun): Promise<void> {
  const { server, bucket, archive, proxy, to } = begun;
  const endpoint = `http://127.0.0.1:${proxy.port}`;
  const started = Math.floor(Date.now() / 1000) * 1000;
  const copy = async (day: number) => {
    const store = s3Store(targetAt(server, bucket, { prefix: 'mail', endpoint }));
    proxy.seen.length = 0;
    const copied = await copyToTarget({
      ...{ dataDir: archive.data, store, refresh: false, keep: 1, lockDays: 10, signal },
      now: () => started + day * DAY,
      onProgress: () => undefined,
    });
    await store.close();
    return copied;
  };
  await archive.closeSegment();
  await archive.import([message(2, 'ocelot')]);
  const first = await copy(0);
  expect(first).toMatchObject({
    uploaded: 2,
    locks: { extended: 2, until: started + 10 * DAY },
  });
  const before = await locksAt(begun);
  expect([...new Set(before.values())]).toEqual([started + 10 * DAY]);

  await archive.import([message(3, 'heron')]);
  expect(await copy(5)).toMatchObject({
    uploaded: 1,
    objects: 2,
    locks: { extended: 0, until: started + 10 * DAY },
  });
  const about = (name: string) => proxy.seen.filter((one) => one.path.includes(name));
  // Only the manifest that it continues was read, and the description and recipients, which every copy checks.
  for (const name of before.keys()) {
    const methods = about(path.basename(name)).map(({ method }) => method);
    const isRead = name === 'mailkeep-copy' || /^(?:manifests|keys)\//.test(name);
    expect([name, methods]).toEqual([name, isRead ? ['GET', ...methods.slice(1)] : []]);
    expect(methods.every((method) => method === 'GET')).toBe(true);
  }
  expect(about('retention')).toEqual([]);

  expect(await copy(6)).toMatchObject({
    uploaded: 0,
    locks: { extended: 3, until: started + 15 * DAY },
  });
  /** Each object with the day when its lock ends. */
  const ends = async () => {
    const locks = [...(await locksAt(begun))];
    return locks
      .map(([name, end]) => {
        const when = before.has(name) ? 'first' : 'second';
        return `${name.split('/')[0]} ${when} ${(end - started) / DAY}`;
      })
      .sort();
  };
  expect(await ends()).toEqual([
    'data first 10',
    'data first 16',
    'data second 15',
    'keys first 16',
    'mailkeep-copy first 16',
    'manifests first 10',
    'manifests second 15',
  ]);

  // A recipient that opens nothing new is left to be removed.
  const key = path.join(archive.folder, 'rotated.txt');
  await archive.run('copy', 'key', 'rotate', '--to', to, '--recovery-key-file', key);
  expect(await copy(12)).toMatchObject({ uploaded: 0, locks: { extended: 5 } });
  expect((await ends()).filter((text) => text.endsWith(' 22'))).toEqual([
    'data first 22',
    'data second 22',
    'keys second 22',
    'mailkeep-copy first 22',
    'manifests second 22',
  ]);
  const [old = ''] = [...before.keys()].filter((name) => name.startsWith('keys/'));
  expect((await locksAt(begun)).get(old)).toBe(started + 16 * DAY);
  const removing = ['copy', 'key', 'remove', '--to', to, path.basename(old)];
  const removed = await archive.ended(removing);
  expect(removed.code).toBe(1);
  expect(removed.stderr).toContain('object-locked');
}
