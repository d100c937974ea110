import { describe, expect, it, test } from 'vitest';
import { folderKey, generationKey } from '../../../src/core/state.ts';
import { FetchQueue } from '../../../src/sync/folder-sync.ts';
import { renameFolder } from '../../../src/sync/mailbox-sync.ts';
import { memoryOf } from '../harness.ts';

/** Fetches that end when they are told to, and a record of how many ran at once. */
class Fetches {
  readonly started: number[] = [];
  readonly #running = new Map<number, () => void>();
  most = 0;

  fetch(n: number): () => Promise<void> {
    return () => {
      this.started.push(n);
      return new Promise((resolve) => {
        this.#running.set(n, resolve);
        this.most = Math.max(this.most, this.#running.size);
      });
    };
  }

  async end(n: number): Promise<void> {
    this.#running.get(n)?.();
    this.#running.delete(n);
    await settled();
  }

  async endOldest(): Promise<boolean> {
    const [oldest] = this.#running.keys();
    if (oldest === undefined) return false;
    await this.end(oldest);
    return true;
  }
}

/** Lets every promise settle that can. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function isResolved(promise: Promise<void>): Promise<boolean> {
  let resolved = false;
  void promise.then(() => {
    resolved = true;
  });
  await settled();
  return resolved;
}

describe('a queue of fetches', () => {
  it('runs as many at once as it may, in the order in which they came', async () => {
    const fetches = new Fetches();
    const queue = new FetchQueue(3, 4);
    for (let n = 0; n < 50; n++) queue.add(fetches.fetch(n));
    expect(fetches.started).toEqual([0, 1, 2]);
    await fetches.end(1);
    expect(fetches.started).toEqual([0, 1, 2, 3]);
    while (await fetches.endOldest());
    expect(fetches.started).toEqual(Array.from({ length: 50 }, (_, n) => n));
    expect(fetches.most).toBe(3);
  });

  it('has room again when half of those that waited have started', async () => {
    const fetches = new Fetches();
    const queue = new FetchQueue(1, 4);
    for (let n = 0; n < 4; n++) queue.add(fetches.fetch(n));
    expect(await isResolved(queue.room())).toBe(true);
    queue.add(fetches.fetch(4));
    const room = queue.room();
    expect(await isResolved(room)).toBe(false);
    await fetches.endOldest();
    expect(await isResolved(room)).toBe(false);
    await fetches.endOldest();
    expect(await isResolved(room)).toBe(true);
  });

  it('is idle when nothing runs or waits, also when fetches come meanwhile', async () => {
    const fetches = new Fetches();
    const queue = new FetchQueue(2, 4);
    expect(await isResolved(queue.onIdle())).toBe(true);
    for (let n = 0; n < 3; n++) queue.add(fetches.fetch(n));
    const idle = queue.onIdle();
    await fetches.endOldest();
    await fetches.endOldest();
    expect(await isResolved(idle)).toBe(false);
    queue.add(fetches.fetch(3));
    await fetches.endOldest();
    expect(await isResolved(idle)).toBe(false);
    await fetches.endOldest();
    expect(await isResolved(idle)).toBe(true);
  });
});

test('what is remembered of a folder moves with it, whatever the scope', () => {
  const memory = memoryOf();
  const at = { host: 'mail.example.org', mailbox: 'AC1', folder: 'Old' };
  const renamed = { ...at, folder: 'New' };
  const proof = { at: '2026-11-20T00:00:00.000Z', complete: true, generation: 3, originTotal: 1 };
  const rest = { unread: 0, flagsAt: null, certifiedOn: null, incomplete: 0 };
  const listed = { tuple: null, highestUid: 7, readAt: proof.at, commit: null };
  const byFolder = [
    ['proof', { ...proof, ...rest, ...listed }],
    ['held', { since: 7 }],
    ['flag-counts', { theirs: 1, ours: 2, askedAt: 7 }],
  ] as const;
  const byGeneration = [
    ['coverage', [[1, 7]]],
    ['swept', { since: 7, uids: [[1, 7]] }],
  ] as const;
  for (const [scope, value] of byFolder) memory.set(scope, folderKey(at), value);
  for (const [scope, value] of byGeneration) memory.set(scope, generationKey(at, 3), value);
  memory.set('unlisted', folderKey(at), { since: 7 });
  renameFolder(memory, at, 'New', 3);
  for (const [scope, value] of byFolder) {
    expect(memory.get(scope, folderKey(renamed))).toEqual(value);
    expect(memory.get(scope, folderKey(at))).toBeUndefined();
  }
  for (const [scope, value] of byGeneration) {
    expect(memory.get(scope, generationKey(renamed, 3))).toEqual(value);
    expect(memory.get(scope, generationKey(at, 3))).toBeUndefined();
  }
  expect(memory.get('unlisted', folderKey(renamed))).toBeUndefined();
});
