import { describe, expect, it } from 'vitest';
import type { Listing, Place } from '../../../src/core/types.ts';
import {
  guardDeletions,
  judgeUidEpoch,
  pairMoves,
  samplePositions,
} from '../../../src/sync/plan/folder-evidence.ts';

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
