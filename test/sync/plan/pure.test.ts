import { describe, expect, it } from 'vitest';
import { selects } from '../../../src/core/names.ts';
import type { ListedFolder, Listing } from '../../../src/core/types.ts';
import { evaluatePage, forecast, observe } from '../../../src/sync/plan/plan-folder.ts';
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
