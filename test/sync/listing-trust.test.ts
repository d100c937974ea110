import { hash } from 'node:crypto';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeError } from '../../src/core/errors.ts';
import { syncError } from '../../src/sync/errors.ts';
import { memoryOf } from './harness.ts';
import { ModelFolder, ModelOrigin, mail } from './model-origin.ts';
import {
  archive,
  box,
  eachWithItsOwn,
  expectTrue,
  folders,
  HOUR,
  origin,
  policy,
} from './one-mailbox.ts';

eachWithItsOwn();

const RUNS = [
  policy,
  { ...policy, full: true },
  { ...policy, rhythm: { mailboxesMs: 0, folderMs: HOUR } },
];

/** Operations of a sync run, without those that every run sends. */
async function requestsOfSync(more: Parameters<typeof archive.sync>[1] = {}): Promise<string[]> {
  const from = origin.requests.length;
  const { failures, certificates } = await archive.sync(origin, more);
  expect(failures).toEqual([]);
  expect(certificates.filter(({ complete }) => !complete)).toEqual([]);
  const sent = origin.requests.slice(from).map(({ operation }) => operation);
  return sent.filter((operation) => !['mailboxes', 'folders', 'quota'].includes(operation));
}

/** The server forgets its modification sequences, as Dovecot does without its index files. */
function forgetModSeqs(path: string): ModelFolder {
  const before = box(path);
  const after = new ModelFolder(path);
  for (const message of before.messages.values())
    after.messages.set(message.uid, { ...message, flags: [...message.flags] });
  after.nextUid = before.nextUid;
  let highest = 1;
  const changed = new Map<number, { flags: string; modSeq: number }>();
  const flagsOf = (uid: number) => after.messages.get(uid)?.flags.join(' ') ?? '';
  for (const uid of after.messages.keys()) changed.set(uid, { flags: flagsOf(uid), modSeq: 1 });
  after.modSeqs = () => {
    for (const uid of after.messages.keys()) {
      if (changed.get(uid)?.flags === flagsOf(uid)) continue;
      highest += 1;
      changed.set(uid, { flags: flagsOf(uid), modSeq: highest });
    }
    return { highest, byUid: new Map([...changed].map(([uid, { modSeq }]) => [uid, modSeq])) };
  };
  origin.boxes.get('AC1')?.folders.set(path, after);
  return after;
}

/** As many changes to a message as it takes until nothing is lower than before. */
function changeUntil(folder: ModelFolder, modSeq: number): void {
  const seventh = folder.messages.get(7);
  for (let i = 0; folder.modSeqs().highest < modSeq; i += 1) {
    if (seventh !== undefined) seventh.flags = i % 2 === 0 ? ['\\Seen', 'kw'] : ['\\Seen'];
  }
}

