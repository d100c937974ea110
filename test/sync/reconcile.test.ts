import { describe, expect, it } from 'vitest';
import { ModelFolder, mail, status } from './model-origin.ts';
import {
  archive,
  box,
  eachWithItsOwn,
  expectTrue,
  folders,
  HOUR,
  move,
  origin,
  policy,
  range,
  rename,
  renumber,
} from './one-mailbox.ts';

eachWithItsOwn();

describe('a deletion', () => {
  it('is found among many for few requests', async () => {
    folders({ INBOX: 5000 });
    await archive.sync(origin);
    box('INBOX').messages.delete(1234);
    origin.requests.length = 0;
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ ended: 1, held: 0, added: 0 }]);
    expect(origin.requests.length).toBeLessThanOrEqual(4 + 1 + 2 * Math.log2(50));
    await expectTrue();
    expect(result.certificates).toMatchObject([{ complete: true, originTotal: 4999 }]);
  });

  it('is found on the newest page', async () => {
    folders({ INBOX: 300 });
    await archive.sync(origin);
    box('INBOX').messages.delete(299);
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ ended: 1 }]);
    await expectTrue();
  });

  it('is not believed when asking by name answers', async () => {
    folders({ INBOX: 300 });
    await archive.sync(origin);
    const hidden = box('INBOX').messages.get(250);
    origin.before = (request) => {
      if (request.operation === 'list') box('INBOX').messages.delete(250);
      if (request.operation === 'search' && hidden !== undefined) {
        box('INBOX').messages.set(250, hidden);
      }
    };
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ ended: 0 }]);
    expect((await archive.places()).has('INBOX/250')).toBe(true);
  });
});

describe('a move', () => {
  it('of a thousand messages fetches nothing', async () => {
    folders({ INBOX: 1200, 'INBOX.Archive': 10 });
    await archive.sync(origin);
    move('INBOX', 'INBOX.Archive', range(1, 1000));
    origin.requests.length = 0;
    const result = await archive.sync(origin);
    expect(origin.count('source')).toBe(0);
    expect(result.mailboxes).toMatchObject([{ relinked: 1000, ended: 0, held: 0 }]);
    expect(result.certificates).toMatchObject([
      { stored: 200, complete: true },
      { stored: 10, assumed: 1000, complete: true },
    ]);
    await expectTrue();
  });

  it('of a whole INBOX raises no alarm', async () => {
    folders({ INBOX: 120, 'INBOX.Archive': 0 });
    await archive.sync(origin);
    move('INBOX', 'INBOX.Archive', range(1, 120));
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ relinked: 120, held: 0 }]);
    await expectTrue();
  });

  it('is a copy when the old place is still there: fetched, and stored once', async () => {
    folders({ INBOX: 20, 'INBOX.Archive': 0 });
    await archive.sync(origin);
    const message = box('INBOX').messages.get(5);
    if (message !== undefined) {
      box('INBOX.Archive').deliver(message.raw, { date: message.date, flags: ['\\Seen'] });
    }
    origin.requests.length = 0;
    const result = await archive.sync(origin);
    expect(origin.count('source')).toBe(1);
    expect(result.mailboxes).toMatchObject([{ relinked: 0, added: 1 }]);
    expect(result.certificates.filter(({ complete }) => !complete)).toEqual([]);
    await expectTrue();
  });

  it('of a copy on three days in a row leaves every folder complete', async () => {
    folders({ INBOX: 20, 'INBOX.Archive': 0 });
    await archive.sync(origin);
    for (const uid of [5, 6, 7]) {
      archive.clock.advance(24 * HOUR);
      const message = box('INBOX').messages.get(uid);
      if (message === undefined) throw new Error(`the model has no uid ${uid}`);
      box('INBOX.Archive').deliver(message.raw, { date: message.date, flags: ['\\Seen'] });
      const result = await archive.sync(origin);
      expect(result.failures).toEqual([]);
      expect(result.certificates.filter(({ complete }) => !complete)).toEqual([]);
    }
    await expectTrue();
  });
});

