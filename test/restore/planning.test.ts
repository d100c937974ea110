import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { scrubState } from '../../src/core/state.ts';
import { RestorePlan } from '../../src/transfer/plan-restore.ts';
import {
  fitDate,
  fitFlags,
  fitSizes,
  matchExisting,
} from '../../src/transfer/restore-comparison.ts';
import { openJournal, RestoreJournal } from '../../src/transfer/restore-journal.ts';
import {
  acceptableName,
  addSelection,
  type Layout,
  lastPlaces,
  type NameRules,
  type RestoreSelection,
  type SourceFolder,
  targetFolders,
} from '../../src/transfer/restore-selection.ts';
import { type Letter, StoredArchive } from '../export/stored-archive.ts';
import { ALL } from './restoring.ts';

let archive: StoredArchive;
let beforeLoss: number;

const letter = (folder: string, name: string): Letter => ({
  folder,
  subject: name,
  flags: name === 'one' ? ['\\Flagged'] : [],
  source: Buffer.from(`Subject: ${name}\r\n\r\n${name}\r\n`),
});

beforeAll(async () => {
  archive = await StoredArchive.create();
  const anna = [letter('INBOX', 'one'), letter('INBOX', 'two'), letter('Trips', 'three')];
  await archive.store([...anna, letter('Trips', 'one')]);
  beforeLoss = await archive.store([letter('INBOX', 'one'), letter('Sent', 'four')], {
    mailbox: 'bo@example.org',
    quarantined: [{ folder: 'Sent', uid: 9 }],
  });
  const ended = [
    { folder: 'INBOX', uid: 1 },
    { folder: 'INBOX', uid: 2 },
    { folder: 'Trips', uid: 1 },
  ];
  await archive.store([], { ended });
  await archive.store([], { mailbox: 'bo@example.org', ended: [{ folder: 'INBOX', uid: 1 }] });
});
afterAll(() => archive.remove());

/** What is chosen: mailbox, folder and subject of each message, and folders without any. */
function chosen(selection: Partial<RestoreSelection>): string[] {
  const plan = new RestorePlan();
  try {
    addSelection(archive.catalog, { ...ALL, ...selection }, plan);
    return [...plan.folders()]
      .flatMap(([number, { address, path }]) => {
        const name = `${address.split('@')[0]} ${path}`;
        const messages = [...plan.due(number)].map(({ id }) => `${name} ${subjectOf(id)}`);
        return messages.length > 0 ? messages : [name];
      })
      .sort();
  } finally {
    plan.close();
  }
}

function subjectOf(id: string | null): string {
  const docid = id === null ? undefined : archive.catalog.messages.find(id)?.docid;
  for (const { line } of archive.catalog.listPlaces({ deleted: true }))
    if (line.id === id) return line.subject ?? '';
  for (const { line } of archive.catalog.listPlaces({}))
    if (line.id === id) return line.subject ?? '';
  return String(docid);
}

const query = (text: string, now: number) => ({
  text,
  node: parseQuery(text, { now }).node,
  accounts: new Map<string, string>(),
});

test('without a choice, everything that is there now, with empty folders; what was never fetched is counted', () => {
  expect(chosen({})).toEqual(['anna INBOX', 'anna Trips one', 'bo INBOX', 'bo Sent four']);
  const plan = new RestorePlan();
  addSelection(archive.catalog, ALL, plan);
  expect(plan.refused(10)).toMatchObject([{ reason: 'quarantined', uid: 9 }]);
  plan.close();
});

test('as of a moment, what was there then', () => {
  expect(chosen({ asOf: beforeLoss })).toEqual([
    'anna INBOX one',
    'anna INBOX two',
    'anna Trips one',
    'anna Trips three',
    'bo INBOX one',
    'bo Sent four',
  ]);
});

test('deleted messages are those without a place in their mailbox, each once, at its last place', () => {
  // Anna's first letter is still in Trips; Bo has lost it.
  expect(chosen({ deleted: true })).toEqual(['anna INBOX two', 'anna Trips three', 'bo INBOX one']);
});

