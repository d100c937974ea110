import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { selects } from '../../../src/core/names.ts';
import {
  addSums,
  countAccountedFor,
  countMissing,
  countOpenPlaces,
  differsOnlyByHeld,
  expectedAtOrigin,
  type FolderTotals,
  type ListedFolder,
  type Listing,
  NO_PLACES,
} from '../../../src/core/types.ts';
import {
  addInterval,
  bisect,
  covers,
  evaluatePage,
  findGaps,
  forecast,
  observe,
  type UidInterval,
  type UidIntervals,
} from '../../../src/sync/plan/plan-folder.ts';
import { inSyncOrder } from '../../../src/sync/sync-memory.ts';

const range = { lo: 1, hi: Number.POSITIVE_INFINITY };

describe('weighing a page', () => {
  it('lets an answer speak for its whole question only when the total says so', () => {
    const question = { range, order: 'descending', perPage: 3 } as const;
    expect(evaluatePage(question, { uids: [9, 4], total: 2 })).toEqual({
      whole: true,
      interval: range,
      doubtful: false,
    });
    expect(evaluatePage(question, { uids: [9, 7, 4], total: 5 })).toEqual({
      whole: false,
      interval: { lo: 4, hi: Number.POSITIVE_INFINITY },
      doubtful: false,
    });
  });

  it('doubts a short page, and takes nothing from an empty one that claims a total', () => {
    const question = { range: { lo: 5, hi: 99 }, order: 'ascending', perPage: 3 } as const;
    expect(evaluatePage(question, { uids: [6, 8], total: 7 })).toEqual({
      whole: false,
      interval: { lo: 5, hi: 8 },
      doubtful: true,
    });
    expect(evaluatePage(question, { uids: [], total: 7 })).toEqual({
      whole: false,
      interval: null,
      doubtful: true,
    });
  });
});

function listing(uid: number, flags: readonly string[] = []): Listing {
  return {
    uid,
    date: '2026-01-01T00:00:00Z',
    flags,
    size: 10,
    subject: `s${uid}`,
    from: null,
    to: [],
    cc: [],
    bcc: [],
    messageId: null,
    inReplyTo: null,
    attachments: [],
    extra: {},
  };
}

describe('observing an answer', () => {
  const fingerprint = (item: Listing): string => item.subject ?? '';

  it('distinguishes what appeared, changed, is missing and contradicts', () => {
    const open = new Map([
      [1, { flags: ['\\Seen'], fingerprint: 's1' }],
      [2, { flags: [], fingerprint: 's2' }],
      [3, { flags: [], fingerprint: 'another' }],
      [4, { flags: [], fingerprint: 's4' }],
    ]);
    const seen = observe(
      [listing(1, ['\\Seen']), listing(2, ['\\Flagged']), listing(3), listing(5), listing(6)],
      { open, settled: (uid) => uid === 6 },
      fingerprint,
    );
    expect(seen.appeared.map(({ uid }) => uid)).toEqual([5]);
    expect(seen.flagsChanged).toEqual([{ uid: 2, flags: ['\\Flagged'] }]);
    expect(seen.missing).toEqual([4]);
    expect(seen.contradicted.map(({ uid }) => uid)).toEqual([3]);
  });

  it('takes flags in another order, or repeated, as the same flags', () => {
    const open = new Map([[1, { flags: ['$a', '\\Seen'], fingerprint: 's1' }]]);
    const known = { open, settled: () => false };
    expect(
      observe([listing(1, ['\\Seen', '$a', '\\Seen'])], known, fingerprint).flagsChanged,
    ).toEqual([]);
  });

  it.each([
    [['$A', '\\seen'], true],
    [['$b', '\\Seen'], false],
    [['$A', '$a'], false],
    [['$a'], false],
  ])('compares flags without case: %j', (flags, same) => {
    const open = new Map([[1, { flags: ['$a', '\\Seen'], fingerprint: 's1' }]]);
    const seen = observe([listing(1, flags)], { open, settled: () => false }, fingerprint);
    expect(seen.flagsChanged.length).toBe(same ? 0 : 1);
  });
});

describe('selection', () => {
  it.each([
    ['*', 'any', true],
    ['INBOX', 'INBOX', true],
    ['INBOX', 'INBOX.Sent', false],
    ['INBOX.*', 'INBOX.a.b', true],
    ['*@example.org', 'me@example.org', true],
    ['*@example.org', 'me@example.org.evil', false],
    ['a*b*c', 'a1b2b3c', true],
    ['a*b*c', 'acb', false],
    ['ab*ba', 'aba', false],
  ])('%s against %s is %s', (pattern, name, expected) => {
    expect(selects({ include: [pattern], exclude: [] }, name)).toBe(expected);
  });

  it('leaves out what an exclude names', () => {
    expect(selects({ include: ['*'], exclude: ['*.Trash'] }, 'INBOX.Trash')).toBe(false);
  });
});