describe('modification sequences that go back', () => {
  it.each([true, false])('make every message be read, in a run that is cut: %s', async (isCut) => {
    folders({ INBOX: 350 });
    origin.speakImap({ condstore: true });
    box('INBOX').messages.get(200)?.flags.push('kw');
    await archive.sync(origin);
    expect(await requestsOfSync()).toEqual([]);
    const inbox = forgetModSeqs('INBOX');
    inbox.messages.get(3)?.flags.push('\\Flagged');
    const third = inbox.messages.get(149);
    if (third !== undefined) third.flags = [];
    inbox.messages.get(349)?.flags.push('\\Flagged');
    if (isCut) {
      origin.before = ({ operation }) => {
        if (operation === 'search') throw new Error('killed');
      };
      await expect(archive.sync(origin)).rejects.toThrow('killed');
      origin.before = () => {};
      // Its sequences are beyond the earlier ones before the next run.
      for (let i = 0; i < 700; i += 1) {
        inbox.messages.get(5)?.flags.push('kw');
        inbox.modSeqs();
        inbox.messages.get(5)?.flags.pop();
        inbox.modSeqs();
      }
    }
    await requestsOfSync();
    await expectTrue();
    expect(await requestsOfSync()).toEqual([]);
    inbox.messages.get(7)?.flags.push('\\Flagged');
    expect(await requestsOfSync()).toContain('changes');
    await expectTrue();
  });

  it('are noticed by unread messages that do not add up', async () => {
    folders({ INBOX: 350 });
    origin.speakImap({ condstore: true });
    await archive.sync(origin);
    const inbox = forgetModSeqs('INBOX');
    const third = inbox.messages.get(3);
    if (third !== undefined) third.flags = [];
    changeUntil(inbox, 400);
    await requestsOfSync();
    await expectTrue();
    expect(await requestsOfSync()).toEqual([]);
  });

  it('are noticed by a message that is back', async () => {
    folders({ INBOX: 350 });
    origin.speakImap({ condstore: true });
    await archive.sync(origin);
    const deleted = box('INBOX').messages.get(100);
    box('INBOX').messages.delete(100);
    await requestsOfSync();
    const inbox = forgetModSeqs('INBOX');
    if (deleted !== undefined) inbox.messages.set(100, deleted);
    inbox.messages.get(3)?.flags.push('\\Flagged');
    changeUntil(inbox, 400);
    await requestsOfSync();
    await expectTrue();
    expect(await requestsOfSync()).toEqual([]);
  });

  it('cost one reading of all messages if the server miscounts unread ones', async () => {
    folders({ INBOX: 350 });
    origin.speakImap({ condstore: true });
    const listFolders = origin.folders.bind(origin);
    origin.folders = async (mailbox) => {
      const listing = await listFolders(mailbox);
      const miscounted = listing.folders.map((one) => ({ ...one, unreadCount: 5 }));
      return { ...listing, folders: miscounted };
    };
    await archive.sync(origin);
    await archive.sync(origin);
    const sent = await requestsOfSync();
    expect(sent.filter((operation) => operation === 'search').length).toBeLessThan(3);
  });
});

describe('modification sequences that only the listing has', () => {
  it.each(['newest', 'oldest'] as const)('prove nothing; %s first', async (order) => {
    folders({ INBOX: 350 });
    origin.speakImap({ condstore: true, opensWithout: true });
    await archive.sync(origin, { order });
    for (let i = 0; i < 2; i += 1) {
      expect(await requestsOfSync({ order })).toContain('list');
      // Starred messages are compared once an hour.
      archive.clock.advance(2 * HOUR);
      for (const uid of [3 + i, 349 - i]) box('INBOX').messages.get(uid)?.flags.push('\\Flagged');
      await requestsOfSync({ order });
      await expectTrue();
    }
  });

  it('make every message be read once, and are trusted again once the open folder has them', async () => {
    folders({ INBOX: 350 });
    origin.speakImap({ condstore: true });
    await archive.sync(origin);
    expect(await requestsOfSync()).toEqual([]);
    box('INBOX').messages.get(3)?.flags.push('kw');
    origin.speakImap({ condstore: true, opensWithout: true });
    expect(await requestsOfSync()).not.toContain('changes');
    await expectTrue();
    expect(await requestsOfSync()).toEqual(['list', 'search']);
    box('INBOX').messages.get(4)?.flags.push('kw');
    origin.speakImap({ condstore: true });
    await requestsOfSync();
    await requestsOfSync();
    await expectTrue();
    expect(await requestsOfSync()).toEqual([]);
    box('INBOX').messages.get(5)?.flags.push('kw');
    expect(await requestsOfSync()).toEqual(['list', 'changes']);
    await expectTrue();
  });
});