describe('the brake', () => {
  it('holds a mass deletion, and lets go when a second look agrees', async () => {
    folders({ INBOX: 200 });
    await archive.sync(origin);
    for (const uid of range(1, 100)) box('INBOX').messages.delete(uid);
    const first = await archive.sync(origin);
    expect(first.mailboxes).toMatchObject([{ ended: 0, held: 100 }]);
    expect((await archive.places()).size).toBe(200);
    expect(first.certificates).toMatchObject([{ stored: 100, held: 100 }]);
    archive.clock.advance(HOUR);
    const second = await archive.sync(origin);
    expect(second.mailboxes).toMatchObject([{ ended: 0, held: 100 }]);
    // The service's count is right: what differs is what the brake keeps.
    expect(second.failures).toEqual([]);
    archive.clock.advance(6 * HOUR);
    expect((await archive.sync(origin)).mailboxes).toMatchObject([{ ended: 100, held: 0 }]);
    await expectTrue();
  });

  it('lets go at once on request', async () => {
    folders({ INBOX: 200 });
    await archive.sync(origin);
    for (const uid of range(1, 100)) box('INBOX').messages.delete(uid);
    await archive.sync(origin);
    await archive.sync(origin, { policy: { ...policy, acceptEndings: true } });
    await expectTrue();
  });

  it('takes what comes back for what it was', async () => {
    folders({ INBOX: 200 });
    await archive.sync(origin);
    const kept = new Map(box('INBOX').messages);
    for (const uid of range(1, 100)) box('INBOX').messages.delete(uid);
    await archive.sync(origin);
    for (const [uid, message] of kept) box('INBOX').messages.set(uid, message);
    origin.requests.length = 0;
    const result = await archive.sync(origin, { policy: { ...policy, full: true } });
    expect(origin.count('source')).toBe(0);
    expect(result.mailboxes).toMatchObject([{ ended: 0, held: 0 }]);
    expect(result.certificates).toMatchObject([{ stored: 200, held: 0, complete: true }]);
    await expectTrue();
  });

  it('lets Trash be emptied', async () => {
    folders({ INBOX: 10, 'INBOX.Trash': 90 });
    await archive.sync(origin);
    box('INBOX.Trash').messages.clear();
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ ended: 90, held: 0 }]);
    await expectTrue();
  });
});

describe('a renamed folder', () => {
  it('continues under its new name without a fetch', async () => {
    folders({ INBOX: 10, 'INBOX.Work': 230, 'INBOX.Work.Old': 5 });
    await archive.sync(origin);
    rename('INBOX.Work', 'INBOX.Job');
    rename('INBOX.Work.Old', 'INBOX.Job.Old');
    origin.requests.length = 0;
    const result = await archive.sync(origin);
    expect(origin.count('source')).toBe(0);
    expect(origin.requests.length).toBeLessThanOrEqual(5);
    expect(result.mailboxes).toMatchObject([{ added: 0, ended: 0, held: 0, relinked: 0 }]);
    await expectTrue();
  });
});

describe('a folder that is not listed any more', () => {
  it('goes only when two listings agree, and its mail is held', async () => {
    folders({ INBOX: 10, 'INBOX.Old': 30 });
    await archive.sync(origin);
    origin.boxes.get('AC1')?.folders.delete('INBOX.Old');
    // The first listing without it says so: the service counts 30 messages fewer.
    for (let pass = 1; pass <= 2; pass += 1) {
      const { mailboxes, certificates } = await archive.sync(origin);
      expect(mailboxes).toMatchObject([{ ended: 0, held: 30 }]);
      expect(certificates).toMatchObject([
        { originTotal: 10, stored: 10 },
        { folder: 'INBOX.Old', originTotal: 0, stored: 0, held: 30, complete: false },
      ]);
    }
    expect((await archive.places()).size).toBe(40);
    archive.clock.advance(7 * HOUR);
    expect((await archive.sync(origin)).mailboxes).toMatchObject([{ ended: 30, held: 0 }]);
    await expectTrue();
  });
});

