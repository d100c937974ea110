import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Fact } from '../../src/archive/format.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { hasCode } from '../../src/core/errors.ts';
import {
  appeared,
  folder,
  type History,
  INBOX,
  listing,
  openRoom,
  place,
  type Room,
  sha256,
} from './history.ts';

const ARCHIVE = { ...INBOX, folder: 'Archive' };

describe('folding batches', () => {
  const place1 = place(INBOX, 1);
  let room: Room;
  let catalog: WritableCatalog;
  let history: History;

  beforeEach(async () => {
    room = await openRoom(folder(ARCHIVE));
    ({ catalog, history } = room);
  });
  afterEach(() => {
    catalog.close();
    room.close();
  });

  const inbox = () => catalog.folders.find(INBOX)?.id ?? -1;
  const open = (id = inbox(), generation = 1) => [
    ...catalog.places.open({ folder: id, generation }),
  ];

  test('a message that appears has a place, a docid, a position and an address of its mailbox', () => {
    const batch = history.commit([
      appeared(place1, 'one', { listing: { flags: ['\\Seen', 'work'] } }),
    ]);
    catalog.foldBatch(batch);
    const docid = Math.floor(Date.parse(listing(1).date) / 1000) * 64;
    expect(open()).toMatchObject([{ uid: 1, docid, flags: ['\\Seen', 'work'], assumed: false }]);
    expect(catalog.messages.find(sha256('one'))).toEqual({ docid, size: 1001 });
    expect(catalog.locator.message(sha256('one'))).toEqual(batch.records[0]?.position);
    expect(catalog.folders.mailboxes()).toMatchObject([{ address: 'me@example.net' }]);
    expect(catalog.reached()).toMatchObject({ number: 2, hash: batch.commit.hash, orphans: 0 });
    expect(catalog.folders.highestUid(inbox(), 1)).toBe(1);
  });

  test('a batch that does not follow is refused and changes nothing', () => {
    const first = history.commit([appeared(place1, 'one')]);
    const second = history.commit([appeared(place(INBOX, 2), 'two')]);
    const refused = (act: () => void) => {
      let thrown: unknown;
      try {
        act();
      } catch (error) {
        thrown = error;
      }
      expect(hasCode(thrown, 'catalog-out-of-step')).toBe(true);
    };
    refused(() => catalog.foldBatch(second));
    refused(() => catalog.foldBatch({ ...first, previousHash: sha256('another log') }));
    expect(open()).toEqual([]);
    catalog.foldBatch(first);
    refused(() => catalog.foldBatch(first));
    catalog.foldBatch(second);
    expect(open().map((found) => found.uid)).toEqual([1, 2]);
  });

  test('a gap is crossed only when asked', () => {
    history.commit([appeared(place1, 'lost')]);
    const later = history.commit([
      appeared(place(INBOX, 2), 'two'),
      { fact: 'ended', ...place1, reason: 'deleted' },
    ]);
    expect(() => catalog.foldBatch(later)).toThrow('catalog-out-of-step');
    catalog.foldBatch(later, { acrossGap: true });
    expect(open().map((found) => found.uid)).toEqual([2]);
    expect(catalog.reached().orphans).toBe(1);
  });

  test.each(['constructor', 'valueOf', '__proto__'])('an unknown fact %s is not folded', (fact) => {
    catalog.foldBatch(history.commit([{ fact } as never]));
    expect(catalog.reached().orphans).toBe(1);
  });

  test('flags, ends and reopenings keep one row a place', () => {
    catalog.foldBatch(history.commit([appeared(place1, 'one')]));
    catalog.foldBatch(history.commit([{ fact: 'flags', ...place1, flags: ['\\Seen'] }]));
    expect(open()).toMatchObject([{ uid: 1, flags: ['\\Seen'], since: 3 }]);
    catalog.foldBatch(history.commit([{ fact: 'ended', ...place1, reason: 'deleted' }]));
    expect(open()).toEqual([]);
    expect(catalog.places.at(inbox(), 1, 1)).toMatchObject({ state: 'ended', endedCommit: 4 });
    catalog.foldBatch(
      history.commit([{ fact: 'reopened', ...place1, flags: ['\\Flagged'], reason: 'answers' }]),
    );
    expect(open()).toMatchObject([{ uid: 1, flags: ['\\Flagged'] }]);
    expect(catalog.folders.counts(inbox())).toMatchObject({ open: 1, ended: 0 });
    expect(catalog.reached().orphans).toBe(0);
  });

  test('another message at a taken uid ends the one that stood there', () => {
    catalog.foldBatch(history.commit([appeared(place1, 'one')]));
    catalog.foldBatch(history.commit([appeared(place1, 'other', { docid: 64 })]));
    expect(open()).toMatchObject([{ uid: 1, docid: 64 }]);
    expect(catalog.folders.counts(inbox())).toMatchObject({ open: 1, ended: 1 });
  });

  test('the same when its folder goes and comes back in between, and when the catalog was closed', async () => {
    catalog.foldBatch(
      history.commit([
        appeared(place1, 'one'),
        { fact: 'folder-gone', ...INBOX },
        folder(INBOX),
        appeared(place1, 'other', { docid: 64 }),
      ]),
    );
    expect(open()).toMatchObject([{ uid: 1, docid: 64 }]);
    expect(catalog.folders.counts(inbox())).toMatchObject({ open: 1, ended: 1 });
    catalog.close();
    catalog = await openCatalog(room.dir);
    catalog.foldBatch(history.commit([appeared(place1, 'third', { docid: 128 })]));
    expect(open()).toMatchObject([{ uid: 1, docid: 128 }]);
    expect(catalog.folders.counts(inbox())).toMatchObject({ open: 1, ended: 2 });
  });

  test('a docid that another message has moves to the next free one', () => {
    catalog.foldBatch(
      history.commit([
        appeared(place1, 'one', { docid: 640 }),
        appeared(place(INBOX, 2), 'two', { docid: 641 }),
        appeared(place(INBOX, 3), 'three', { docid: 640 }),
      ]),
    );
    expect(open().map((found) => found.docid)).toEqual([640, 641, 642]);
  });

  test('docids handed out are not handed out again, and overflow into the next second', () => {
    const first = Array.from({ length: 70 }, () => catalog.docidFor(6400));
    expect(first).toEqual(Array.from({ length: 70 }, (_, i) => 6400 + i));
    expect(catalog.docidFor(6464)).toBe(6470);
    catalog.foldBatch(
      history.commit(
        first.slice(0, 5).map((docid, i) => appeared(place(INBOX, i + 1), `m${i}`, { docid })),
      ),
    );
    expect(catalog.docidFor(6400)).toBe(6471);
    expect(catalog.docidFor(1)).toBe(1);
  });

  test('one message at two places is one row, and a copy keeps its own date', () => {
    const copied = place(ARCHIVE, 9);
    catalog.foldBatch(
      history.commit([
        appeared(place1, 'one'),
        appeared(copied, 'one', { listing: { date: '2020-05-05T00:00:00.000Z' } }),
      ]),
    );
    const archive = catalog.folders.find(ARCHIVE)?.id ?? -1;
    expect(open(archive)[0]?.docid).toBe(open()[0]?.docid);
  });

  test('a folder keeps its number through renames, and its path when it comes back', () => {
    const id = inbox();
    catalog.foldBatch(history.commit([appeared(place1, 'one')]));
    catalog.foldBatch(history.commit([{ fact: 'folder-renamed', ...INBOX, to: 'INBOX.Old' }]));
    const renamed = { ...INBOX, folder: 'INBOX.Old' };
    expect(catalog.folders.find(INBOX)).toBeUndefined();
    expect(catalog.folders.find(renamed)).toMatchObject({ id, name: 'Old' });
    catalog.foldBatch(
      history.commit([
        { fact: 'ended', ...place(renamed, 1), reason: 'folder gone' },
        { fact: 'folder-gone', ...renamed },
      ]),
    );
    expect(catalog.folders.find(renamed)).toBeUndefined();
    catalog.foldBatch(history.commit([folder(INBOX), folder(renamed, 2)]));
    expect(catalog.folders.find(renamed)).toMatchObject({ id, generation: 2, gone: false });
    expect(inbox()).not.toBe(id);
    expect(catalog.folders.highestUid(id, 1)).toBe(1);
    expect(catalog.folders.highestUid(id, 2)).toBe(0);
  });

  test('held, assumed and corrected places', () => {
    const moved = place(ARCHIVE, 4);
    catalog.foldBatch(history.commit([appeared(place1, 'one')]));
    catalog.foldBatch(
      history.commit([
        { fact: 'ended', ...place1, reason: 'moved' },
        appeared(moved, 'one', { assumedFrom: place1 }),
      ]),
    );
    const archive = catalog.folders.find(ARCHIVE)?.id ?? -1;
    expect(catalog.places.assumed(INBOX, Number.MAX_SAFE_INTEGER, 10)).toMatchObject([
      { folder: 'Archive', uid: 4, id: sha256('one') },
    ]);
    catalog.foldBatch(history.commit([{ fact: 'held', ...moved, held: true }]));
    expect(catalog.folders.counts(archive)).toMatchObject({ open: 1, assumed: 0, held: 1 });
    catalog.foldBatch(
      history.commit([
        {
          fact: 'verified',
          ...moved,
          message: sha256('really'),
          docid: 77,
          size: 12,
          corrected: true,
        },
        { fact: 'held', ...moved, held: false },
      ]),
    );
    expect(open(archive)).toMatchObject([{ docid: 77, assumed: false, held: false }]);
    expect(catalog.places.assumed(INBOX, Number.MAX_SAFE_INTEGER, 10)).toEqual([]);
    expect(catalog.locator.message(sha256('really'))).toBeDefined();
  });

  test('quarantine opens, is acknowledged, tried again and released', () => {
    const quarantined = (reason: 'short' | 'refused') =>
      ({
        fact: 'quarantined',
        ...place1,
        listing: listing(1),
        reason,
        detail: 'x',
        kept: sha256('kept'),
      }) as const;
    catalog.foldBatch(history.commit([quarantined('short')]));
    catalog.foldBatch(history.commit([{ fact: 'acknowledged', ...place1 }]));
    catalog.foldBatch(history.commit([quarantined('refused')]));
    expect(catalog.quarantine.open()).toMatchObject([
      { uid: 1, reason: 'refused', acknowledged: true, kept: sha256('kept'), subject: 'Subject 1' },
    ]);
    expect(catalog.places.at(inbox(), 1, 1)).toMatchObject({ state: 'quarantined' });
    catalog.foldBatch(
      history.commit([{ fact: 'released', ...place1, reason: 'stored' }, appeared(place1, 'one')]),
    );
    expect(catalog.quarantine.open()).toEqual([]);
    expect(catalog.folders.counts(inbox())).toMatchObject({ open: 1, quarantined: 0 });
  });

  test('a purge leaves a tombstone and the places the origin still shows', () => {
    catalog.foldBatch(history.commit([appeared(place1, 'one'), appeared(place(INBOX, 2), 'two')]));
    catalog.foldBatch(
      history.commit([
        { fact: 'purged', message: sha256('one'), reason: 'forgotten', places: [place1] },
      ]),
    );
    expect(catalog.messages.isForgotten(sha256('one'))).toBe(true);
    expect(catalog.messages.find(sha256('one'))).toBeUndefined();
    expect(catalog.locator.message(sha256('one'))).toBeUndefined();
    expect(catalog.folders.counts(inbox())).toMatchObject({ open: 1, forgotten: 1 });
    expect(catalog.places.at(inbox(), 1, 1)).toEqual({ state: 'forgotten', uid: 1 });
    catalog.foldBatch(history.commit([{ fact: 'ended', ...place1, reason: 'deleted' }]));
    expect(catalog.folders.counts(inbox())).toMatchObject({ open: 1, forgotten: 0 });
    expect(catalog.reached().orphans).toBe(0);
  });

  test('blobs and certificates', () => {
    catalog.foldBatch(
      history.close([
        {
          kind: 'blob',
          hash: sha256('logo'),
          size: 5,
          position: { segment: 3, ordinal: 7, offset: 99 },
        },
      ]),
    );
    expect(catalog.messages.hasBlob(sha256('logo'))).toBe(true);
    expect(catalog.messages.hasBlob(sha256('other'))).toBe(false);
    expect(catalog.locator.blob(sha256('logo'))).toEqual({ segment: 3, ordinal: 7, offset: 99 });
    catalog.foldBatch(
      history.commit([
        {
          fact: 'certificate',
          ...INBOX,
          generation: 1,
          originTotal: 4,
          stored: 3,
          assumed: 0,
          quarantined: 1,
          held: 0,
          forgotten: 0,
          complete: true,
          since: '2024-01-01T00:00:00.000Z',
        },
      ]),
    );
    expect(catalog.folders.latestCertificate(inbox())).toMatchObject({
      commit: 3,
      originTotal: 4,
      complete: true,
    });
  });

  test('a message without its bytes is no message to deduplicate against, until it is stored again', () => {
    const fact = appeared(place1, 'one');
    const position = { segment: 2, ordinal: 5, offset: 10 };
    // The message record was damaged: only the fact could be read.
    catalog.foldBatch(history.close([{ kind: 'fact', fact, position }]));
    expect(catalog.messages.find(sha256('one'))).toBeUndefined();
    expect(catalog.messages.docidOf(sha256('one'))).toBe(fact.docid);
    expect(catalog.locator.message(sha256('one'))).toBeUndefined();
    expect(catalog.history(sha256('one'))).toHaveLength(1);
    const again = appeared(place(INBOX, 2), 'one');
    catalog.foldBatch(history.commit([again]));
    expect(catalog.messages.find(sha256('one'))).toMatchObject({ docid: fact.docid });
    expect(open().map((found) => found.docid)).toEqual([fact.docid, fact.docid]);
  });

  test('the history of a message shows what happened at each place', () => {
    const moved = place(ARCHIVE, 4);
    catalog.foldBatch(history.commit([appeared(place1, 'one')]));
    catalog.foldBatch(history.commit([{ fact: 'flags', ...place1, flags: ['\\Seen'] }]));
    catalog.foldBatch(
      history.commit([
        { fact: 'ended', ...place1, reason: 'moved' },
        appeared(moved, 'one', { assumedFrom: place1 }),
      ]),
    );
    catalog.foldBatch(
      history.commit([
        {
          fact: 'verified',
          ...moved,
          message: sha256('one'),
          docid: 1,
          size: 1001,
          corrected: false,
        },
        { fact: 'reopened', ...place1, flags: [], reason: 'answers' },
      ]),
    );
    const steps = catalog
      .history(sha256('one'))
      .map(({ commit, event, folder: path, uid, detail }) => [commit, event, path, uid, detail]);
    expect(steps).toEqual([
      [2, 'appeared', 'INBOX', 1, undefined],
      [3, 'flags', 'INBOX', 1, undefined],
      [4, 'ended', 'INBOX', 1, { reason: 'moved' }],
      [4, 'appeared', 'Archive', 4, { assumedFrom: { ...place1 } }],
      [5, 'reopened', 'INBOX', 1, { reason: 'answers' }],
      [5, 'verified', 'Archive', 4, { corrected: false }],
    ]);
  });

  test('a message was last seen by the last complete comparison that still had it', () => {
    const at = (day: number): string =>
      new Date(Date.UTC(2024, 0, 1) - day * 86_400_000).toISOString();
    const sums = { originTotal: 1, stored: 1, assumed: 0, quarantined: 0, held: 0, forgotten: 0 };
    const compared = (since: string, complete = true): Fact => {
      return { fact: 'certificate', ...INBOX, generation: 1, ...sums, complete, since };
    };
    const ended: Fact = { fact: 'ended', ...place1, reason: 'missing' };
    for (const fact of [compared(at(9)), appeared(place1, 'one'), ended])
      catalog.foldBatch(history.commit([fact]));
    // The comparison before it came knows nothing of it.
    expect(catalog.lastSeen(sha256('one'))).toEqual([]);
    catalog.foldBatch(
      history.commit([{ fact: 'reopened', ...place1, flags: [], reason: 'answers' }]),
    );
    for (const fact of [compared(at(8)), compared(at(7), false)])
      catalog.foldBatch(history.commit([fact]));
    // From here on the brake holds what no answer had any more.
    for (const fact of [{ fact: 'held', ...place1, held: true } as const, compared(at(6))])
      catalog.foldBatch(history.commit([fact]));
    const last = history.commit([ended, compared(at(5))]);
    catalog.foldBatch(last);
    const found = catalog.lastSeen(sha256('one')).map((end) => [end.commit, end.seen, end.found]);
    expect(found).toEqual([[last.commit.number, Date.parse(at(8)), last.commit.time]]);
  });

  test('places can be walked while the same connection writes', () => {
    const count = 2_500;
    catalog.foldBatch(
      history.commit(
        Array.from({ length: count }, (_, i) => appeared(place(INBOX, i + 1), `m${i}`)),
      ),
    );
    let seen = 0;
    for (const { uid } of catalog.places.open({ folder: inbox(), generation: 1 })) {
      seen += 1;
      if (uid % 500 === 0)
        catalog.foldBatch(
          history.commit([{ fact: 'ended', ...place(INBOX, uid), reason: 'deleted' }]),
        );
    }
    expect(seen).toBe(count);
    expect(open().length).toBe(count - 5);
    expect(
      [...catalog.places.open({ folder: inbox(), generation: 1, from: 10, to: 12 })].map(
        ({ uid }) => uid,
      ),
    ).toEqual([10, 11, 12]);
  });
});
