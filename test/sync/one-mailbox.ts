import { afterEach, beforeEach, expect } from 'vitest';
import { Archive } from './harness.ts';
import { ModelFolder, ModelOrigin, mail } from './model-origin.ts';

export const HOUR = 3_600_000;
export const policy = { full: false, acceptEndings: false };

/** The archive and the origin of the test that runs; new for each one of a file that calls `eachWithItsOwn`. */
export let archive: Archive;
export let origin: ModelOrigin;

export function eachWithItsOwn(): void {
  beforeEach(() => {
    archive = new Archive();
    origin = new ModelOrigin();
  });
  afterEach(() => {
    archive.remove();
  });
}

export function folders(counts: Record<string, number>): void {
  origin.mailbox(
    'AC1',
    'ada@example.org',
    Object.entries(counts).map(([path, count]) => {
      const folder = new ModelFolder(path, path.endsWith('.Trash') ? '\\Trash' : null);
      for (let i = 1; i <= count; i += 1)
        folder.deliver(mail(`${path} ${i}`), { flags: ['\\Seen'] });
      return folder;
    }),
  );
}

export function box(path: string): ModelFolder {
  const folder = origin.boxes.get('AC1')?.folders.get(path);
  if (folder === undefined) throw new Error(`the model has no ${path}`);
  return folder;
}

export function move(from: string, to: string, uids: readonly number[]): void {
  for (const uid of uids) {
    const message = box(from).messages.get(uid);
    if (message === undefined) continue;
    box(from).messages.delete(uid);
    box(to).deliver(message.raw, { date: message.date, flags: [...message.flags] });
  }
}

export function rename(from: string, to: string): void {
  const all = origin.boxes.get('AC1')?.folders;
  const folder = new ModelFolder(to);
  for (const [uid, message] of box(from).messages) folder.messages.set(uid, message);
  folder.nextUid = box(from).nextUid;
  all?.delete(from);
  all?.set(to, folder);
}

/** Reassigns every uid, from 1, in the order of the old ones. */
export function renumber(path: string, first = 1): void {
  const messages = [...box(path).messages.values()];
  box(path).messages.clear();
  box(path).nextUid = first;
  for (const { raw, date, flags } of messages) box(path).deliver(raw, { date, flags });
}

export async function expectTrue(): Promise<void> {
  const mirrored = await archive.places();
  const there = new Map(
    [...(origin.boxes.get('AC1')?.folders.values() ?? [])].flatMap((folder) =>
      [...folder.messages.values()].map((m) => [`${folder.path}/${m.uid}`, [...m.flags].sort()]),
    ),
  );
  expect(new Map([...mirrored].map(([place, { flags }]) => [place, [...flags]]))).toEqual(there);
}

export const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i);