describe('uids that are assigned again in the same epoch', () => {
  it('are all read once UIDNEXT is lower than before', async () => {
    folders({ INBOX: 350 });
    origin.speakImap({ condstore: true });
    await archive.sync(origin);
    // The server is restored from a backup, and other mail arrives.
    for (let uid = 151; uid <= 350; uid += 1) box('INBOX').messages.delete(uid);
    box('INBOX').nextUid = 151;
    for (let n = 1; n <= 190; n += 1)
      box('INBOX').deliver(mail(`other ${n}`), { flags: ['\\Seen'] });
    await archive.sync(origin, { policy: { full: false, acceptEndings: true } });
    await archive.sync(origin, { policy: { full: false, acceptEndings: true } });
    await expectTrue();
    const docids = [...(await archive.places()).values()].map(({ docid }) => docid);
    expect(new Set(docids).size).toBe(340);
  });

  /** The server is restored from a backup without its newest messages, and other mail arrives. */
  function restore(lost: number, arrived: number): void {
    const inbox = box('INBOX');
    const last = inbox.nextUid - 1;
    for (let uid = last - lost + 1; uid <= last; uid += 1) inbox.messages.delete(uid);
    inbox.nextUid = last - lost + 1;
    for (let n = 1; n <= arrived; n += 1) inbox.deliver(mail(`other ${n}`), { flags: ['\\Seen'] });
  }

  /** Every place with the hash of its bytes, in the archive and at the server. */
  async function bothSides() {
    const here = await archive.reading((catalog) =>
      [...catalog.list({})].map(({ uid, id }) => `${uid} ${id}`),
    );
    const there = [...box('INBOX').messages.values()].map(
      ({ uid, raw }) => `${uid} ${hash('sha256', raw)}`,
    );
    return { here: here.sort(), there: there.sort() };
  }

  it.each(
    [true, false].flatMap((imap) => [
      { imap, messages: 350, lost: 50, arrived: 60 },
      { imap, messages: 350, lost: 50, arrived: 150 },
      { imap, messages: 350, lost: 50, arrived: 450 },
      { imap, messages: 350, lost: 150, arrived: 550 },
      { imap, messages: 3_000, lost: 151, arrived: 152 },
      { imap, messages: 3_000, lost: 151, arrived: 390 },
    ]),
  )(
    'are read: $lost of $messages, and $arrived arrive; IMAP: $imap',
    async ({ imap, messages, lost, arrived }) => {
      folders({ INBOX: messages });
      if (imap) origin.speakImap({ condstore: true });
      await archive.sync(origin);
      if (imap) forgetModSeqs('INBOX');
      restore(lost, arrived);
      // Its modification sequence is lower than those before the restore.
      if (imap) box('INBOX').messages.get(3)?.flags.push('\\Flagged');
      await requestsOfSync();
      await expectTrue();
      const { here, there } = await bothSides();
      expect(here).toEqual(there);
    },
  );

  it.each([true, false])(
    'are read after a run that was killed once it had stored newer mail; IMAP: %s',
    async (imap) => {
      folders({ INBOX: 350 });
      if (imap) origin.speakImap({ condstore: true });
      await archive.sync(origin);
      restore(50, 390);
      origin.before = (request) => {
        if (request.operation === 'search' && request.folder === 'INBOX') searches += 1;
        // The first three read new mail.
        if (searches > 3) throw new Error('killed');
      };
      let searches = 0;
      await expect(archive.sync(origin)).rejects.toThrow('killed');
      origin.before = () => {};
      expect((await archive.places()).size).toBeGreaterThan(600);
      await requestsOfSync();
      const { here, there } = await bothSides();
      expect(here).toEqual(there);
    },
  );

  it.each([true, false])(
    'does not prove that an older archive is complete; IMAP: %s',
    async (imap) => {
      folders({ INBOX: 250, Archive: 250 });
      if (imap) origin.speakImap({ condstore: true });
      const options = {
        policy: { ...policy, rhythm: { mailboxesMs: 0, folderMs: 100 * HOUR } },
      };
      await archive.sync(origin, options);
      const copy = mkdtempSync(join(tmpdir(), 'mailkeep-copy-'));
      cpSync(archive.dir, copy, { recursive: true });
      archive.clock.advance(HOUR);
      for (const path of ['INBOX', 'Archive']) {
        box(path).messages.delete(100);
        box(path).deliver(mail(`new in ${path}`), { flags: ['\\Seen'] });
        box(path).messages.get(5)?.flags.push('\\Flagged');
      }
      archive.clock.advance(HOUR);
      await archive.sync(origin, options);
      rmSync(archive.dir, { recursive: true });
      cpSync(copy, archive.dir, { recursive: true });
      rmSync(copy, { recursive: true });
      archive.clock.advance(HOUR);
      // Other commits do not make it the archive that it was.
      const other = new ModelOrigin();
      other.mailbox('AC2', 'bo@example.org', [new ModelFolder('INBOX'), new ModelFolder('Bo')]);
      for (let i = 1; i <= 40; i += 1) {
        other.boxes
          .get('AC2')
          ?.folders.get('Bo')
          ?.deliver(mail(`other ${i}`));
        if (i % 4 === 0) await archive.sync(other);
      }
      await archive.sync(origin, options);
      const places = await archive.places();
      // Without modification sequences, the daemon does not read a folder with the same counts.
      for (const path of imap ? ['INBOX', 'Archive'] : ['INBOX']) {
        expect(places.has(`${path}/251`)).toBe(true);
        expect(places.has(`${path}/100`)).toBe(false);
        if (imap) expect(places.get(`${path}/5`)?.flags).toContain('\\Flagged');
      }
    },
  );
});