test('mailboxes, folders and queries narrow it, and are combined', () => {
  const [anna, bo] = ['anna@example.org', 'bo@example.org'];
  expect(chosen({ mailboxes: [bo] })).toEqual(['bo INBOX', 'bo Sent four']);
  expect(chosen({ mailboxes: [anna, bo], folders: ['INBOX', 'Sent'] })).toEqual([
    'anna INBOX',
    'bo INBOX',
    'bo Sent four',
  ]);
  expect(chosen({ folders: ['Trips', 'Trips'] })).toEqual(['anna Trips one']);
  expect(chosen({ query: query('is:starred', beforeLoss), asOf: beforeLoss })).toEqual([
    'anna INBOX one',
    'anna Trips one',
    'bo INBOX one',
  ]);
  expect(chosen({ query: query('is:starred', beforeLoss), deleted: true })).toEqual([
    'bo INBOX one',
  ]);
  expect(chosen({ mailboxes: [anna], folders: ['INBOX'], deleted: true })).toEqual([
    'anna INBOX two',
  ]);
});

const DOVECOT: NameRules = { delimiter: '/', prefix: '', refused: '.', specialUse: new Map() };
const CYRUS: NameRules = {
  delimiter: '.',
  prefix: 'INBOX.',
  refused: '"\\%',
  specialUse: new Map([['\\Sent', 'INBOX.Sent']]),
};
const IN_PLACE: Layout = { kind: 'in-place' };
const BELOW: Layout = { kind: 'below', levels: ['Restored', '2026-11-23'], byAddress: false };

function folder(path: string, more: Partial<SourceFolder> = {}): SourceFolder {
  return { address: 'anna@mail.example', path, delimiter: '/', specialUse: null, ...more };
}

function paths(sources: readonly SourceFolder[], layout: Layout, rules: NameRules): string[] {
  return targetFolders(sources, layout, rules).map(({ path }) => path);
}

