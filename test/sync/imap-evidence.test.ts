import { cpSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { imapError } from '../../src/imap/errors.ts';
import { memoryOf } from './harness.ts';
import { ModelFolder, mail } from './model-origin.ts';
import {
  archive,
  box,
  eachWithItsOwn,
  expectTrue,
  folders,
  HOUR,
  origin,
  policy,
  range,
  renumber,
} from './one-mailbox.ts';

// What an IMAP server tells that HTTP does not: epochs, lists of all uids, complete sources, proofs of quiet.

eachWithItsOwn();

const DAY = 24 * HOUR;
const WORK = 'INBOX.Work';

function serve(counts: Record<string, number>, condstore = false): void {
  origin.speakImap({ condstore });
  folders(counts);
}

/** Reassigns the uids of a folder, and says so. */
function startEpoch(path: string, uidValidity: number): void {
  renumber(path);
  box(path).uidValidity = uidValidity;
}

/** The folder's generation in the archive, with its UIDVALIDITY. */
const epochOf = (folder: string) =>
  archive.reading((catalog) => {
    const { generation, uidValidity } =
      catalog.folders.epoch({ host: origin.host, mailbox: 'AC1', folder }) ?? {};
    return [generation, uidValidity];
  });

/** Runs a sync. Returns its result and the requests after the listing of folders. */
async function sync(options: Parameters<typeof archive.sync>[1] = {}) {
  origin.requests.length = 0;
  const result = await archive.sync(origin, options);
  const sent = origin.requests.map(({ operation }) => operation);
  return { ...result, sent: sent.filter((name) => ['list', 'search', 'source'].includes(name)) };
}

describe('a UID epoch', () => {
  it('starts with every other UIDVALIDITY: A, B, A are three, and nothing is sampled or fetched', async () => {
    serve({ INBOX: 1, [WORK]: 150 });
    await sync();
    expect(await epochOf(WORK)).toEqual([1, '1']);
    for (const [uidValidity, generation] of [
      [2, 2],
      [1, 3],
    ] as const) {
      startEpoch(WORK, uidValidity);
      const { mailboxes, failures, sent } = await sync();
      expect(failures).toEqual([]);
      expect(mailboxes).toMatchObject([{ relinked: 150, added: 0, ended: 0, held: 0 }]);
      // The newest page of both folders, INBOX's list of uids, and the older page.
      expect(sent).toEqual(['list', 'list', 'search', 'search']);
      expect(await epochOf(WORK)).toEqual([generation, `${uidValidity}`]);
      await expectTrue();
    }
  });

  it('fetches only messages that cannot be told apart by their listing', async () => {
    serve({ INBOX: 1, [WORK]: 80 });
    const date = '2026-02-02T00:00:00Z';
    const unnamed = Buffer.from('Subject: no Message-ID\r\n\r\nx\r\n');
    for (const raw of [mail('twin'), mail('twin'), unnamed]) box(WORK).deliver(raw, { date });
    await sync();
    startEpoch(WORK, 2);
    const { mailboxes, sent } = await sync();
    // The guard does not hold what is back under another uid.
    expect(mailboxes).toMatchObject([{ relinked: 80, held: 0, ended: 3 }]);
    expect(sent.filter((name) => name === 'source')).toHaveLength(3);
    await expectTrue();
  });

  it('is stored by an archive that has none, which concludes nothing from it', async () => {
    folders({ INBOX: 0 });
    // As large as the model's listing of an IMAP server says.
    const pad = (n: number) => 'x'.repeat(1 + ((2 - (mail('0', '').length % 3)) % 3)) + n;
    for (const n of range(1, 9)) box('INBOX').deliver(mail(`${n}`, pad(n)));
    await sync();
    expect(await epochOf('INBOX')).toEqual([1, null]);
    origin.speakImap({ condstore: false });
    box('INBOX').uidValidity = 77;
    expect((await sync()).mailboxes).toMatchObject([{ relinked: 0, added: 0, ended: 0 }]);
    expect(await epochOf('INBOX')).toEqual([1, '77']);
  });

  it('that is missing leaves the folder unread, and ends nothing', async () => {
    serve({ INBOX: 3, [WORK]: 60 });
    await sync();
    box(WORK).uidValidity = 0;
    box(WORK).messages.clear();
    const { failures, certificates } = await sync({ policy: { ...policy, acceptEndings: true } });
    const facts = { folder: WORK, problem: 'missing' };
    expect(failures).toMatchObject([{ folder: WORK, code: 'imap.no-uid-epoch', facts }]);
    expect(certificates).toMatchObject([
      { folder: 'INBOX', complete: true },
      { folder: WORK, complete: false, stored: 60 },
    ]);
    expect((await archive.places()).size).toBe(63);
  });

  it('that goes back to a lower value twice within a day is not believed until the day after', async () => {
    serve({ INBOX: 1, [WORK]: 9 });
    await sync();
    for (const uidValidity of [2, 1, 2]) {
      startEpoch(WORK, uidValidity);
      expect((await sync()).failures).toEqual([]);
    }
    expect(await epochOf(WORK)).toEqual([4, '2']);
    startEpoch(WORK, 1);
    for (let i = 0; i < 2; i += 1) {
      const { failures } = await sync();
      expect(failures).toMatchObject([
        { code: 'imap.no-uid-epoch', facts: { problem: 'unstable' } },
      ]);
    }
    expect(await epochOf(WORK)).toEqual([4, '2']);
    archive.clock.advance(DAY);
    expect((await sync()).failures).toEqual([]);
    expect(await epochOf(WORK)).toEqual([5, '1']);
    await expectTrue();
  });

  /** Runs a sync that is killed when it requests a folder's newest page, and loses what it has not stored by then. */
  async function killedSync(kept: ReadonlyMap<string, unknown>, path: string): Promise<void> {
    const copy = mkdtempSync(join(tmpdir(), 'mailkeep-killed-'));
    let memory = new Map<string, unknown>();
    origin.before = (request) => {
      if (request.operation !== 'list' || request.folder !== path) return;
      cpSync(archive.dir, copy, { recursive: true });
      memory = new Map(kept);
      throw new Error('killed');
    };
    await expect(sync()).rejects.toThrow('killed');
    origin.before = () => {};
    rmSync(archive.dir, { recursive: true });
    renameSync(copy, archive.dir);
    archive.memory = memoryOf(memory);
  }

  it.each([false, true])(
    'that goes back is believed after a run that was killed before it was recorded; of a folder that was gone: %s',
    async (wasGone) => {
      serve({ INBOX: 1, [WORK]: 9 });
      box(WORK).uidValidity = 7;
      const all = origin.boxes.get('AC1')?.folders;
      const kept = new Map<string, unknown>();
      archive.memory = memoryOf(kept);
      await sync();
      if (wasGone) {
        const old = box(WORK);
        all?.delete(WORK);
        for (let i = 0; i < 2; i += 1) await sync({ policy: { ...policy, acceptEndings: true } });
        all?.set(WORK, old);
      }
      startEpoch(WORK, 3);
      await killedSync(kept, WORK);
      expect(await epochOf(WORK)).toEqual([1, '7']);
      expect((await sync()).failures).toEqual([]);
      expect(await epochOf(WORK)).toEqual([2, '3']);
      await expectTrue();
      // It has gone back within a day.
      startEpoch(WORK, 2);
      expect((await sync()).failures).toMatchObject([{ code: 'imap.no-uid-epoch' }]);
    },
  );

  it.each([
    { what: 'goes back too often', uidValidity: 2 },
    { what: 'is missing', uidValidity: 0 },
  ])('that $what in a folder that is back is not taken for its first one', async (back) => {
    serve({ INBOX: 1, [WORK]: 9 });
    box(WORK).uidValidity = 5;
    await sync();
    startEpoch(WORK, 3);
    await sync();
    expect(await epochOf(WORK)).toEqual([2, '3']);
    const all = origin.boxes.get('AC1')?.folders;
    const old = box(WORK);
    all?.delete(WORK);
    for (let i = 0; i < 2; i += 1) await sync({ policy: { ...policy, acceptEndings: true } });
    all?.set(WORK, old);
    startEpoch(WORK, back.uidValidity);
    expect((await sync()).failures).toMatchObject([{ code: 'imap.no-uid-epoch' }]);
    archive.clock.advance(DAY);
    startEpoch(WORK, 5);
    expect((await sync()).failures).toEqual([]);
    expect(await epochOf(WORK)).toEqual([3, '5']);
    await expectTrue();
  });

  it('tells a folder that was created again from one that is back', async () => {
    serve({ INBOX: 1, [WORK]: 5 });
    await sync();
    const all = origin.boxes.get('AC1')?.folders;
    const old = box(WORK);
    const accept = { policy: { ...policy, acceptEndings: true } };
    all?.delete(WORK);
    for (let i = 0; i < 2; i += 1) await sync(accept);
    expect((await archive.places()).size).toBe(1);
    all?.set(WORK, old);
    expect((await sync()).sent).not.toContain('source');
    expect(await epochOf(WORK)).toEqual([1, '1']);
    await expectTrue();

    all?.delete(WORK);
    for (let i = 0; i < 2; i += 1) await sync(accept);
    const created = new ModelFolder(WORK);
    created.uidValidity = 2;
    for (const n of range(1, 3)) created.deliver(mail(`new ${n}`));
    all?.set(WORK, created);
    expect((await sync()).mailboxes).toMatchObject([{ added: 3 }]);
    expect(await epochOf(WORK)).toEqual([2, '2']);
    await expectTrue();
  });

  it.each(['list', 'source'] as const)(
    'that starts before a %s ends the folder for this run, and quarantines nothing',
    async (operation) => {
      serve({ INBOX: 1, [WORK]: 3 });
      origin.before = (request) => {
        if (request.operation !== operation || !('folder' in request)) return;
        if (request.folder !== WORK || box(WORK).uidValidity !== 1) return;
        startEpoch(WORK, 2);
      };
      const { failures, mailboxes } = await sync();
      expect(failures).toMatchObject([{ folder: WORK, uid: null, code: 'imap.renumbered' }]);
      expect(mailboxes).toMatchObject([{ quarantined: 0 }]);
      expect((await sync()).failures).toEqual([]);
      await expectTrue();
    },
  );

  it('keeps old places open while the folder cannot be read, and its guard at work', async () => {
    serve({ INBOX: 1, [WORK]: 80 });
    await sync();
    startEpoch(WORK, 2);
    origin.before = (request) => {
      if (request.operation !== 'list' || request.folder !== WORK) return;
      throw imapError('imap.connection-lost', { host: '', command: 'UID FETCH', reason: '' });
    };
    await sync();
    expect(await archive.reading((catalog) => [...catalog.list({})].length)).toBe(81);
    origin.before = () => {};
    expect((await sync()).mailboxes).toMatchObject([{ relinked: 80, held: 0, ended: 0 }]);
    await expectTrue();

    startEpoch(WORK, 3);
    for (const uid of range(1, 60)) box(WORK).messages.delete(uid);
    expect((await sync()).mailboxes).toMatchObject([{ relinked: 20, held: 60, ended: 0 }]);
  });
});

describe('a UID epoch with stable ids', () => {
  it('raises no alarm after a run that read only half of the folder', async () => {
    origin.identify();
    serve({ INBOX: 1, [WORK]: 150 });
    await sync();
    startEpoch(WORK, 2);
    origin.before = ({ operation }) => {
      if (operation !== 'search') return;
      throw imapError('imap.connection-lost', { host: '', command: 'UID FETCH', reason: '' });
    };
    await sync();
    origin.before = () => {};
    archive.clock.advance(1000);
    const { mailboxes, sent } = await sync();
    expect(mailboxes).toMatchObject([{ added: 0, ended: 0, held: 0 }]);
    expect(sent).not.toContain('source');
    await expectTrue();
  });
});

describe('sources and ends', () => {
  it('accept a complete literal at once, whatever size is listed and however it begins', async () => {
    serve({ INBOX: 0 });
    for (const n of range(1, 6)) box('INBOX').deliver(mail(`${n}`, 'x'.repeat(n)));
    box('INBOX').deliver(Buffer.from('<html><body>no header</body></html>'));
    const { sent, mailboxes } = await sync();
    expect(sent.filter((name) => name === 'source')).toHaveLength(7);
    expect(mailboxes).toMatchObject([{ added: 7, quarantined: 0 }]);
    await expectTrue();
  });

  it('report nothing about a message that was deleted before it was fetched', async () => {
    serve({ INBOX: 4 });
    origin.before = (request) => {
      if (request.operation === 'source') box('INBOX').messages.delete(2);
    };
    const { failures, mailboxes } = await sync();
    expect(failures).toEqual([]);
    expect(mailboxes).toMatchObject([{ added: 3, quarantined: 0 }]);
  });

  it('compare all uids, and ask by name in a new session for what is missing', async () => {
    serve({ INBOX: 400 });
    await sync();
    const { search } = origin;
    const named: unknown[] = [];
    origin.search = (at, question) => {
      if (!question.uids.includes(':')) named.push([question.uids, question.fresh]);
      return search.call(origin, at, question);
    };
    for (const uid of [3, 77, 200]) box('INBOX').messages.delete(uid);
    // As many have arrived, so the counts are equal.
    for (const n of [1, 2, 3]) box('INBOX').deliver(mail(`new ${n}`), { flags: ['\\Seen'] });
    const { sent, mailboxes } = await sync();
    expect(named).toEqual([['3,77,200', true]]);
    expect(mailboxes).toMatchObject([{ added: 3, ended: 3 }]);
    expect(sent).toEqual(['list', 'source', 'source', 'source', 'search', 'search']);
    await expectTrue();
  });
});

describe('a quiet folder', () => {
  const quiet = async () => {
    const { sent, certificates, mailboxes, failures } = await sync();
    expect(failures).toEqual([]);
    expect(mailboxes).toMatchObject([{ comparison: 'all' }]);
    for (const sums of certificates) expect(sums).toMatchObject({ complete: true });
    expect(certificates).toHaveLength(3);
    return sent;
  };

  it('is proven by its listing, in manual runs and INBOX and Sent too', async () => {
    serve({ INBOX: 5, 'INBOX.Sent': 5, [WORK]: 0 }, true);
    await quiet();
    for (let i = 0; i < 3; i += 1) {
      archive.clock.advance(DAY);
      expect(await quiet()).toContain('list');
      expect(await quiet()).toEqual([]);
    }
    const days = await archive.reading((catalog) =>
      catalog.folders.all().map(({ id }) => catalog.folders.latestCertificate(id)?.since),
    );
    expect(days).toEqual(Array(3).fill(new Date(archive.clock.time).toISOString()));
    expect(await quiet()).toEqual([]);
    // A full sync reads everything.
    expect((await sync({ policy: { ...policy, full: true } })).sent).not.toEqual([]);
  });

  it('is read without modification sequences, and once it has said that it has none', async () => {
    serve({ INBOX: 5, 'INBOX.Sent': 5, [WORK]: 5 });
    await quiet();
    expect(await quiet()).toContain('list');
    origin.speakImap({ condstore: true });
    expect(await quiet()).toContain('list');
    expect(await quiet()).toContain('list');
    expect(await quiet()).toEqual([]);
  });

  it('is read again if it changed between its listing and its page', async () => {
    serve({ INBOX: 5, 'INBOX.Sent': 5, [WORK]: 5 }, true);
    let isChanged = false;
    origin.after = ({ operation }) => {
      if (operation !== 'folders' || isChanged) return;
      isChanged = true;
      box(WORK).deliver(mail('meanwhile'), { flags: ['\\Seen'] });
    };
    await quiet();
    // What the first run saw is newer than what it can prove.
    expect(await quiet()).toContain('list');
    await expectTrue();
    expect(await quiet()).toEqual([]);
  });

  it('is read again after a run that ended early', async () => {
    serve({ INBOX: 5, 'INBOX.Sent': 5, [WORK]: 5 }, true);
    await quiet();
    const before = new Map(box(WORK).messages);
    box(WORK).deliver(mail('late'));
    origin.before = ({ operation }) => {
      if (operation === 'source')
        throw imapError('imap.unreachable', { host: '', port: 1, reason: '' });
    };
    await sync();
    origin.before = () => {};
    // The server loses what it had since the first run, and says the same as then.
    box(WORK).messages.clear();
    for (const [uid, message] of before) box(WORK).messages.set(uid, message);
    box(WORK).nextUid = 6;
    expect(await quiet()).toContain('list');
  });

  it('is read while the guard holds any of its messages', async () => {
    serve({ INBOX: 5, 'INBOX.Sent': 5, [WORK]: 60 }, true);
    await sync();
    for (const uid of range(1, 40)) box(WORK).messages.delete(uid);
    expect((await sync()).mailboxes).toMatchObject([{ held: 40 }]);
    expect((await sync()).mailboxes).toMatchObject([{ held: 40 }]);
    archive.clock.advance(7 * HOUR);
    expect((await sync()).mailboxes).toMatchObject([{ held: 0, ended: 40 }]);
    expect(await quiet()).toEqual([]);
  });
});