describe('the order of folders', () => {
  it('begins with INBOX and Sent, and ends with Trash', () => {
    const folder = (path: string, specialUse: string | null = null): ListedFolder => ({
      path,
      name: path,
      delimiter: '.',
      specialUse,
      messageCount: 0,
      unreadCount: 0,
    });
    const order = inSyncOrder([
      folder('INBOX.Trash', '\\Trash'),
      folder('INBOX.b'),
      folder('INBOX.a'),
      folder('INBOX.Sent', '\\Sent'),
      folder('INBOX'),
    ]).map(({ path }) => path);
    expect(order).toEqual(['INBOX', 'INBOX.Sent', 'INBOX.a', 'INBOX.b', 'INBOX.Trash']);
  });
});

describe('the forecast', () => {
  it('counts one request per message, per page of 100 and per listing', () => {
    const estimate = forecast({
      mailboxes: 1,
      folders: [
        { messages: 250, known: 0 },
        { messages: 40, known: 40 },
      ],
      sizes: { count: 100, bytes: 1_000_000 },
      requestsPerMinute: 60,
    });
    // The newest hundred say nothing about the size of the rest.
    expect(estimate).toMatchObject({ messages: 250, bytes: 0, requests: 250 + 3 + 1 + 2 });
    expect(estimate.hours).toBeCloseTo(256 / 3600, 5);
  });

  it('names a size once reports or listings show nearly all of it, and the rate in force', () => {
    const folders = [
      { messages: 100, known: 0 },
      { messages: 900, known: 0, meanBytes: 1_000 },
    ];
    const ahead = (count: number) =>
      forecast({
        mailboxes: 2,
        folders,
        sizes: { count, bytes: count * 5_000 },
        requestsPerMinute: 27.5,
      });
    expect(ahead(100)).toMatchObject({ bytes: 1_400_000, requestsPerMinute: 27.5 });
    expect(ahead(95).bytes).toBe(1_400_000);
    expect(ahead(50).bytes).toBe(0);
    expect(ahead(0).bytes).toBe(0);
    expect(ahead(0).hours).toBeCloseTo((1_000 + 10 + 3) / 27.5 / 60);
  });
});

const PAGE = 100;

/** Runs a bisection against an origin that holds `there`; counts requests, and collects the ranges it reads. */
function run(known: readonly number[], there: readonly number[], range: UidInterval) {
  const within = (uids: readonly number[], r: UidInterval) =>
    uids.filter((uid) => uid >= r.lo && uid <= r.hi);
  const walked: UidInterval[] = [];
  let requests = 0;
  const steps = bisect(known, range, within(there, range).length, PAGE);
  let step = steps.next();
  while (step.done !== true) {
    const { ask, range: asked } = step.value;
    const found = within(there, asked);
    if (ask === 'walk') {
      walked.push(asked);
      requests += Math.max(1, Math.ceil(found.length / PAGE));
      step = steps.next(0);
    } else {
      requests += 1;
      step = steps.next(found.length);
    }
  }
  return { walked, requests };
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1);
const everything = { lo: 1, hi: Number.POSITIVE_INFINITY };

describe('bisecting for a difference', () => {
  it('asks nothing when the counts agree', () => {
    expect(run(upTo(5000), upTo(5000), everything)).toEqual({ walked: [], requests: 0 });
  });

  it('finds one deletion among 50,000 within 2 log2(N/100) requests', () => {
    for (const deleted of [1, 2, 777, 25_000, 25_001, 49_999, 50_000]) {
      const there = upTo(50_000).filter((uid) => uid !== deleted);
      const { walked, requests } = run(upTo(50_000), there, everything);
      expect(requests).toBeLessThanOrEqual(2 * Math.log2(500));
      expect(walked.some(({ lo, hi }) => deleted >= lo && deleted <= hi)).toBe(true);
    }
  });

  it('reads every range in which only deletions happened, and never costs much more than a walk', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 3000 }),
        fc.array(fc.integer({ min: 1, max: 3000 }), { maxLength: 400 }),
        (count, deletions) => {
          const gone = new Set(deletions);
          const known = upTo(count);
          const there = known.filter((uid) => !gone.has(uid));
          const { walked, requests } = run(known, there, everything);
          for (const uid of known) {
            if (gone.has(uid)) {
              expect(walked.some(({ lo, hi }) => uid >= lo && uid <= hi)).toBe(true);
            }
          }
          expect(requests).toBeLessThanOrEqual(2 * Math.ceil(count / PAGE) + 2);
        },
      ),
    );
  });

  it('finds messages that the archive does not know', () => {
    const known = upTo(2000).filter((uid) => uid !== 1234);
    const { walked } = run(known, upTo(2000), everything);
    expect(walked.some(({ lo, hi }) => 1234 >= lo && 1234 <= hi)).toBe(true);
  });
});