describe('an equal listing', () => {
  /** The server loses its newest message in a restore, and gets as many others. */
  function replaceNewest(): ModelFolder {
    const before = box('INBOX');
    const restored = new ModelFolder('INBOX');
    for (const message of before.messages.values())
      restored.messages.set(message.uid, { ...message, flags: [...message.flags] });
    restored.nextUid = before.nextUid;
    restored.modSeqs();
    before.deliver(mail('M1'), { flags: ['\\Seen'] });
    return restored;
  }

  async function restoreServer(): Promise<void> {
    folders({ INBOX: 250 });
    origin.speakImap({ condstore: true });
    await archive.sync(origin);
    const restored = replaceNewest();
    await archive.sync(origin);
    restored.deliver(mail('M2'), { flags: ['\\Seen'] });
    origin.boxes.get('AC1')?.folders.set('INBOX', restored);
  }

  const sources = () =>
    origin.requests.flatMap((one) => (one.operation === 'source' ? [one.uid] : []));

  it('proves nothing after a day', async () => {
    await restoreServer();
    expect(await requestsOfSync()).toEqual([]);
    archive.clock.advance(12 * HOUR);
    expect(await requestsOfSync()).toEqual([]);
    archive.clock.advance(13 * HOUR);
    await archive.sync(origin);
    expect(sources().filter((uid) => uid === 251)).toHaveLength(2);
    await archive.sync(origin);
    expect(await requestsOfSync()).toEqual([]);
    await expectTrue();
  });

  it('is not relied on when flags change', async () => {
    await restoreServer();
    box('INBOX').messages.get(2)?.flags.push('\\Flagged');
    await archive.sync(origin);
    expect(sources().filter((uid) => uid === 251)).toHaveLength(2);
    await archive.sync(origin);
    await expectTrue();
  });
});

