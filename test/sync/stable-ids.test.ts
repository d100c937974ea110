import { hash } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { MailkeepError } from '../../src/core/errors.ts';
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
  renumber,
} from './one-mailbox.ts';

eachWithItsOwn();

/** As Gmail shows labels: each message is in some of the folders, and in All Mail. */
function labels(messages: number): void {
  const [inbox, work, all] = ['INBOX', 'Work', 'All'].map((path) => new ModelFolder(path));
  if (inbox === undefined || work === undefined || all === undefined) return;
  for (const n of range(1, messages)) {
    const raw = mail(`letter ${n}`);
    const date = new Date(Date.UTC(2026, 0, 1) + n * 60_000).toISOString();
    if (n % 2 === 0) inbox.deliver(raw, { date });
    if (n % 3 === 0) work.deliver(raw, { date });
    all.deliver(raw, { date });
  }
  origin.mailbox('AC1', 'ada@example.org', [inbox, work, all]);
  origin.identify();
}

/** Runs a sync that ends once everything is fetched, before it decides which messages are gone. */
async function cutOff(): Promise<void> {
  let pages = 0;
  origin.before = ({ operation }) => {
    if (operation === 'list') pages += 1;
    // Both newest pages are read.
    if (pages < 2 || operation !== 'search') return;
    throw new MailkeepError('origin', 'origin.unreachable', {});
  };
  await archive.sync(origin);
  origin.before = () => {};
}

