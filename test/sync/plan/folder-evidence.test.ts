import { describe, expect, it, test } from 'vitest';
import { type Listing, NO_PLACES, type Place } from '../../../src/core/types.ts';
import {
  type EarlierEvidence,
  FolderEvidence,
  guardDeletions,
  judgeUidEpoch,
  pairMoves,
  samplePositions,
} from '../../../src/sync/plan/folder-evidence.ts';
import type { UidInterval } from '../../../src/sync/plan/plan-folder.ts';
import { listing } from '../../catalog/history.ts';

const TO_THE_END = Number.POSITIVE_INFINITY;

function evidenceOf(earlier: Partial<EarlierEvidence> = {}): FolderEvidence {
  return new FolderEvidence({ listed: 0, highestUid: 0, covered: [], startedAt: 1000, ...earlier });
}

const listings = (uids: readonly number[]) => uids.map((uid) => listing(uid));

function page(
  interval: UidInterval,
  uids: readonly number[],
  more: { readonly missing?: readonly number[]; readonly contradicted?: readonly number[] } = {},
) {
  const { missing = [], contradicted = [] } = more;
  return { interval, items: listings(uids), missing, contradicted: listings(contradicted) };
}

/** Records a newest page of these uids, and that all it shows is stored. */
function readHead(evidence: FolderEvidence, uids: readonly number[], total = uids.length): void {
  const interval = evidence.readNewestPage({ items: listings(uids), total });
  if (interval !== null) evidence.readPage(page(interval, uids)).ticket.seal();
}

describe('the newest page', () => {
  test('covers the complete folder when it shows all that it counts', () => {
    const evidence = evidenceOf({ listed: 7 });
    expect(evidence.total).toBe(7);
    readHead(evidence, [9, 5]);
    expect(evidence).toMatchObject({ total: 2, highestUid: 9, everyUidCovered: true });
    expect(evidence.belowHead).toEqual({ lo: 1, hi: 0 });
    expect(evidence.notWalked({ lo: 1, hi: 9 })).toEqual([]);
  });

  test('leaves what is below its last message', () => {
    const evidence = evidenceOf();
    const uids = Array.from({ length: 100 }, (_, i) => 300 - i);
    readHead(evidence, uids, 250);
    expect(evidence.belowHead).toEqual({ lo: 1, hi: 200 });
    expect(evidence.notWalked({ lo: 1, hi: 300 })).toEqual([{ lo: 1, hi: 200 }]);
    expect(evidence.everyUidCovered).toBe(false);
    expect(evidence.everyFlagAnswered).toBe(false);
  });

  test('proves nothing when it shows nothing and counts something', () => {
    const evidence = evidenceOf();
    expect(evidence.readNewestPage({ items: [], total: 3 })).toBeNull();
    expect(evidence.belowHead).toEqual({ lo: 1, hi: 0 });
  });

  test('says when it was requested last', () => {
    const evidence = evidenceOf({ startedAt: 5 });
    expect(evidence.askedAt).toBe(5);
    evidence.askedAt = 6;
    expect(evidence.askedAt).toBe(6);
  });
});

describe('a page', () => {
  test('with an open end covers up to the highest uid: later ones are not assigned yet', () => {
    const evidence = evidenceOf();
    evidence.sawUids(listings([3, 8]));
    const { answered } = evidence.readPage(page({ lo: 2, hi: TO_THE_END }, [3, 8]));
    expect(answered).toEqual({ lo: 2, hi: 8 });
  });

  test('is covered durably once every message that it expects is settled', () => {
    const evidence = evidenceOf();
    evidence.sawUids(listings([2]));
    const { ticket } = evidence.readPage(page({ lo: 1, hi: 2 }, [1, 2]));
    ticket.expect();
    evidence.defer({ listing: listing(2), fingerprint: 'f', ticket });
    ticket.seal();
    expect(evidence.everyUidCovered).toBe(false);
    ticket.settle();
    expect(evidence.everyUidCovered).toBe(false);
    evidence.takeDeferred(2)?.ticket.settle();
    expect(evidence.everyUidCovered).toBe(true);
  });

  test('is not explained while a uid is missing, contradicted or answers again', () => {
    const evidence = evidenceOf();
    const lacking = page({ lo: 1, hi: 9 }, [4], { missing: [3] });
    evidence.readPage(lacking);
    expect(evidence.isExplained(lacking)).toBe(false);
    evidence.missing.delete(3);
    expect(evidence.isExplained(lacking)).toBe(true);
    expect(evidence.isExplained(page({ lo: 1, hi: 9 }, [4], { contradicted: [4] }))).toBe(false);
    evidence.reappeared.set(4, listing(4));
    expect(evidence.isExplained(lacking)).toBe(false);
    evidence.deferReappeared(listing(4), 'print');
    expect(evidence.isExplained(lacking)).toBe(true);
  });
});