describe.each(['UIDVALIDITY', 'MAILBOXID'])('with %s, a renamed folder', (kind) => {
  function letters(): void {
    folders({ INBOX: 3, letters: 40, other: 4 });
    origin.speakImap({ condstore: false });
    if (kind === 'MAILBOXID') origin.identify();
    for (const [i, path] of ['INBOX', 'letters', 'other'].entries()) box(path).uidValidity = 10 + i;
  }

  /** Another folder takes the old path. */
  function replace(from: string, to: string): void {
    const all = origin.boxes.get('AC1')?.folders;
    all?.set(to, box(from).renamedTo(to));
    const successor = new ModelFolder(from);
    successor.uidValidity = 20;
    successor.deliver(mail('first of the new'));
    all?.set(from, successor);
  }

  it('is found if another folder takes its name', async () => {
    letters();
    await archive.sync(origin);
    replace('letters', 'old letters');
    const from = origin.count('source');
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ relinked: 0, added: 1, ended: 0, held: 0 }]);
    expect(origin.count('source')).toBe(from + 1);
    await expectTrue();
  });

  it('is found if another renamed folder takes its name', async () => {
    letters();
    await archive.sync(origin);
    replace('letters', 'old letters');
    const all = origin.boxes.get('AC1')?.folders;
    all?.set('letters', box('other').renamedTo('letters'));
    all?.delete('other');
    const from = origin.count('source');
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ relinked: 0, added: 0, ended: 0, held: 0 }]);
    expect(origin.count('source')).toBe(from);
    await expectTrue();
  });
});

describe('a renumbered folder', () => {
  it('whose new uids lie above all old ones fetches nothing either', async () => {
    folders({ INBOX: 3, Work: 450 });
    await archive.sync(origin);
    renumber('Work', 10_000);
    origin.requests.length = 0;
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ relinked: 450, added: 0, held: 0 }]);
    expect(origin.count('source')).toBe(0);
    await expectTrue();
  });

  it('is recognised, and fetches nothing it has', async () => {
    folders({ INBOX: 500 });
    await archive.sync(origin);
    for (const uid of [3, 77, 400]) box('INBOX').messages.delete(uid);
    await archive.sync(origin);
    renumber('INBOX');
    origin.requests.length = 0;
    const result = await archive.sync(origin);
    expect(origin.count('source')).toBe(0);
    expect(result.mailboxes).toMatchObject([{ relinked: 497, held: 0, ended: 0 }]);
    await expectTrue();
  });

  it('is recognised when its uids begin above all that were seen', async () => {
    folders({ INBOX: 300 });
    await archive.sync(origin);
    renumber('INBOX', 1001);
    await archive.sync(origin);
    await archive.sync(origin, { policy: { ...policy, acceptEndings: true } });
    await expectTrue();
  });

  it('is held when the messages are others', async () => {
    folders({ INBOX: 100 });
    await archive.sync(origin);
    box('INBOX').messages.clear();
    box('INBOX').nextUid = 1;
    for (const i of range(1, 100))
      box('INBOX').deliver(mail(`other ${i}`), { date: '2026-02-02T00:00:00Z' });
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ ended: 0, held: 100, added: 100 }]);
  });
});

describe('an origin that lies', () => {
  it.each([
    ['an empty folder list', () => origin.boxes.get('AC1')?.folders.clear()],
    ['no mailboxes', () => origin.boxes.clear()],
  ])('ends nothing with %s, and says so', async (_what, lie) => {
    folders({ INBOX: 60, 'INBOX.Old': 30 });
    await archive.sync(origin);
    const kept = origin.boxes.get('AC1')?.folders;
    const copy = new Map(kept);
    lie();
    for (let i = 0; i < 3; i += 1) {
      archive.clock.advance(7 * HOUR);
      const result = await archive.sync(origin);
      expect(result.failures.length).toBe(1);
    }
    expect((await archive.places()).size).toBe(90);
    origin.mailbox('AC1', 'ada@example.org', [...copy.values()]);
    expect((await archive.sync(origin)).failures).toEqual([]);
    await expectTrue();
  });

  it('ends nothing with 404 for a folder', async () => {
    folders({ INBOX: 60 });
    await archive.sync(origin);
    origin.before = (request) => {
      if (request.operation === 'list') throw status(404);
    };
    for (let i = 0; i < 3; i += 1) {
      archive.clock.advance(7 * HOUR);
      expect((await archive.sync(origin)).failures.length).toBe(1);
    }
    expect((await archive.places()).size).toBe(60);
  });

  it('ends nothing when a folder shows nothing that its listing counts', async () => {
    folders({ INBOX: 60 });
    await archive.sync(origin);
    const kept = new Map(box('INBOX').messages);
    origin.before = (request) => {
      if (request.operation === 'list') box('INBOX').messages.clear();
    };
    origin.after = () => {
      for (const [uid, message] of kept) box('INBOX').messages.set(uid, message);
    };
    const result = await archive.sync(origin);
    expect(result.failures).toMatchObject([{ code: 'sync.counts-disagree' }]);
    expect((await archive.places()).size).toBe(60);
  });
});
