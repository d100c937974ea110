import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { seeded } from '../bench/seeded.ts';
import { Archive } from '../sync/harness.ts';
import { ModelFolder, ModelOrigin, mail } from '../sync/model-origin.ts';

let archive: Archive;
let origin: ModelOrigin;
beforeEach(() => {
  archive = new Archive();
  origin = new ModelOrigin();
});
afterEach(() => archive.remove());

const FOLDERS = ['INBOX', 'INBOX.Work'];

function fill(count: number): void {
  const folders = FOLDERS.map((path) => new ModelFolder(path));
  origin.mailbox('AC1', 'ada@example.org', folders);
  for (const folder of folders) {
    const own = folder.path === 'INBOX' ? count : 60;
    for (let i = 1; i <= own; i += 1) folder.deliver(mail(`${folder.path} ${i}`));
  }
}

function inbox(): ModelFolder {
  const folder = origin.boxes.get('AC1')?.folders.get('INBOX');
  if (folder === undefined) throw new Error('the model has no INBOX');
  return folder;
}

/** Gives every message of a folder the uid that `to` names for the old one. */
function renumber(folder: ModelFolder, to: (uid: number) => number): void {
  const messages = [...folder.messages.values()];
  folder.messages.clear();
  for (const message of messages) {
    const uid = to(message.uid);
    folder.messages.set(uid, { ...message, uid });
  }
  folder.nextUid = Math.max(...folder.messages.keys()) + 1;
}

/** One sync, and the sources that it fetched. */
async function synced(full: boolean) {
  const before = origin.count('source');
  const result = await archive.sync(origin, { policy: { full, acceptEndings: false } });
  return { result, fetched: origin.count('source') - before };
}

/** The hash under which each place of the archive is stored, by folder and uid. */
async function stored(): Promise<Map<string, string | null>> {
  return archive.reading(
    (catalog) =>
      new Map([...catalog.list({})].map(({ folder, uid, id }) => [`${folder}/${uid}`, id])),
  );
}

/** What the model shows now: each message under its first uid's bytes. */
async function expectMirrored(known: ReadonlyMap<string, string | null>): Promise<void> {
  const byText = new Map<string, string | null>();
  for (const [text, id] of known) byText.set(text, id);
  const there = [...(origin.boxes.get('AC1')?.folders.values() ?? [])].flatMap((folder) =>
    [...folder.messages.values()].map(({ uid, raw }) => ({
      at: `${folder.path}/${uid}`,
      id: byText.get(raw.toString()),
    })),
  );
  const here = await stored();
  expect([...here.keys()].sort()).toEqual(there.map(({ at }) => at).sort());
  for (const { at, id } of there) expect([at, here.get(at)]).toEqual([at, id]);
}

/** The hash of each message by its bytes, before anything is renumbered. */
async function hashes(): Promise<Map<string, string | null>> {
  const here = await stored();
  const known = new Map<string, string | null>();
  for (const folder of origin.boxes.get('AC1')?.folders.values() ?? []) {
    for (const { uid, raw } of folder.messages.values()) {
      known.set(raw.toString(), here.get(`${folder.path}/${uid}`) ?? null);
    }
  }
  return known;
}

const KINDS: Readonly<Record<string, (count: number) => (uid: number) => number>> = {
  'above the old ones': (count) => (uid) => uid + count,
  'far above the old ones': () => (uid) => uid + 1_000_000,
  'above, overlapping': (count) => (uid) => uid + Math.ceil(count / 3),
  'one higher': () => (uid) => uid + 1,
  reversed: (count) => (uid) => count + 1 - uid,
  'rotated by half': (count) => (uid) => ((uid + (count >> 1)) % count) + 1,
  'doubled, with gaps': () => (uid) => uid * 2,
  'the lower half above all': (count) => (uid) => (uid <= count / 2 ? uid + count : uid),
  'every third above all': (count) => (uid) => (uid % 3 === 0 ? uid + count : uid),
  'two exchanged': () => (uid) => (uid === 1 ? 2 : uid === 2 ? 1 : uid),
  'a tenth exchanged': (count) => (uid) =>
    uid <= Math.ceil(count / 10) ? Math.ceil(count / 10) + 1 - uid : uid,
};

describe.each([3, 19, 20, 86, 130, 240])('a folder of %i messages', (count) => {
  test.each(Object.entries(KINDS))('renumbered %s is not fetched again', async (_name, kind) => {
    fill(count);
    await synced(false);
    const known = await hashes();
    renumber(inbox(), kind(count));
    const { result, fetched } = await synced(true);
    expect(fetched).toBe(0);
    expect(result.mailboxes).toMatchObject([{ added: 0, ended: 0, held: 0 }]);
    expect(result.certificates.every(({ complete }) => complete)).toBe(true);
    await expectMirrored(known);
  });
});

test('renumbered low and compared without --full is not fetched again either', async () => {
  for (const shift of [86, 1_000]) {
    origin.boxes.clear();
    archive.remove();
    archive = new Archive();
    fill(86);
    await synced(false);
    renumber(inbox(), (uid) => uid + shift);
    await synced(false);
    const { fetched } = await synced(false);
    expect(fetched).toBe(0);
    renumber(inbox(), (uid) => uid - shift);
    expect((await synced(false)).fetched).toBe(0);
  }
});

test('random renumberings in a row fetch nothing and match nothing wrongly', async () => {
  const seed = Number(process.env.MAILKEEP_SEED ?? Math.floor(Math.random() * 2 ** 31));
  console.info(`renumberings: MAILKEEP_SEED=${seed}`);
  const { next: random } = seeded('renumberings', seed);
  const upTo = (most: number): number => Math.floor(random() * most);
  for (let history = 0; history < 8; history += 1) {
    archive.remove();
    archive = new Archive();
    origin.boxes.clear();
    fill(5 + upTo(150));
    await synced(false);
    const known = await hashes();
    for (let step = 0; step < 4; step += 1) {
      const uids = [...inbox().messages.keys()].sort((a, b) => a - b);
      const top = uids.at(-1) ?? 1;
      const moved = uids.filter(() => random() < ([1, 1, 0.5, 0.1][upTo(4)] ?? 1));
      const targets =
        upTo(2) === 0 ? moved.map((_, i) => top + 1 + i) : [...moved].sort(() => random() - 0.5);
      const to = new Map(moved.map((uid, i) => [uid, targets[i] ?? uid]));
      renumber(inbox(), (uid) => to.get(uid) ?? uid);
      const { result, fetched } = await synced(true);
      expect([seed, history, step, fetched]).toEqual([seed, history, step, 0]);
      expect(result.mailboxes).toMatchObject([{ added: 0, ended: 0, held: 0 }]);
      await expectMirrored(known);
    }
  }
});