describe('missing uids', () => {
  test('are those that a page lacks, until one shows them', () => {
    const evidence = evidenceOf();
    evidence.readPage(page({ lo: 1, hi: 9 }, [], { missing: [3, 4] }));
    expect([...evidence.missing]).toEqual([3, 4]);
    evidence.readPage(page({ lo: 1, hi: 9 }, [3]));
    expect([...evidence.missing]).toEqual([4]);
    evidence.missing.add(7);
    expect([...evidence.missing]).toEqual([4, 7]);
  });

  test('do not include what is being fetched', () => {
    const evidence = evidenceOf();
    evidence.underWay.add(3);
    evidence.readPage(page({ lo: 1, hi: 9 }, [], { missing: [3] }));
    expect(evidence.missing.size).toBe(0);
    evidence.underWay.delete(3);
    evidence.readPage(page({ lo: 1, hi: 9 }, [], { missing: [3] }));
    expect([...evidence.missing]).toEqual([3]);
  });
});

describe('what a uid waits for', () => {
  test('is its source, a decision, or other messages', () => {
    const evidence = evidenceOf();
    const { ticket } = evidence.readPage(page({ lo: 1, hi: 9 }, [1, 2, 3]));
    evidence.underWay.add(1);
    evidence.defer({ listing: listing(2), fingerprint: 'f', ticket });
    evidence.postpone({ listing: listing(3), ticket });
    expect([1, 2, 3, 4].map((uid) => evidence.isAwaited(uid))).toEqual([true, true, true, false]);
    expect([1, 2, 3].map((uid) => evidence.underWay.has(uid))).toEqual([true, false, true]);
    evidence.underWay.delete(1);
    expect(evidence.isAwaited(1)).toBe(false);
    expect(evidence.takeDeferred(2)?.listing.uid).toBe(2);
    expect(evidence.takeDeferred(2)).toBeUndefined();
    expect(evidence.postponed.splice(0).map((message) => message.listing.uid)).toEqual([3]);
    expect(evidence.postponed.splice(0)).toEqual([]);
  });

  test('is nothing once it is set aside', () => {
    const evidence = evidenceOf();
    evidence.setAside.add(5);
    expect(evidence.setAside.has(5)).toBe(true);
    expect(evidence.isAwaited(5)).toBe(false);
  });
});

describe('earlier passes', () => {
  test('say which uids may be known, and which of them were covered', () => {
    const evidence = evidenceOf({ highestUid: 10, covered: [{ lo: 1, hi: 4 }] });
    expect(evidence.isFirst).toBe(false);
    expect([4, 10, 11].map((uid) => evidence.mayBeKnown(uid))).toEqual([true, true, false]);
    expect([4, 5, 11].map((uid) => evidence.wasCovered(uid))).toEqual([true, false, false]);
    // A page of this pass changes nothing about what was covered before it.
    evidence.readPage(page({ lo: 1, hi: 9 }, [])).ticket.seal();
    expect(evidence.wasCovered(5)).toBe(false);
  });

  test('of the same sweep have answered for flags', () => {
    const evidence = evidenceOf({ highestUid: 9 });
    evidence.sawUids(listings([9]));
    evidence.readPage(page({ lo: 6, hi: 9 }, [9]));
    expect(evidence.everyFlagAnswered).toBe(false);
    evidence.resumeSweep([{ lo: 1, hi: 5 }]);
    expect(evidence.everyFlagAnswered).toBe(true);
  });
});

