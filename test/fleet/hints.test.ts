import { beforeEach, expect, test } from 'vitest';
import { HintListening } from '../../src/fleet/hint-listening.ts';
import {
  type FleetHint,
  HeardSums,
  mailboxMark,
  notesFor,
  readNote,
  SentSums,
} from '../../src/fleet/hint-notes.ts';
import { type HintOutcome, HintSending } from '../../src/fleet/hint-sending.ts';
import { registryError } from '../../src/registry/errors.ts';
import type { Holder, Note } from '../../src/registry/hints.ts';
import type { ListeningPorts } from '../../src/registry/listening.ts';
import { FakeClock } from '../limiter/fake-clock.ts';

const FLEET = '0f0e0d0c-0b0a-4908-8706-050403020100';
const SESSION = '11111111-1111-4111-8111-111111111111';
const AWAY = registryError('registry-unreachable', { registry: 'r', reason: 'ECONNREFUSED' });

let clock: FakeClock;
let counted: Partial<Record<HintOutcome, number>>;
const count = (outcome: HintOutcome, hints: number): void => {
  if (hints > 0) counted[outcome] = (counted[outcome] ?? 0) + hints;
};
beforeEach(() => {
  clock = new FakeClock();
  counted = {};
});

const about = (archive: number, more: Partial<FleetHint> = {}): FleetHint => ({
  archive,
  ...{ mailbox: mailboxMark(FLEET, 'anna@example.org'), uid: 7 },
  ...more,
});

test('a note has numbers and hashes, is shorter than NOTIFY allows, and is read as it was written', () => {
  const hints = Array.from({ length: 1_000 }, (_, archive) =>
    about(archive + 1, archive % 2 === 0 ? {} : { mailbox: null, uid: null }),
  );
  const holders = hints.slice(1).map(({ archive }) => ({ archive, session: SESSION }));
  const notes = notesFor(hints, holders, 'sender', new SentSums());
  const bytes = notes.map(({ payload }) => Buffer.byteLength(payload));
  expect(Math.max(...bytes)).toBeLessThan(8_000);
  // Not more of them than needed.
  expect(notes.length).toBe(Math.ceil(bytes.reduce((sum, one) => sum + one, 0) / 7_900));
  expect(notes.map(({ payload }) => payload).join()).not.toMatch(/@|example/);
  expect(notes.flatMap(({ payload }) => readNote(payload)?.hints)).toEqual(hints.slice(1));
  expect(readNote(notes.at(-1)?.payload ?? '')?.sum).toBe(999);
  for (const other of ['', 'x', 'a 1 ', 'a 1 1/x/', "a 1 1//2'", `a 1 ${'1'.repeat(20)}//`]) {
    expect(readNote(other)).toBeUndefined();
  }
});

test('gaps in what a sender sent are what was lost', () => {
  const heard = new HeardSums();
  const note = (sender: string, sum: number, hints: number) => ({
    ...{ sender, sum, hints: Array.from({ length: hints }, () => about(1)) },
  });
  const sums = [
    note('a', 3, 3),
    note('a', 4, 1),
    note('a', 9, 2),
    note('b', 5, 1),
    note('a', 10, 1),
  ];
  expect(sums.map((one) => heard.lostBefore(one))).toEqual([0, 0, 3, 4, 0]);
});

test('hints are gathered for 50 ms, sent by one look, and counted by what became of them', async () => {
  const asked: (readonly number[])[] = [];
  let notes: readonly Note[] = [];
  let isAway = false;
  const sending = new HintSending({
    sender: 'sender',
    async send(archives, notesOf) {
      asked.push(archives);
      if (isAway) throw AWAY;
      const holders: Holder[] = archives.includes(2) ? [{ archive: 2, session: SESSION }] : [];
      notes = notesOf(holders);
      return holders;
    },
    own: ({ archive }) => archive === 1,
    ...{ clock, count },
    onFailure: (error) => expect(error).toBe(AWAY),
  });
  sending.add(about(1));
  for (let uid = 1; uid <= 40; uid += 1) sending.add(about(2, { uid }));
  sending.add(about(2, { uid: 40 }));
  await clock.advance(49);
  expect(asked).toEqual([]);
  sending.add(about(3));
  await clock.advance(1);
  expect(asked).toEqual([[2, 3]]);
  expect(notes.map(({ session }) => session)).toEqual([SESSION]);
  expect(readNote(notes[0]?.payload ?? '')?.hints.length).toBe(40);
  expect(counted).toEqual({ own: 1, sent: 40, unheld: 1 });
  isAway = true;
  sending.add(about(2));
  await sending.close();
  expect(counted.failed).toBe(1);
  sending.add(about(2));
  expect([counted.crowded, clock.timers]).toEqual([1, 0]);
});

test('a lost connection is made again, more slowly each time, and what was missed is counted', async () => {
  const heard: FleetHint[] = [];
  const said: string[] = [];
  const opened: ListeningPorts[] = [];
  let isAway = false;
  let listens = true;
  let tries = 0;
  const over = new AbortController();
  const listening = new HintListening({
    async open(ports) {
      tries += 1;
      if (isAway) throw AWAY;
      opened.push(ports);
      return { check: async () => listens, close: async () => {} };
    },
    onHint: (hint) => heard.push(hint),
    ...{ clock, count },
    log: { say: (_, text) => said.push(text), fail: (_, text) => said.push(text) },
  });
  const running = listening.run(over.signal);
  await clock.advance(0);
  opened[0]?.onNote('sender 1 1//');
  opened[0]?.onNote('something else');
  isAway = true;
  opened[0]?.onLost();
  await clock.advance(0);
  await clock.advance(1_000 + 2_000 + 4_000);
  expect([tries, said.length]).toEqual([4, 1]);
  await clock.advance(600_000);
  expect(tries).toBeLessThan(20);
  isAway = false;
  await clock.advance(60_000);
  opened[1]?.onNote('sender 5 2//,3//');
  expect(heard.map(({ archive }) => archive)).toEqual([1, 2, 3]);
  expect(counted).toEqual({ received: 3, malformed: 1, lost: 2 });
  expect(said.at(-1)).toBe('hints come again');
  // A pooler has given the connection to others.
  listens = false;
  await clock.advance(30_000);
  expect(said.some((text) => text.includes('directRegistry'))).toBe(true);
  listens = true;
  await clock.advance(60_000);
  expect(opened.length).toBe(3);
  over.abort();
  await running;
});