describe('a message with a stable id', () => {
  it('is fetched once in all of its folders, with the first sync', async () => {
    labels(300);
    const result = await archive.sync(origin);
    expect(origin.count('source')).toBe(300);
    expect(result.mailboxes).toMatchObject([{ added: 300, relinked: 250 }]);
    expect(result.certificates).toMatchObject([
      { folder: 'INBOX', complete: true },
      { folder: 'All', complete: true },
      { folder: 'Work', complete: true },
    ]);
    await expectTrue();
    const docids = [...(await archive.places()).values()].map(({ docid }) => docid);
    expect(new Set(docids).size).toBe(300);
  });

  it('is not fetched from a folder that gets a copy, and not when a deleted one comes back', async () => {
    labels(60);
    await archive.sync(origin);
    for (const { raw, date } of [...box('All').messages.values()].slice(0, 10))
      box('Work').deliver(raw, { date });
    const [first] = box('All').messages.values();
    for (const path of ['INBOX', 'Work', 'All'])
      for (const [uid, { raw }] of box(path).messages)
        if (first !== undefined && raw.equals(first.raw)) box(path).messages.delete(uid);
    await archive.sync(origin);
    if (first !== undefined) box('INBOX').deliver(first.raw, { date: first.date });
    await archive.sync(origin);
    expect(origin.count('source')).toBe(60);
    await expectTrue();
  });

  it('moves without a fetch, and is no deletion to the guard', async () => {
    folders({ INBOX: 120, Archive: 0 });
    origin.identify();
    await archive.sync(origin);
    move('INBOX', 'Archive', range(1, 120));
    const result = await archive.sync(origin);
    expect(origin.count('source')).toBe(120);
    expect(result.mailboxes).toMatchObject([{ relinked: 120, ended: 0, held: 0 }]);
    await expectTrue();
  });

  it('is not fetched when a folder is renumbered and one of its messages goes', async () => {
    folders({ INBOX: 120, Archive: 120 });
    origin.identify();
    await archive.sync(origin);
    renumber('Archive', 500);
    box('INBOX').messages.delete(7);
    renumber('INBOX');
    const result = await archive.sync(origin);
    expect(origin.count('source')).toBe(240);
    expect(result.mailboxes).toMatchObject([{ relinked: 239, ended: 1, held: 0 }]);
    await expectTrue();
  });

  it('moves without an alarm of the guard if the run that found it was cut off', async () => {
    folders({ INBOX: 120, Archive: 0 });
    origin.identify();
    await archive.sync(origin);
    move('INBOX', 'Archive', range(1, 60));
    await cutOff();
    expect((await archive.places()).size).toBe(180);
    const { mailboxes } = await archive.sync(origin);
    expect(mailboxes).toMatchObject([{ ended: 0, held: 0 }]);
    expect(origin.count('source')).toBe(120);
    await expectTrue();
  });

  it('is renumbered without an alarm of the guard if the run that found it was cut off', async () => {
    origin.speakImap({ condstore: true });
    folders({ INBOX: 1, Archive: 300 });
    origin.identify();
    await archive.sync(origin);
    renumber('Archive', 500);
    box('Archive').uidValidity = 2;
    await cutOff();
    const { mailboxes } = await archive.sync(origin);
    expect(mailboxes).toMatchObject([{ ended: 0, held: 0 }]);
    expect(origin.count('source')).toBe(301);
    await expectTrue();
  });

  it.each([true, false])(
    'is held if it came in a run that was cut off, and is gone; with a copy: %s',
    async (isCopied) => {
      folders({ INBOX: 10, Archive: 1 });
      origin.identify();
      await archive.sync(origin);
      for (const n of range(1, 80)) {
        for (const path of isCopied ? ['INBOX', 'Archive'] : ['INBOX'])
          box(path).deliver(mail(`new ${n}`), { date: new Date(n * 60_000).toISOString() });
      }
      // Without a missing message, there is nothing to decide.
      box('INBOX').messages.delete(1);
      await cutOff();
      expect((await archive.places()).size).toBe(isCopied ? 171 : 91);
      for (const uid of range(11, 90)) box('INBOX').messages.delete(uid);
      expect((await archive.sync(origin)).mailboxes).toMatchObject([{ ended: 0, held: 81 }]);
    },
  );

  it('is held as before if a folder loses it that had a copy all along', async () => {
    labels(240);
    await archive.sync(origin);
    await archive.sync(origin);
    for (const uid of range(1, 60)) box('INBOX').messages.delete(uid);
    expect((await archive.sync(origin)).mailboxes).toMatchObject([{ ended: 0, held: 60 }]);
  });

  it('counts once while it is held, whether it was verified or not', async () => {
    labels(240);
    await archive.sync(origin);
    box('All').messages.clear();
    const { certificates } = await archive.sync(origin);
    const all = certificates.find(({ folder }) => folder === 'All');
    expect(all).toMatchObject({ originTotal: 0, stored: 0, assumed: 0, held: 240 });
  });

  it('is verified later, one request for each place', async () => {
    labels(12);
    await archive.sync(origin);
    archive.clock.advance(HOUR);
    const result = await archive.sync(origin, { policy: { ...policy, verifyPerHour: 100 } });
    expect(result.mailboxes).toMatchObject([{ verified: 10, corrected: 0 }]);
    expect(origin.count('source')).toBe(22);
  });

  it('is fetched from another folder if the first refuses it', async () => {
    labels(12);
    let refused = false;
    origin.before = (request) => {
      if (request.operation !== 'source' || request.folder !== 'INBOX' || refused) return;
      refused = true;
      throw status(500);
    };
    await archive.sync(origin);
    expect(origin.count('source')).toBe(13);
    expect((await archive.places()).size).toBe(21);
    await archive.sync(origin);
    expect(origin.count('source')).toBe(13);
    await expectTrue();
  });
});

/** As servers do that derive the id from the Message-ID. */
const byMessageId = (raw: Buffer): string =>
  /^Message-ID: .*$/m.exec(raw.toString('latin1'))?.[0] ?? '';

async function expectBytes(): Promise<void> {
  const ids = await archive.reading((catalog) =>
    [...catalog.list({})].map(({ folder, uid, id }) => [`${folder}/${uid}`, id]),
  );
  const there = [...(origin.boxes.get('AC1')?.folders.values() ?? [])].flatMap((folder) =>
    [...folder.messages.values()].map((m) => [`${folder.path}/${m.uid}`, hash('sha256', m.raw)]),
  );
  expect(new Map(ids as [string, string][])).toEqual(new Map(there as [string, string][]));
}