describe('target folders', () => {
  test('levels are parted by the delimiter of the server, below the prefix of its namespace', () => {
    const sources = [folder('INBOX'), folder('Lists/rust')];
    expect(paths(sources, BELOW, DOVECOT)).toEqual([
      'Restored/2026-11-23/INBOX',
      'Restored/2026-11-23/Lists/rust',
    ]);
    expect(paths(sources, BELOW, CYRUS)).toEqual([
      'INBOX.Restored.2026-11-23.INBOX',
      'INBOX.Restored.2026-11-23.Lists.rust',
    ]);
    expect(paths(sources, IN_PLACE, CYRUS)).toEqual(['INBOX', 'INBOX.Lists.rust']);
  });

  test('several mailboxes have a level each', () => {
    const sources = [folder('INBOX'), folder('INBOX', { address: 'bo@mail.example' })];
    const layout = { kind: 'below', levels: ['Old'], byAddress: true } as const;
    expect(paths(sources, layout, { ...DOVECOT, refused: '' })).toEqual([
      'Old/anna@mail.example/INBOX',
      'Old/bo@mail.example/INBOX',
    ]);
  });

  test('in place, a special folder goes into that of the server, whatever either is called', () => {
    const sources = [
      folder('Sent'),
      folder('Gesendet', { specialUse: '\\Sent' }),
      folder('Gesendet/2020'),
      folder('Ausgang', { specialUse: '\\Sent' }),
    ];
    expect(paths(sources, IN_PLACE, CYRUS)).toEqual([
      'INBOX.Sent (2)',
      'INBOX.Sent',
      'INBOX.Sent.2020',
      'INBOX.Ausgang',
    ]);
  });

  test('below a prefix, special folders keep their names', () => {
    const sources = [folder('Gesendet', { specialUse: '\\Sent' })];
    expect(paths(sources, BELOW, CYRUS)).toEqual(['INBOX.Restored.2026-11-23.Gesendet']);
  });

  test('a changed name never takes that of another folder, and children follow their parent', () => {
    const sources = [folder('a.b'), folder('a.b/c'), folder('a_b'), folder('a_b/c')];
    expect(targetFolders(sources, IN_PLACE, DOVECOT)).toMatchObject([
      { path: 'a_b (2)', replaced: true, numbered: true },
      { path: 'a_b (2)/c', replaced: true, numbered: true },
      { path: 'a_b', replaced: false, numbered: false },
      { path: 'a_b/c', replaced: false, numbered: false },
    ]);
  });

  test('the case of INBOX is ignored at the top alone', () => {
    const sources = [folder('INBOX'), folder('inbox/x'), folder('x/inbox'), folder('x/INBOX')];
    expect(paths(sources, IN_PLACE, DOVECOT)).toEqual(['INBOX', 'INBOX/x', 'x/inbox', 'x/INBOX']);
  });

  test('what no server accepts is replaced, and nothing else', () => {
    expect(acceptableName('a\r\nb\0', DOVECOT)).toBe('a__b_');
    expect(acceptableName('', DOVECOT)).toBe('_');
    expect(acceptableName('\ud83d', DOVECOT)).toBe('\ufffd');
    expect(acceptableName('Entwürfe 日本語 😀 %*&', DOVECOT)).toBe('Entwürfe 日本語 😀 %*&');
    expect(acceptableName('x"y\\z%', CYRUS)).toBe('x_y_z_');
  });

  test('every folder gets one path of its own that the server accepts', () => {
    const level = fc.oneof(
      fc.constantFrom('a', 'b', 'a_', 'a.', 'a (2)', '', 'INBOX', 'inbox', 'Inbox', 'Sent', '\0'),
      fc.string({ unit: 'grapheme', maxLength: 4 }),
    );
    const source: fc.Arbitrary<SourceFolder> = fc.record({
      address: fc.constantFrom('anna@mail.example', 'bo@mail.example'),
      path: fc.array(level, { minLength: 1, maxLength: 3 }).map((levels) => levels.join('/')),
      delimiter: fc.constantFrom('/', ''),
      specialUse: fc.constantFrom(null, null, '\\Sent', '\\Trash'),
    });
    const layouts = fc.constantFrom<Layout>(IN_PLACE, BELOW, { ...BELOW, byAddress: true });
    const flat = { ...DOVECOT, delimiter: '' };
    const onAFlatServer = [folder('inbox/a.'), folder('Inbox/a_')].map((one) => ({
      ...one,
      delimiter: '',
    }));
    fc.assert(
      fc.property(
        fc.array(source, { maxLength: 12 }),
        layouts,
        fc.constantFrom(DOVECOT, CYRUS, flat),
        (sources, layout, rules) => {
          const placed = targetFolders(sources, layout, rules);
          expect(placed.map((target) => target.source)).toEqual(sources);
          // A server without a delimiter has no levels: only a name that is INBOX as a whole is INBOX.
          const above = rules.delimiter === '' ? /^inbox$/i : /^inbox(?![^./])/i;
          const keys = placed.map(({ path }) => path.replace(above, 'INBOX'));
          expect(new Set(keys).size).toBe(sources.length);
          for (const { path } of placed) {
            expect(path.startsWith(rules.prefix) || path === 'INBOX').toBe(true);
            const levels = rules.delimiter === '' ? [path] : path.split(rules.delimiter);
            for (const one of levels) expect(acceptableName(one, rules)).toBe(one);
          }
        },
      ),
      { numRuns: 500, examples: [[onAFlatServer, IN_PLACE, { ...flat, refused: '.' }]] },
    );
  });
});

const INBOX = { path: 'Restored/INBOX', uidValidity: '17' };

function file(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-journal-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return path.join(folder, 'journal.sqlite');
}

function opened(name: string): RestoreJournal {
  const journal = new RestoreJournal(new Database(name));
  onTestFinished(() => journal.close());
  return journal;
}

const BEGUN = {
  startedAt: 1,
  layout: { kind: 'below', levels: ['Restored', '2026-03-01'], byAddress: false },
  asOf: null,
} as const;

test('another process finds what was settled, and what was begun without an answer', () => {
  const name = file();
  const writing = opened(name);
  const plan = writing.begin('imaps://a@b:993', 'all', BEGUN);
  const journal = writing.entriesOf(plan);
  const first = journal.begin(INBOX, 'a', 5);
  const second = journal.begin(INBOX, 'a', 6);
  const third = journal.begin(INBOX, 'b', 7);
  const fourth = journal.begin(INBOX, 'c', 8);
  journal.settle(first, 5);
  journal.settle(third, null);
  journal.forget(fourth);
  const other = opened(name);
  const again = other.unfinished('imaps://a@b:993', 'all');
  expect(again).toEqual({ ...BEGUN, number: plan.number, refused: '' });
  expect(other.entriesOf(plan).entries(INBOX)).toEqual([
    { number: first, id: 'a', startedAt: 5, uid: 5, isSettled: true },
    { number: second, id: 'a', startedAt: 6, uid: null, isSettled: false },
    { number: third, id: 'b', startedAt: 7, uid: null, isSettled: true },
  ]);
});