const TOP = 40;
const interval = fc
  .tuple(fc.integer({ min: 1, max: TOP }), fc.integer({ min: 1, max: TOP }))
  .map(([a, b]) => ({ lo: Math.min(a, b), hi: Math.max(a, b) }));

function uidsOf(set: UidIntervals): Set<number> {
  const uids = new Set<number>();
  for (const { lo, hi } of set) for (let uid = lo; uid <= hi; uid += 1) uids.add(uid);
  return uids;
}

describe('uid intervals', () => {
  it('hold exactly the uids that were added, disjoint, ascending and never touching', () => {
    fc.assert(
      fc.property(fc.array(interval, { maxLength: 12 }), (added) => {
        const set = added.reduce<UidIntervals>(addInterval, []);
        const expected = uidsOf(added);
        expect(uidsOf(set)).toEqual(expected);
        for (const [i, { lo, hi }] of set.entries()) {
          expect(lo).toBeLessThanOrEqual(hi);
          const next = set[i + 1];
          if (next !== undefined) expect(next.lo).toBeGreaterThan(hi + 1);
        }
      }),
    );
  });

  it('have gaps that are exactly what is missing within a range', () => {
    fc.assert(
      fc.property(fc.array(interval, { maxLength: 12 }), interval, (added, within) => {
        const set = added.reduce<UidIntervals>(addInterval, []);
        const missing = new Set([...uidsOf([within])].filter((uid) => !uidsOf(set).has(uid)));
        expect(uidsOf(findGaps(set, within))).toEqual(missing);
        expect(covers(set, within)).toBe(missing.size === 0);
      }),
    );
  });

  it('take an empty interval as nothing', () => {
    expect(addInterval([{ lo: 3, hi: 4 }], { lo: 9, hi: 8 })).toEqual([{ lo: 3, hi: 4 }]);
    expect(findGaps([], { lo: 2, hi: 1 })).toEqual([]);
  });
});

// Powers of two: every sum names the parts it was made of.
const sums: FolderTotals = { stored: 1, assumed: 2, quarantined: 4, held: 8, forgotten: 16 };

const count = fc.nat({ max: 1000 });
const anySums = fc.record({
  stored: count,
  assumed: count,
  quarantined: count,
  held: count,
  forgotten: count,
});

describe('the sums of a folder', () => {
  test('account for all five kinds of places', () => {
    expect(countAccountedFor(sums)).toBe(31);
    expect(countAccountedFor(NO_PLACES)).toBe(0);
  });

  test('expect everything at the origin but what the brake holds', () => {
    expect(expectedAtOrigin(sums)).toBe(31 - 8);
  });

  test('count as open what has a message: not quarantined, not forgotten', () => {
    expect(countOpenPlaces(sums)).toBe(1 + 2 + 8);
  });

  test('lack what the origin counts beyond them, and never less than nothing', () => {
    expect(countMissing(40, sums)).toBe(9);
    expect(countMissing(31, sums)).toBe(0);
    expect(countMissing(30, sums)).toBe(0);
  });

  test.each([
    ['the origin lacks exactly what is held', 23, sums, true],
    ['the origin has what is held', 31, sums, false],
    ['something else differs as well', 22, sums, false],
    ['nothing is held', 23, { ...sums, held: 0 }, false],
  ])('differ by held places only: %s', (_name, total, of, expected) => {
    expect(differsOnlyByHeld(total, of)).toBe(expected);
  });

  test('add up kind by kind', () => {
    expect(addSums([])).toEqual(NO_PLACES);
    expect(addSums([sums, { ...NO_PLACES, held: 3 }])).toEqual({ ...sums, held: 11 });
  });

  test('account for a mailbox as its folders do, one by one', () => {
    fc.assert(
      fc.property(fc.array(anySums), (folders) => {
        const total = addSums(folders);
        for (const of of [countAccountedFor, expectedAtOrigin, countOpenPlaces]) {
          expect(of(total)).toBe(folders.reduce((sum, folder) => sum + of(folder), 0));
        }
      }),
    );
  });
});