describe('a server whose ids follow from the Message-ID', () => {
  it.each([
    { by: 'the flag', flags: ['\\Draft'], specialUse: null },
    { by: 'the folder', flags: [], specialUse: '\\Drafts' },
  ])('rewrites a draft, known by $by, to the same length and date', async (draft) => {
    const drafts = new ModelFolder('Notes', draft.specialUse);
    origin.mailbox('AC1', 'ada@example.org', [new ModelFolder('INBOX'), drafts]);
    origin.identify(byMessageId);
    const { flags } = draft;
    const date = '2026-01-01T00:00:00.000Z';
    drafts.deliver(mail('draft', 'first AAAA'), { date, flags });
    await archive.sync(origin);
    drafts.messages.clear();
    drafts.deliver(mail('draft', 'other BBBB'), { date, flags });
    await archive.sync(origin);
    await expectBytes();
  });

  it.each([
    { what: 'subject', subject: (n: number) => `letter ${n}`, date: () => 1 },
    { what: 'date', subject: () => 'letter', date: (n: number) => n },
  ])('gives it to messages that differ in their $what: each is fetched', async (differ) => {
    folders({ INBOX: 0, Archive: 0 });
    origin.identify(byMessageId);
    const deliver = (path: string, n: number): void => {
      const raw = mail('letter', `body ${n}`).toString();
      box(path).deliver(Buffer.from(raw.replace(': letter', `: ${differ.subject(n)}`)), {
        date: `2026-01-0${differ.date(n)}T00:00:00.000Z`,
      });
    };
    deliver('INBOX', 1);
    deliver('Archive', 2);
    await archive.sync(origin, { concurrency: 1 });
    deliver('Archive', 3);
    await archive.sync(origin);
    await expectBytes();
  });
});

describe('an assumed message that turns out to be another one', () => {
  const VERIFYING = { policy: { ...policy, verifyPerHour: 100 } };
  const [early, late] = ['2026-01-01T00:00:00.000Z', '2026-02-02T00:00:00.000Z'];
  const letter = (body: string): Buffer => mail('letter', body);

  beforeEach(() => {
    folders({ INBOX: 0, Sent: 0, Work: 0 });
    origin.identify(byMessageId);
    box('INBOX').deliver(letter('AAAA'), { date: early });
  });

  async function expectCorrected(): Promise<void> {
    archive.clock.advance(HOUR);
    const { mailboxes } = await archive.sync(origin, VERIFYING);
    expect(mailboxes).toMatchObject([{ corrected: 1 }]);
    await expectBytes();
    const messages = [...(origin.boxes.get('AC1')?.folders.values() ?? [])].flatMap((folder) =>
      [...folder.messages.values()].map((m) => [`${folder.path}/${m.uid}`, m.date]),
    );
    await archive.reading((catalog) => {
      const lines = [...catalog.list({})];
      const dates = lines.map(({ folder, uid, date }) => [`${folder}/${uid}`, date]);
      expect(new Map(dates as [string, string][])).toEqual(new Map(messages as [string, string][]));
    });
  }

  it('has its own date, not the one at which the other was first received', async () => {
    box('Sent').deliver(letter('AAAA'), { date: late });
    await archive.sync(origin);
    box('Work').deliver(letter('BBBB'), { date: late });
    await archive.sync(origin);
    await expectCorrected();
  });

  it('keeps the date of its place if the archive had it with another one', async () => {
    box('Sent').deliver(letter('BBBB'), { date: late });
    await archive.sync(origin);
    box('Work').deliver(letter('BBBB'), { date: early });
    await archive.sync(origin);
    for (const { flags } of box('Work').messages.values()) flags.push('\\Flagged');
    await archive.sync(origin);
    await expectCorrected();
  });
});

describe('a server whose ids are wrong', () => {
  it.each([1, 4])(
    'gives all messages the same id: each is fetched, %i at a time',
    async (concurrency) => {
      folders({ INBOX: 300, Archive: 100 });
      origin.identify(() => 'M1');
      await archive.sync(origin, { concurrency });
      expect(origin.count('source')).toBe(400);
      const places = await archive.places();
      expect(new Set([...places.values()].map(({ docid }) => docid)).size).toBe(400);
      await expectTrue();
    },
  );
});
