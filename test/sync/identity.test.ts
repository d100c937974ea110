import { describe, expect, it } from 'vitest';
import { ModelFolder, mail } from './model-origin.ts';
import {
  archive,
  box,
  eachWithItsOwn,
  expectTrue,
  folders,
  origin,
  policy,
  rename,
} from './one-mailbox.ts';

eachWithItsOwn();

const opened = () =>
  archive.reading((catalog) => [...catalog.list({})].map(({ subject }) => subject));

describe('another mailbox', () => {
  it('behind a known address is kept apart from the old one, which ends nothing and is reported', async () => {
    folders({ INBOX: 60 });
    await archive.sync(origin);
    origin.boxes.delete('AC1');
    const other = new ModelFolder('INBOX');
    for (let i = 1; i <= 5; i += 1) other.deliver(mail(`other ${i}`));
    origin.mailbox('AC2', 'ada@example.org', [other]);
    const result = await archive.sync(origin);
    expect(result.failures).toMatchObject([{ code: 'sync.mailbox-unreachable' }]);
    expect(result.mailboxes).toMatchObject([{ added: 5, ended: 0, held: 0 }]);
    const subjects = await opened();
    expect(subjects.filter((subject) => subject?.startsWith('INBOX'))).toHaveLength(60);
    expect(subjects.filter((subject) => subject?.startsWith('other'))).toHaveLength(5);
  });

  it('whose mail shows behind the known id and uids is held, whatever asks for a full pass', async () => {
    folders({ INBOX: 60 });
    await archive.sync(origin);
    const { messages } = box('INBOX');
    for (const { uid, flags } of [...messages.values()]) {
      const date = new Date(Date.UTC(2025, 0, 1) + uid * 60_000).toISOString();
      messages.set(uid, { uid, raw: mail(`stranger ${uid}`), date, flags });
    }
    const result = await archive.sync(origin, { policy: { ...policy, full: true } });
    expect(result.mailboxes).toMatchObject([{ ended: 0, held: 60, added: 60 }]);
    const subjects = await opened();
    expect(subjects.filter((subject) => subject?.startsWith('INBOX'))).toHaveLength(60);
  });

  it('that the token no longer reaches is unreachable, and continues when it is back', async () => {
    folders({ INBOX: 60 });
    origin.mailbox('AC9', 'bo@example.org', [new ModelFolder('INBOX')]);
    await archive.sync(origin);
    const kept = origin.boxes.get('AC1');
    origin.boxes.delete('AC1');
    for (let i = 0; i < 3; i += 1) {
      const { failures } = await archive.sync(origin);
      expect(failures).toMatchObject([{ code: 'sync.mailbox-unreachable' }]);
    }
    expect((await archive.places()).size).toBe(60);
    if (kept !== undefined) origin.boxes.set('AC1', kept);
    origin.requests.length = 0;
    expect((await archive.sync(origin)).failures).toEqual([]);
    expect(origin.count('source')).toBe(0);
  });
});

describe('a folder with children', () => {
  it('is renamed with them, and nothing is fetched, ended or held', async () => {
    folders({ INBOX: 3, Work: 40, 'Work.a': 30, 'Work.a.deep': 20, 'Work.b': 0 });
    await archive.sync(origin);
    for (const path of ['Work', 'Work.a', 'Work.a.deep', 'Work.b']) {
      rename(path, path.replace('Work', 'Job'));
    }
    origin.requests.length = 0;
    const first = await archive.sync(origin);
    const second = await archive.sync(origin);
    expect(origin.count('source')).toBe(0);
    expect([...first.mailboxes, ...second.mailboxes]).toMatchObject([
      { ended: 0, held: 0, added: 0 },
      { ended: 0, held: 0, added: 0 },
    ]);
    await expectTrue();
  });
});

describe('uids that show other mail, of one date and one size and without a Message-ID', () => {
  const nameless = (subject: string): Buffer =>
    Buffer.from(`From: Ada <ada@example.org>\r\nSubject: ${subject}\r\n\r\nThis is it.\r\n`);
  const full = { policy: { ...policy, full: true } };

  function fill(path: string, subjects: readonly string[]): void {
    for (const subject of subjects) box(path).deliver(nameless(subject));
  }

  async function expectShown(): Promise<void> {
    const there = [...(origin.boxes.get('AC1')?.folders.values() ?? [])].flatMap((folder) =>
      [...folder.messages.values()].map(
        ({ uid, raw }) => `${folder.path} ${uid} ${/^Subject: (.*)\r$/m.exec(String(raw))?.[1]}`,
      ),
    );
    const mirrored = await archive.reading((catalog) =>
      [...catalog.list({})].map(({ folder, uid, subject }) => `${folder} ${uid} ${subject}`),
    );
    expect(mirrored.sort()).toEqual(there.sort());
  }

  it.each([
    ['one of each', ['a'], ['b']],
    ['several', ['a', 'b', 'c'], ['d', 'e', 'f']],
    ['some of them alike', ['a', 'b', 'c', 'd', 'e', 'f'], ['a', 'b', 'c', 'd', 'e', 'x']],
  ])('is fetched where two folders swap their names: %s', async (_name, first, second) => {
    folders({ INBOX: 3, A: 0, B: 0 });
    fill('A', first);
    fill('B', second);
    await archive.sync(origin);
    rename('A', 'T');
    rename('B', 'A');
    rename('T', 'B');
    await archive.sync(origin, full);
    // A folder full of strangers ends nothing by itself.
    await archive.sync(origin, { policy: { ...full.policy, acceptEndings: true } });
    await expectShown();
    await expectTrue();
  });

  it('is fetched where a single uid shows another message', async () => {
    folders({ INBOX: 0 });
    fill('INBOX', ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']);
    await archive.sync(origin);
    const { messages } = box('INBOX');
    const old = messages.get(3);
    if (old === undefined) throw new Error('the model has no uid 3');
    messages.set(3, { ...old, raw: nameless('x') });
    origin.requests.length = 0;
    const result = await archive.sync(origin, full);
    expect(origin.count('source')).toBe(1);
    expect(result.mailboxes).toMatchObject([{ added: 1, ended: 1 }]);
    await expectShown();
  });
});