test('another plan, folder or UIDVALIDITY has entries of its own, which no other plan changes', () => {
  const journal = opened(file());
  const plan = journal.entriesOf({ number: 1 });
  const number = plan.begin(INBOX, 'a', 5);
  const other = journal.entriesOf({ number: 2 });
  other.settle(number, 9);
  other.forget(number);
  expect(other.entries(INBOX)).toEqual([]);
  expect(plan.entries({ ...INBOX, path: 'Sent' })).toEqual([]);
  expect(plan.entries({ ...INBOX, uidValidity: '18' })).toEqual([]);
  expect(plan.lost({ ...INBOX, uidValidity: '18' })).toBe(1);
  expect(plan.lost(INBOX)).toBe(0);
  expect(plan.entries(INBOX)).toEqual([
    { number, id: 'a', startedAt: 5, uid: null, isSettled: false },
  ]);
});

test('a finished plan is not continued, nor one of another selection or target', () => {
  const journal = opened(file());
  const plan = journal.begin('imaps://a@b:993', 'all', BEGUN);
  journal.refuse(plan, './');
  expect(journal.unfinished('imaps://a@b:993', 'some')).toBeUndefined();
  expect(journal.unfinished('imaps://a@c:993', 'all')).toBeUndefined();
  expect(journal.unfinished('imaps://a@b:993', 'all')?.refused).toBe('./');
  expect(journal.rateOf('imaps://a@b:993')).toBeNull();
  journal.measured(plan, { messagesPerSecond: 50, bytesPerSecond: 1000 });
  expect(journal.rateOf('imaps://a@b:993')).toEqual({
    messagesPerSecond: 50,
    bytesPerSecond: 1000,
  });
  journal.finish(plan, 9);
  expect(journal.unfinished('imaps://a@b:993', 'all')).toBeUndefined();
});

test('a database that is only read, and has no journal, has nothing unfinished', () => {
  const name = file();
  new Database(name).exec('CREATE TABLE other (x)').close();
  const journal = new RestoreJournal(new Database(name, { readonly: true }));
  expect(journal.unfinished('imaps://a@b:993', 'all')).toBeUndefined();
  expect(journal.rateOf('imaps://a@b:993')).toBeNull();
  journal.close();
});

test('what was appended is dropped with the end of its plan, and when messages are forgotten', () => {
  const dataDir = path.dirname(file());
  const journal = openJournal({ dataDir, file: null });
  onTestFinished(() => journal.close());
  const plans = [1, 2].map((number) => journal.begin('imaps://a@b:993', `${number}`, BEGUN));
  for (const plan of plans) journal.entriesOf(plan).begin(INBOX, 'a', 5);
  const kept = () => plans.map((plan) => journal.entriesOf(plan).entries(INBOX).length);
  const [first] = plans;
  if (first !== undefined) journal.finish(first, 9);
  expect(kept()).toEqual([0, 1]);
  scrubState(dataDir, []);
  expect(kept()).toEqual([0, 0]);
  expect(journal.unfinished('imaps://a@b:993', '2')).toBeDefined();
});

describe('what a server keeps of a message', () => {
  test('dates that servers change are moved to the nearest they keep', () => {
    const [first, last] = [Date.UTC(1970, 0, 2), Date.UTC(2038, 0, 18)];
    expect(fitDate(Date.UTC(1901, 0, 1))).toEqual({ date: first, clamped: true });
    expect(fitDate(first)).toEqual({ date: first, clamped: false });
    expect(fitDate(last)).toEqual({ date: last, clamped: false });
    expect(fitDate(Date.UTC(2040, 0, 1))).toEqual({ date: last, clamped: true });
  });

  test('flags are kept, left out or refused', () => {
    const flags = ['\\Seen', '\\Recent', '\\DELETED', '\\Answered', '$Forwarded', 'kw'];
    expect(fitFlags(flags, ['\\seen', '$forwarded'])).toEqual({
      kept: ['\\Seen', '$Forwarded'],
      leftOut: ['\\Recent', '\\DELETED'],
      refused: ['\\Answered', 'kw'],
    });
    expect(fitFlags(flags, ['\\*']).kept).toEqual(['$Forwarded', 'kw']);
    expect(fitFlags(flags, null).refused).toEqual([]);
    expect(fitFlags(flags, []).kept).toEqual([]);
  });

  test('a message over a limit leaves its room to others', () => {
    expect(fitSizes([60, 50, 40, 101], { appendLimit: 100, quotaLeft: 100 })).toEqual([
      null,
      'quota',
      null,
      'append-limit',
    ]);
    expect(fitSizes([100, 101], { appendLimit: 100, quotaLeft: null })).toEqual([
      null,
      'append-limit',
    ]);
  });
});

