import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MailkeepError } from '../../../src/core/errors.ts';
import { parseValue } from '../../../src/core/state.ts';
import type { Listing } from '../../../src/core/types.ts';
import type { Memory, Origin, OriginPage, UidOrder } from '../../../src/sync/ports.ts';
import { pageIncluding, walkRange } from '../../../src/sync/walk.ts';

const at = { host: 'h', mailbox: 'AC1', folder: 'INBOX' };

function listing(uid: number): Listing {
  return {
    uid,
    date: '2026-01-01T00:00:00Z',
    flags: [],
    size: 1,
    subject: null,
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

/** A folder that changes after each request, as its owner and its senders please. */
class ChangingFolder {
  uids: number[];
  next: number;
  requests = 0;
  constructor(
    count: number,
    private readonly change: (folder: ChangingFolder) => void,
    private readonly searching: 'works' | 'refused' | 'ignores the uids',
  ) {
    this.uids = Array.from({ length: count }, (_, i) => i + 1);
    this.next = count + 1;
  }

  arrive(): void {
    this.uids.push(this.next);
    this.next += 1;
  }

  vanish(index: number): number | undefined {
    return this.uids.splice(index % Math.max(1, this.uids.length), 1)[0];
  }

  answer(uids: readonly number[], page: number, perPage: number, order: UidOrder): OriginPage {
    const sorted = [...uids].sort((a, b) => (order === 'ascending' ? a - b : b - a));
    const items = sorted.slice((page - 1) * perPage, page * perPage).map(listing);
    const total = uids.length;
    this.requests += 1;
    this.change(this);
    return { items, total };
  }

  origin(): Origin {
    return {
      host: 'h',
      requestsPerMinute: () => 60,
      mailboxes: async () => [],
      folders: async () => ({ folders: [], complete: true }),
      source: async () => ({ kind: 'buffer', bytes: Buffer.alloc(0) }),
      quota: async () => [],
      list: async (_at, { page, perPage, order }) => this.answer(this.uids, page, perPage, order),
      search: async (_at, { uids, perPage, order }) => {
        if (this.searching === 'refused') {
          throw new MailkeepError('origin', 'origin.status', { status: 422 });
        }
        if (this.searching === 'ignores the uids') return this.answer(this.uids, 1, perPage, order);
        const [lo = '1', hi = '*'] = uids.split(':');
        const top = this.uids[this.uids.length - 1] ?? 0;
        const upper = hi === '*' ? Math.max(top, Number(lo)) : Number(hi);
        const lower = hi === '*' ? Math.min(top, Number(lo)) : Number(lo);
        const found = this.uids.filter((uid) => uid >= lower && uid <= upper);
        return this.answer(found, 1, perPage, order);
      },
    };
  }
}

function emptyMemory(): Memory {
  const kept = new Map<string, unknown>();
  return {
    get: (scope, key) => parseValue(scope, kept.get(scope + key)),
    set: (scope, key, value) => void kept.set(scope + key, value),
  };
}

async function walkAll(
  folder: ChangingFolder,
  range: { lo: number; hi: number },
  order: UidOrder,
): Promise<{ uids: Set<number>; intervals: { lo: number; hi: number }[]; ended: boolean }> {
  const deps = {
    origin: folder.origin(),
    memory: emptyMemory(),
    signal: new AbortController().signal,
  };
  const uids = new Set<number>();
  const intervals: { lo: number; hi: number }[] = [];
  let ended = false;
  for await (const page of walkRange(deps, at, range, order)) {
    for (const { uid } of page.items) uids.add(uid);
    intervals.push(page.interval);
    ended = page.last;
  }
  return { uids, intervals, ended };
}

/** Histories of a folder, each with its first number of messages, and the arrivals and deletions after each request. */
const MAIL_ARRIVES_NEAR_THE_END: [number, [number, number[]][]][] = [
  // A deletion makes the walk step back to the first page, where two messages have arrived.
  [
    101,
    [
      [0, [1]],
      [2, []],
      [0, []],
    ],
  ],
  // A message arrives, is counted by the last page, and disappears again.
  [
    101,
    [
      [1, []],
      [0, [101]],
    ],
  ],
];

describe('walking a range of uids', () => {
  const orders: UidOrder[] = ['ascending', 'descending'];
  const searches = ['works', 'refused', 'ignores the uids'] as const;

  for (const order of orders) {
    for (const searching of searches) {
      it(`misses nothing that stays, ${order}, where search ${searching}, while mail comes and goes`, async () => {
        await fc.assert(
          fc.asyncProperty(
            fc.integer({ min: 0, max: 950 }),
            fc.array(
              fc.tuple(fc.integer({ min: 0, max: 5 }), fc.array(fc.nat(1000), { maxLength: 30 })),
              {
                minLength: 1,
                maxLength: 12,
              },
            ),
            async (count, changes) => {
              const gone = new Set<number>();
              let step = 0;
              const folder = new ChangingFolder(
                count,
                (changing) => {
                  const [arrivals, deletions] = changes[step % changes.length] ?? [0, []];
                  // Later changes come to rest: a walk by offset may have to step back after each of them.
                  if (step < 40) {
                    for (let i = 0; i < arrivals; i += 1) changing.arrive();
                    for (const index of deletions) {
                      const uid = changing.vanish(index);
                      if (uid !== undefined) gone.add(uid);
                    }
                  }
                  step += 1;
                },
                searching,
              );
              const range = { lo: 1, hi: Number.POSITIVE_INFINITY };
              const walked = await walkAll(folder, range, order);
              for (let uid = 1; uid <= count; uid += 1) {
                if (!gone.has(uid)) expect(walked.uids.has(uid)).toBe(true);
              }
              expect(walked.ended).toBe(true);
              // The intervals join into the whole range, without overlap.
              const sorted = [...walked.intervals].sort((a, b) => a.lo - b.lo);
              expect(sorted[0]?.lo).toBe(1);
              expect(sorted[sorted.length - 1]?.hi).toBe(Number.POSITIVE_INFINITY);
              for (const [i, interval] of sorted.entries()) {
                const next = sorted[i + 1];
                if (next !== undefined) expect(next.lo).toBe(interval.hi + 1);
              }
            },
          ),
          { numRuns: 60, examples: MAIL_ARRIVES_NEAR_THE_END },
        );
      });
    }
  }

  /** Walks a folder without a search, the newest message first, whose pages are answered by `page`. */
  function walkPages(page: (number: number, perPage: number, request: number) => OriginPage) {
    const folder = new ChangingFolder(0, () => {}, 'refused');
    let requests = 0;
    const origin: Origin = {
      ...folder.origin(),
      list: async (_at, { page: number, perPage }) => {
        requests += 1;
        return page(number, perPage, requests);
      },
    };
    folder.origin = () => origin;
    return walkAll(folder, { lo: 1, hi: Number.POSITIVE_INFINITY }, 'descending');
  }
  const uidsDown = (from: number) => Array.from({ length: from }, (_, i) => listing(from - i));

  it('does not take a first page that was empty once for an empty folder', async () => {
    const all = uidsDown(200);
    // Pages of 50, whatever is requested and without saying so; the fourth answer is empty.
    const walked = walkPages((page, _, request) => ({
      items: request === 4 ? [] : all.slice((page - 1) * 50, page * 50),
      total: 200,
    }));
    await expect(walked).rejects.toMatchObject({ code: 'origin.paging' });
  });

  it('counts more arrivals than one page shows', async () => {
    const arriving = (counted: number) =>
      walkPages((page, perPage, request) => {
        const all = uidsDown(request === 1 ? 101 : 351);
        const total = request === 1 ? 101 : counted;
        return { items: all.slice((page - 1) * perPage, page * perPage), total };
      });
    const { uids, ended } = await arriving(351);
    expect(ended).toBe(true);
    for (const { uid } of uidsDown(101)) expect(uids.has(uid)).toBe(true);
  });

  it('ends a count of arrivals that never ends', async () => {
    let newest = 1_000;
    const walked = walkPages((page, perPage, request) => {
      if (request <= 2) {
        const all = uidsDown(100 + request);
        return { items: all.slice((page - 1) * perPage, page * perPage), total: all.length };
      }
      newest += 1_000;
      const items = Array.from({ length: perPage }, (_, i) => listing(newest - i));
      return { items, total: newest };
    });
    await expect(walked).rejects.toMatchObject({ code: 'origin.paging' });
  });

  it('stays within a closed range', async () => {
    for (const searching of searches) {
      for (const order of orders) {
        const folder = new ChangingFolder(700, () => {}, searching);
        const { uids } = await walkAll(folder, { lo: 150, hi: 420 }, order);
        expect([...uids].sort((a, b) => a - b)).toEqual(
          Array.from({ length: 271 }, (_, i) => 150 + i),
        );
      }
    }
  });

  it('costs one request per 100 messages by keyset', async () => {
    const folder = new ChangingFolder(1000, () => {}, 'works');
    await walkAll(folder, { lo: 1, hi: Number.POSITIVE_INFINITY }, 'descending');
    expect(folder.requests).toBe(10);
  });

  it('chooses offset pages that overlap what was seen and go beyond it', () => {
    for (let seen = 1; seen < 3000; seen += 1) {
      const { page, perPage } = pageIncluding(seen);
      expect(perPage).toBeGreaterThan(0);
      expect(perPage).toBeLessThanOrEqual(100);
      expect((page - 1) * perPage).toBeLessThan(seen);
      expect(page * perPage).toBeGreaterThan(seen);
    }
  });
});