describe('after the loss of the state', () => {
  it.each([true, false])(
    'flags are known again after a run of the daemon, full: %s',
    async (full) => {
      folders({ INBOX: 350 });
      origin.speakImap({ condstore: true });
      await archive.sync(origin);
      archive.memory = memoryOf();
      box('INBOX').messages.get(6)?.flags.push('\\Flagged');
      const rhythm = { mailboxesMs: 0, folderMs: HOUR };
      const sweptSince = full ? archive.clock.now() : null;
      await archive.sync(origin, { policy: { ...policy, full, rhythm, sweptSince } });
      await expectTrue();
      box('INBOX').messages.get(7)?.flags.push('\\Flagged');
      expect(await requestsOfSync()).toContain('changes');
      await expectTrue();
      expect(await requestsOfSync()).toEqual([]);
    },
  );

  it('an interrupted full sync does not make the listing prove anything', async () => {
    folders({ INBOX: 350 });
    origin.speakImap({ condstore: true });
    await archive.sync(origin);
    const started = archive.clock.now();
    const daemon = { ...policy, full: true, rhythm: { mailboxesMs: 0, folderMs: HOUR } };
    archive.memory.set('flags-up-to', '["mail.example.org","AC1","INBOX"]/1', null);
    let searches = 0;
    origin.before = ({ operation }) => {
      if (operation === 'search') searches += 1;
      if (searches === 3) throw new Error('killed');
    };
    const run = () => archive.sync(origin, { policy: { ...daemon, sweptSince: started } });
    await expect(run()).rejects.toThrow('killed');
    origin.before = () => {};
    box('INBOX').messages.get(3)?.flags.push('\\Flagged');
    await run();
    await requestsOfSync();
    await expectTrue();
    expect(await requestsOfSync()).toEqual([]);
  });
});

describe('a message that is listed but not shown', () => {
  it.each([1, 99, 250])('is reported and fetched later: uid %i of 250', async (uid) => {
    folders({ INBOX: 250 });
    origin.speakImap({ condstore: true });
    origin.omits = (message) => message.uid === uid;
    for (const one of RUNS) {
      const { failures, certificates } = await archive.sync(origin, { policy: one });
      expect(certificates).toMatchObject([
        { folder: 'INBOX', originTotal: 250, stored: 249, complete: false },
      ]);
      expect(failures).toMatchObject([
        { code: 'sync.messages-not-shown', folder: 'INBOX', facts: { count: 1, uids: [uid] } },
      ]);
    }
    origin.omits = () => false;
    const { failures, certificates } = await archive.sync(origin);
    expect(failures).toEqual([]);
    expect(certificates).toMatchObject([{ stored: 250, complete: true }]);
    await expectTrue();
  });

  it('is not gone if it was stored, but others are', async () => {
    folders({ INBOX: 250 });
    origin.speakImap({ condstore: false });
    await archive.sync(origin);
    const lost = new Set([7, 9, 240]);
    origin.omits = ({ uid }) => lost.has(uid);
    box('INBOX').messages.delete(8);
    for (const one of RUNS) {
      box('INBOX').deliver(mail(`new ${box('INBOX').nextUid}`));
      const { failures, certificates } = await archive.sync(origin, { policy: one });
      expect(certificates).toMatchObject([{ complete: false, held: 0 }]);
      const [failure] = failures;
      expect(failure?.code).toBe('sync.messages-not-shown');
      await expectTrue();
    }
    origin.omits = () => false;
    expect(await archive.sync(origin)).toMatchObject({
      failures: [],
      certificates: [{ stored: 252, complete: true }],
    });
    await expectTrue();
  });

  it('leaves a folder unread if that is all there is, and later mail is read', async () => {
    folders({ INBOX: 130 });
    origin.speakImap({ condstore: true });
    origin.omits = () => true;
    const { failures, certificates } = await archive.sync(origin);
    expect(certificates).toMatchObject([{ originTotal: 130, stored: 0, complete: false }]);
    expect(failures).toMatchObject([{ facts: { count: 130 } }]);
    origin.omits = ({ uid }) => uid > 10;
    await archive.sync(origin);
    expect((await archive.places()).size).toBe(10);
    origin.omits = () => false;
    await archive.sync(origin);
    await expectTrue();
  });

  it('has a sentence', () => {
    const facts = { total: 30, uids: [7, 9], count: 2 };
    expect(describeError(syncError('sync.messages-not-shown', facts)).message).toBe(
      'The service lists 30 messages in this folder, but does not show 2: uid 7, 9.',
    );
  });
});