describe('what is there already', () => {
  test('bytes are read only where Message-ID and size do not decide', async () => {
    const wanted = [
      { id: 'a', messageId: '<1>', size: 5 },
      { id: 'b', messageId: '<2>', size: 5 },
      { id: 'c', messageId: '<2>', size: 5 },
      { id: 'd', messageId: null, size: 7 },
    ];
    const found = [
      { uid: 1, messageId: '<1>', size: 5 },
      { uid: 2, messageId: '<1>', size: 6 },
      { uid: 3, messageId: '<2>', size: 5 },
      { uid: 4, messageId: null, size: 7 },
      { uid: 5, messageId: null, size: 8 },
    ];
    const ids = new Map([[3, 'c']]);
    const read: number[] = [];
    const matched = await matchExisting(wanted, found, async (uid) => {
      read.push(uid);
      return ids.get(uid);
    });
    expect([...matched]).toEqual([
      [0, 1],
      [2, 3],
    ]);
    expect(read).toEqual([3, 4]);
  });

  test('as many are matched as both sides have, each once', async () => {
    // The same Message-ID and size for several contents, as spam and bad clients make them.
    const CONTENTS = [
      { id: 'a', messageId: '<1>', size: 1 },
      { id: 'b', messageId: '<1>', size: 1 },
      { id: 'c', messageId: '<1>', size: 2 },
      { id: 'd', messageId: null, size: 1 },
      { id: 'e', messageId: null, size: 1 },
      { id: 'f', messageId: '<2>', size: 1 },
    ];
    const contents = fc.array(fc.constantFrom(...CONTENTS), { maxLength: 15 });
    await fc.assert(
      fc.asyncProperty(contents, contents, async (wanted, there) => {
        const found = there.map(({ messageId, size }, uid) => ({ uid, messageId, size }));
        const read = new Set<number>();
        const matched = await matchExisting(wanted, found, async (uid) => {
          read.add(uid);
          return there[uid]?.id;
        });
        expect(new Set(matched.values()).size).toBe(matched.size);
        const counts = (list: readonly { readonly id: string }[], id: string) =>
          list.filter((one) => one.id === id).length;
        for (const { id, messageId, size } of CONTENTS) {
          const got = [...matched].filter(([at]) => wanted[at]?.id === id);
          const same = CONTENTS.filter((c) => c.messageId === messageId && c.size === size);
          const rivals = same.filter((c) => counts(wanted, c.id) > 0);
          // Where one content alone is wanted under a Message-ID and size, these name it.
          const isNamed = messageId !== null && rivals.length === 1;
          const others = isNamed ? same.reduce((n, c) => n + counts(there, c.id), 0) : null;
          expect(got.length).toBe(Math.min(counts(wanted, id), others ?? counts(there, id)));
          for (const [, uid] of got) {
            expect(read.has(uid)).toBe(!isNamed);
            if (!isNamed) expect(there[uid]?.id).toBe(id);
          }
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe('deleted messages', () => {
  test('each comes once per mailbox, at its last place, unless it has a current one there', () => {
    const place = (docid: number, address: string, endedAt: string, folder = 'x') => ({
      docid,
      address,
      endedAt,
      folder,
    });
    const ended = [
      place(1, 'anna', '2026-01-01', 'old'),
      place(1, 'anna', '2026-01-02', 'last'),
      place(1, 'bo', '2026-01-01'),
      place(1, 'anna', '2026-01-02', 'together'),
      place(2, 'anna', '2026-01-01'),
      place(2, 'bo', '2026-01-01'),
    ];
    const isCurrent = (docid: number, address: string) => docid === 2 && address === 'anna';
    expect([...lastPlaces(ended, isCurrent)]).toEqual([ended[1], ended[2], ended[5]]);
  });
});
