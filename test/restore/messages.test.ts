import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  fitDate,
  fitFlags,
  fitSizes,
  matchExisting,
  uidsToRead,
} from '../../src/transfer/restore-comparison.ts';
import { lastPlaces } from '../../src/transfer/restore-selection.ts';

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
  test('bytes are read only where Message-ID and size do not decide', () => {
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
    expect(uidsToRead(wanted, found)).toEqual([3, 4]);
    const ids = new Map([[3, 'c']]);
    expect([...matchExisting(wanted, found, (uid) => ids.get(uid))]).toEqual([
      [0, 1],
      [2, 3],
    ]);
  });

  test('as many are matched as both sides have, each once', () => {
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
    fc.assert(
      fc.property(contents, contents, (wanted, there) => {
        const found = there.map(({ messageId, size }, uid) => ({ uid, messageId, size }));
        const readable = new Set(uidsToRead(wanted, found));
        const matched = matchExisting(wanted, found, (uid) => {
          expect(readable).toContain(uid);
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
          if (!isNamed) for (const [, uid] of got) expect(there[uid]?.id).toBe(id);
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