test('flags that an earlier answer showed are not changed again', () => {
  const evidence = evidenceOf();
  expect(evidence.flagsChanged).toBe(false);
  expect(evidence.changeFlags(1, ['\\Seen'])).toBe(true);
  expect(evidence.changeFlags(1, ['\\Seen'])).toBe(false);
  expect(evidence.changeFlags(1, [])).toBe(true);
  expect(evidence.changeFlags(2, [])).toBe(true);
  expect(evidence.flagsChanged).toBe(true);
});

describe('a folder', () => {
  const stored = (count: number) => ({ ...NO_PLACES, stored: count });

  test('is complete when everything is covered and adds up', () => {
    const evidence = evidenceOf();
    readHead(evidence, [2, 1]);
    expect(evidence.isComplete(stored(2))).toBe(true);
    expect(evidence.isComplete(stored(1))).toBe(false);
    expect(evidence.isComplete({ ...NO_PLACES, stored: 1, held: 1 })).toBe(true);
  });

  test.each([
    [
      'answers with another listing',
      (evidence: FolderEvidence) => {
        evidence.readPage(page({ lo: 1, hi: 2 }, [2], { contradicted: [2] })).ticket.seal();
      },
    ],
    ['answers again', (evidence: FolderEvidence) => evidence.reappeared.set(2, listing(2))],
    [
      'may be a move',
      (evidence: FolderEvidence) => {
        const { ticket } = evidence.readPage(page({ lo: 1, hi: 2 }, [2]));
        evidence.defer({ listing: listing(2), fingerprint: 'f', ticket });
      },
    ],
  ])('is not complete while a uid %s', (_name, happens) => {
    const evidence = evidenceOf();
    readHead(evidence, [2, 1]);
    happens(evidence);
    expect(evidence.isComplete(stored(2))).toBe(false);
    evidence.abandon();
    expect(evidence.isComplete(stored(2))).toBe(true);
  });

  test('adds up with what waits for a decision, and without what is missing or held', () => {
    const evidence = evidenceOf();
    const sums = { ...NO_PLACES, stored: 5, held: 2 };
    expect(evidence.addsUp(sums, 5)).toBe(true);
    evidence.reappeared.set(8, listing(8));
    expect(evidence.addsUp(sums, 6)).toBe(true);
    for (const uid of [1, 2]) evidence.missing.add(uid);
    expect(evidence.addsUp(sums, 4)).toBe(true);
    expect(evidence.accountedFor(sums)).toBe(8);
  });

  test('is expected to answer for what waits for a decision as well', () => {
    const evidence = evidenceOf();
    const known = [1, 5];
    expect(evidence.expectedUids(known)).toBe(known);
    evidence.reappeared.set(5, listing(5));
    evidence.reappeared.set(3, listing(3));
    expect(evidence.expectedUids(known)).toEqual([1, 3, 5]);
  });
});

test('an abandoned folder settles the pages of what it deferred', () => {
  const evidence = evidenceOf();
  evidence.sawUids(listings([2]));
  const { ticket } = evidence.readPage(page({ lo: 1, hi: 2 }, [2], { missing: [1] }));
  evidence.defer({ listing: listing(2), fingerprint: 'f', ticket });
  ticket.seal();
  evidence.reappeared.set(1, listing(1));
  evidence.abandon();
  expect(evidence.everyUidCovered).toBe(true);
  expect([evidence.missing.size, evidence.deferred.size, evidence.reappeared.size]).toEqual([
    0, 0, 0,
  ]);
});

const policy = { maxEndedShare: 0.3, minMessages: 50 };
const folder = (name: string, open: number, ending: number, more = {}) => ({
  folder: name,
  specialUse: null,
  open,
  ending,
  empty: false,
  ...more,
});

describe('the brake', () => {
  it('lets a few endings through, and holds more than its share', () => {
    expect(guardDeletions([folder('a', 100, 30)], policy)).toMatchObject([{ hold: false }]);
    expect(guardDeletions([folder('a', 100, 31)], policy)).toMatchObject([
      { hold: true, reason: 'folder-share' },
    ]);
    expect(guardDeletions([folder('a', 49, 40)], policy)).toMatchObject([{ hold: false }]);
  });

  it('holds a folder that is suddenly empty whatever its size', () => {
    expect(guardDeletions([folder('a', 3, 3, { empty: true })], policy)).toMatchObject([
      { hold: true, reason: 'folder-empty' },
    ]);
  });

  it('lets Trash and Junk be emptied', () => {
    const trash = folder('t', 900, 900, { specialUse: '\\Trash', empty: true });
    expect(guardDeletions([trash], policy)).toMatchObject([{ hold: false, reason: 'exempt' }]);
  });

  it('sees a mailbox that empties folder by folder', () => {
    const folders = Array.from({ length: 10 }, (_, i) => folder(`f${i}`, 40, 20));
    expect(guardDeletions(folders, policy).every(({ hold }) => hold)).toBe(true);
  });
});

