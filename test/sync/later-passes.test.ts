import { describe, expect, it } from 'vitest';
import { ModelFolder, mail, status } from './model-origin.ts';
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

eachWithItsOwn();

describe('flags below the newest page', () => {
  const setFlags = (folder: string, flags: Record<number, readonly string[]>): void => {
    for (const [uid, set] of Object.entries(flags)) {
      const message = box(folder).messages.get(Number(uid));
      if (message !== undefined) message.flags = [...set];
    }
  };

  it('are found by a plain pass where the unread count moved, for a few requests', async () => {
    folders({ INBOX: 5_000 });
    await archive.sync(origin);
    setFlags('INBOX', { 1: ['\\Flagged'], 99: [], 2330: ['\\Answered'] });
    origin.requests.length = 0;
    expect((await archive.sync(origin)).mailboxes).toMatchObject([{ flagsChanged: 3 }]);
    // The quiet pass has 3 requests; without hints 49 pages would have to be read.
    expect(origin.requests.length).toBeLessThanOrEqual(3 + 24);
    await expectTrue();
  });

  it('are found where only stars moved, once a flag on the newest page has moved as well', async () => {
    folders({ INBOX: 1_000 });
    await archive.sync(origin);
    setFlags('INBOX', { 7: ['\\Flagged', '\\Seen'], 1000: ['\\Flagged', '\\Seen'] });
    expect((await archive.sync(origin)).mailboxes).toMatchObject([{ flagsChanged: 2 }]);
    await expectTrue();
  });

  it('that cancel out in the counts wait for a full pass, which finds every one', async () => {
    folders({ INBOX: 450 });
    await archive.sync(origin);
    setFlags('INBOX', { 1: ['\\Seen', '$label'], 99: ['\\Seen', 'Strange-Flag'] });
    expect((await archive.sync(origin)).mailboxes).toMatchObject([{ flagsChanged: 0 }]);
    const result = await archive.sync(origin, { policy: { ...policy, full: true } });
    expect(result.mailboxes).toMatchObject([{ flagsChanged: 2 }]);
    await expectTrue();
  });

  it('are not looked for again where the unread count is wrong for good', async () => {
    folders({ INBOX: 450 });
    await archive.sync(origin);
    const { folders: list } = origin;
    origin.folders = async (mailbox) => {
      const listing = await list.call(origin, mailbox);
      return { ...listing, folders: listing.folders.map((f) => ({ ...f, unreadCount: 77 })) };
    };
    await archive.sync(origin);
    origin.requests.length = 0;
    await archive.sync(origin);
    expect(origin.requests.length).toBe(3);
  });

  it('are left to full passes by a host whose search does not heed flags', async () => {
    origin.heedsFlags = false;
    folders({ INBOX: 450 });
    await archive.sync(origin);
    setFlags('INBOX', { 1: [] });
    expect((await archive.sync(origin)).mailboxes).toMatchObject([{ flagsChanged: 0 }]);
    await archive.sync(origin, { policy: { ...policy, full: true } });
    await expectTrue();
  });
});

eachWithItsOwn();

describe('passes of a daemon', () => {
  const MINUTE = 60_000;
  const daemon = {
    policy: {
      ...policy,
      rhythm: { mailboxesMs: 55 * MINUTE, folderMs: 55 * MINUTE },
      verifyPerHour: 20,
    },
  };

  it('a quiet hour of five-minute passes costs at most 5 requests a pass, and asks every folder', async () => {
    const names = Array.from({ length: 18 }, (_, i) => `INBOX.f${i}`);
    folders({ INBOX: 300, Sent: 200, ...Object.fromEntries(names.map((name) => [name, 150])) });
    await archive.sync(origin, daemon);
    archive.clock.advance(5 * MINUTE);
    origin.requests.length = 0;
    for (let pass = 0; pass < 24; pass += 1) {
      await archive.sync(origin, daemon);
      archive.clock.advance(5 * MINUTE);
    }
    expect(origin.requests.length / 24).toBeLessThanOrEqual(5);
    const asked = origin.requests.filter((r) => r.operation === 'list' && r.folder === 'INBOX.f7');
    expect(asked.length).toBeGreaterThanOrEqual(2);
  });

  it('a folder whose counts moved is asked at once', async () => {
    folders({ INBOX: 10, Work: 10 });
    await archive.sync(origin, daemon);
    archive.clock.advance(5 * MINUTE);
    box('Work').deliver(mail('new'));
    expect((await archive.sync(origin, daemon)).mailboxes).toMatchObject([{ added: 1 }]);
  });

  it('moved messages are fetched and compared later, 20 an hour, and a wrong guess is corrected', async () => {
    folders({ INBOX: 60, Work: 0 });
    await archive.sync(origin, daemon);
    const moving = [...box('INBOX').messages.values()].slice(0, 30);
    for (const { uid, raw, date, flags } of moving) {
      box('INBOX').messages.delete(uid);
      // Listed alike, and another message all the same.
      const bytes =
        uid === moving.at(-1)?.uid ? Buffer.from(raw.toString().replace('This', 'That')) : raw;
      box('Work').deliver(bytes, { date, flags });
    }
    origin.requests.length = 0;
    const relinked = await archive.sync(origin, daemon);
    expect(relinked.mailboxes).toMatchObject([{ relinked: 30, verified: 0 }]);
    expect(origin.count('source')).toBe(0);
    archive.clock.advance(5 * MINUTE);
    const first = await archive.sync(origin, daemon);
    expect(first.mailboxes).toMatchObject([{ verified: 19, corrected: 1 }]);
    archive.clock.advance(5 * MINUTE);
    expect((await archive.sync(origin, daemon)).mailboxes).toMatchObject([{ verified: 0 }]);
    archive.clock.advance(60 * MINUTE);
    const second = await archive.sync(origin, daemon);
    expect(second.mailboxes).toMatchObject([{ verified: 10, corrected: 0 }]);
    expect(second.certificates.find(({ folder }) => folder === 'Work')).toMatchObject({
      stored: 20,
      assumed: 10,
    });
    await expectTrue();
  });

  it('an interrupted sweep continues where it stopped', async () => {
    folders({ INBOX: 1_000 });
    await archive.sync(origin);
    const sweep = { policy: { ...daemon.policy, full: true, sweptSince: archive.clock.time } };
    let pages = 0;
    origin.before = (request) => {
      if (request.operation !== 'search') return;
      pages += 1;
      if (pages === 5) throw status(500);
    };
    expect((await archive.sync(origin, sweep)).failures).toHaveLength(1);
    archive.clock.advance(MINUTE);
    origin.before = () => {};
    origin.requests.length = 0;
    await archive.sync(origin, sweep);
    // Nine pages below the newest one: four were read before.
    expect(origin.count('search')).toBe(5);
  });

  it('what is in quarantine is tried again after ever longer waits', async () => {
    folders({ INBOX: 3 });
    origin.source$ = (message) => (message.uid === 2 ? Buffer.from('<html>') : message.raw);
    await archive.sync(origin, daemon);
    const tries: number[] = [];
    for (let minute = 5; minute <= 90; minute += 5) {
      archive.clock.advance(5 * MINUTE);
      origin.requests.length = 0;
      await archive.sync(origin, daemon);
      if (origin.count('source') > 0) tries.push(minute);
    }
    expect(tries).toEqual([5, 15, 35, 75]);
    origin.requests.length = 0;
    await archive.sync(origin);
    expect(origin.count('source')).toBeGreaterThan(0);
  });
});