describe('judging a generation', () => {
  const answers = (other: number, same: number, missing = 0) => [
    ...Array<'other'>(other).fill('other'),
    ...Array<'same'>(same).fill('same'),
    ...Array<'missing'>(missing).fill('missing'),
  ];
  it.each([
    [0, 20, 0, 'same'],
    [0, 0, 20, 'same'],
    [1, 19, 0, 'replaced'],
    [1, 0, 0, 'replaced'],
    [2, 18, 0, 'doubtful'],
    [15, 5, 0, 'doubtful'],
    [16, 4, 0, 'new'],
    [20, 0, 0, 'new'],
    [3, 0, 0, 'new'],
    [15, 0, 5, 'doubtful'],
  ])('%i other, %i same, %i missing: %s', (other, same, missing, verdict) => {
    expect(judgeUidEpoch(answers(other, same, missing))).toBe(verdict);
  });

  it('spreads its sample over all', () => {
    expect(samplePositions(3)).toEqual([0, 1, 2]);
    const positions = samplePositions(1000);
    expect(positions.length).toBe(20);
    expect([positions[0], positions[19]]).toEqual([0, 999]);
    expect(new Set(positions).size).toBe(20);
  });
});

describe('pairing moves', () => {
  const place = (name: string, uid: number, generation = 1, mailbox = 'AC1'): Place => ({
    host: 'h',
    mailbox,
    folder: name,
    generation,
    uid,
  });
  const listing: Listing = {
    uid: 1,
    date: '2026-01-01T00:00:00Z',
    flags: [],
    size: 1,
    subject: null,
    from: null,
    to: [],
    cc: [],
    bcc: [],
    messageId: 'a@b',
    inReplyTo: null,
    attachments: [],
    extra: {},
  };
  const gone = (at: Place, fingerprint = 'f') => ({ place: at, fingerprint });
  const fresh = (at: Place, more = {}) => ({
    place: at,
    fingerprint: 'f',
    listing,
    draft: false,
    ...more,
  });

  it('relinks one that is gone with one that is new', () => {
    const { relinks, fetch } = pairMoves([gone(place('A', 1))], [fresh(place('B', 9))]);
    expect(relinks).toMatchObject([{ from: { folder: 'A' }, to: { folder: 'B', uid: 9 } }]);
    expect(fetch).toEqual([]);
  });

  it('relinks across generations of one folder', () => {
    expect(pairMoves([gone(place('A', 1))], [fresh(place('A', 1, 2))]).relinks.length).toBe(1);
  });

  it('relinks within a folder that kept its generation', () => {
    expect(pairMoves([gone(place('A', 1))], [fresh(place('A', 9))]).relinks.length).toBe(1);
  });

  it.each([
    ['two are gone', [gone(place('A', 1)), gone(place('C', 1))], [fresh(place('B', 9))]],
    ['two are new', [gone(place('A', 1))], [fresh(place('B', 9)), fresh(place('C', 9))]],
    [
      'it has no Message-ID',
      [gone(place('A', 1))],
      [fresh(place('B', 9), { listing: { ...listing, messageId: null } })],
    ],
    ['it is a draft', [gone(place('A', 1))], [fresh(place('B', 9), { draft: true })]],
    ['it is the same place', [gone(place('A', 1))], [fresh(place('A', 1))]],
    ['it is another mailbox', [gone(place('A', 1, 1, 'AC2'))], [fresh(place('B', 9))]],
    ['nothing is gone', [], [fresh(place('B', 9))]],
  ])('fetches when %s', (_why, ended, appeared) => {
    const { relinks, fetch } = pairMoves(ended, appeared);
    expect(relinks).toEqual([]);
    expect(fetch).toEqual(appeared);
  });
});
