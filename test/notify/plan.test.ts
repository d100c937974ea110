import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ErrorFamily } from '../../src/core/errors.ts';
import {
  dueNotice,
  NO_REPORTS,
  type Notice,
  type Observation,
  observationsFromRun,
  observe,
  type ReportedState,
  readReported,
  recordAttempt,
} from '../../src/daemon/notifier.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const START = Date.UTC(2026, 10, 20);

function found(name: string, family: ErrorFamily | null): Observation {
  return {
    subject: { kind: 'account', name },
    failure: family === null ? null : { family, code: `${family}.code`, message: 'It fails.' },
  };
}

function isUrgent(family: ErrorFamily): boolean {
  return family === 'auth' || family === 'disk';
}

/** A channel that receives what becomes due, unless it is broken; every minute is checked. */
class Channel {
  reported: ReportedState = NO_REPORTS;
  time = START;
  broken = false;
  readonly sent: { readonly at: number; readonly notice: Notice }[] = [];

  see(...observations: Observation[]): void {
    this.reported = observe(this.reported, observations, this.time);
    this.look();
  }

  look(): void {
    const notice = dueNotice(this.reported, this.time);
    if (notice === null) return;
    // As over a restart.
    this.reported = readReported(
      JSON.parse(JSON.stringify(recordAttempt(this.reported, notice, !this.broken, this.time))),
    );
    if (!this.broken) this.sent.push({ at: this.time - START, notice });
  }

  wait(ms: number): void {
    const until = this.time + ms;
    while (this.time < until) {
      this.time = Math.min(until, this.time + MINUTE);
      this.look();
    }
  }

  /** What was reported last of a name. */
  believes(name: string): boolean {
    const has = (troubles: Notice['failing']) =>
      troubles.some(({ subject }) => subject.name === name);
    const last = this.sent.findLast(({ notice }) => has(notice.failing) || has(notice.recovered));
    return last !== undefined && has(last.notice.failing);
  }

  /** `at minute: failing names / still names / recovered names`. */
  get lines(): string[] {
    const names = (troubles: Notice['failing']) =>
      troubles.map(({ subject }) => subject.name).join();
    return this.sent.map(
      ({ at, notice }) =>
        `${at / MINUTE}: ${names(notice.failing)}/${names(notice.still)}/${names(notice.recovered)}`,
    );
  }
}

test('a failure to act on is reported at once, once, and so is its recovery', () => {
  const channel = new Channel();
  channel.see(found('a', 'auth'));
  for (let run = 0; run < 12; run += 1) {
    channel.wait(5 * MINUTE);
    channel.see(found('a', 'auth'));
  }
  channel.see(found('a', null));
  channel.wait(HOUR);
  channel.see(found('a', null));
  expect(channel.lines).toEqual(['0: a//', '60: //a']);
});

test('what recovers within a quarter of an hour is not reported', () => {
  const channel = new Channel();
  channel.see(found('a', 'origin'));
  channel.wait(14 * MINUTE);
  channel.see(found('a', null));
  channel.wait(DAY);
  expect(channel.lines).toEqual([]);
});

test('a network that stays lost is reported after a quarter of an hour, and once a day from then on', () => {
  const channel = new Channel();
  for (let run = 0; run <= 50 * 12; run += 1) {
    channel.see(found('a', 'origin'));
    channel.wait(5 * MINUTE);
  }
  expect(channel.lines).toEqual(['15: a//', `${15 + 24 * 60}: /a/`, `${15 + 48 * 60}: /a/`]);
});

test('an intermittent failure is reported again at once, and works again only after an hour without it', () => {
  const channel = new Channel();
  channel.see(found('a', 'auth'));
  for (let turn = 0; turn < 20; turn += 1) {
    channel.wait(5 * MINUTE);
    channel.see(found('a', turn % 2 === 0 ? null : 'auth'));
  }
  expect(channel.lines).toEqual(['0: a//', '5: //a', '10: a//']);
  channel.see(found('a', 'auth'));
  channel.wait(HOUR);
  expect(channel.sent).toHaveLength(3);
  channel.see(found('a', null));
  channel.wait(59 * MINUTE);
  expect(channel.sent).toHaveLength(3);
  channel.wait(MINUTE);
  expect(channel.lines.at(-1)).toMatch(/^\d+: \/\/a$/);
});

test('a failure to act on is reported at once after one that went away by itself', () => {
  const channel = new Channel();
  channel.see(found('a', 'origin'));
  channel.wait(3 * MINUTE);
  channel.see(found('a', null));
  channel.wait(2 * MINUTE);
  channel.see(found('a', 'auth'));
  channel.wait(10 * MINUTE);
  channel.see(found('a', null));
  channel.wait(HOUR);
  expect(channel.lines).toEqual(['5: a//', '15: //a']);
});

test('a lost network neither hides a failure to act on nor has it reported twice', () => {
  const channel = new Channel();
  for (let turn = 0; turn < 10; turn += 1) {
    channel.see(found('a', turn % 2 === 0 ? 'auth' : 'origin'));
    channel.wait(10 * MINUTE);
  }
  expect(channel.lines).toEqual(['0: a//']);
  channel.see(found('a', 'damage'));
  expect(channel.lines).toEqual(['0: a//', '100: a//']);
});

test('a failure that becomes graver while its notification is under way is reported as well', () => {
  const channel = new Channel();
  channel.see(found('a', 'origin'));
  channel.time += 15 * MINUTE;
  const notice = dueNotice(channel.reported, channel.time);
  channel.reported = observe(channel.reported, [found('a', 'auth')], channel.time);
  if (notice === null) throw new Error('nothing is due');
  channel.reported = recordAttempt(channel.reported, notice, true, channel.time);
  channel.wait(5 * MINUTE);
  expect(channel.lines).toEqual(['20: a//']);
});

test('a failure that becomes one to act on is reported again', () => {
  const channel = new Channel();
  channel.see(found('a', 'origin'));
  channel.wait(20 * MINUTE);
  channel.see(found('a', 'auth'));
  expect(channel.lines).toEqual(['15: a//', '20: a//']);
});

test('a thousand mailboxes that fail are one notification', () => {
  const channel = new Channel();
  channel.see(...Array.from({ length: 1_000 }, (_, n) => found(`m${n}`, 'auth')));
  expect(channel.sent).toHaveLength(1);
  expect(channel.sent[0]?.notice.failing).toHaveLength(1_000);
});

test('a notification that could not be sent is sent later', () => {
  const channel = new Channel();
  channel.broken = true;
  channel.see(found('a', 'auth'));
  channel.wait(30 * MINUTE);
  channel.broken = false;
  channel.wait(5 * MINUTE);
  expect(channel.sent).toHaveLength(1);
  // What recovered before it was reported is never reported.
  channel.broken = true;
  channel.see(found('b', 'auth'));
  channel.wait(20 * MINUTE);
  channel.see(found('b', null));
  channel.broken = false;
  channel.wait(DAY);
  expect(channel.sent).toHaveLength(1);
});

test('a clock that is set back neither storms nor silences', () => {
  const channel = new Channel();
  channel.see(found('a', 'auth'));
  channel.time -= 365 * DAY;
  for (let run = 0; run < 12; run += 1) {
    channel.see(found('b', 'auth'), found('a', 'auth'));
    channel.wait(5 * MINUTE);
  }
  const names = channel.sent.flatMap(({ notice }) =>
    notice.failing.map(({ subject }) => subject.name),
  );
  expect(names.filter((name) => name === 'b')).toHaveLength(1);
  expect(channel.sent.length).toBeLessThanOrEqual(3);
});

describe('whatever happens', () => {
  const seed = Number(process.env.MAILKEEP_SEED ?? Date.now() % 1_000_000);
  const family = fc.constantFrom<ErrorFamily | null>(null, 'auth', 'origin', 'disk', 'mail');
  const step = fc.record({
    name: fc.constantFrom('a', 'b', 'c'),
    family,
    minutes: fc.integer({ min: 0, max: 90 }),
    broken: fc.boolean(),
  });

  test(`no more than one notification in five minutes, and failure and recovery take turns (seed ${seed})`, () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const channel = new Channel();
        const truth = new Map<string, { readonly kind: ErrorFamily | null; readonly at: number }>();
        let worksSince = START;
        for (const { name, family: kind, minutes, broken } of steps) {
          if (channel.broken) worksSince = channel.time;
          channel.broken = broken;
          if (truth.get(name)?.kind !== kind) truth.set(name, { kind, at: channel.time });
          channel.see(found(name, kind));
          channel.wait(minutes * MINUTE);
          if (broken || channel.time - worksSince < 6 * MINUTE) continue;
          for (const [failing, { kind: why, at }] of truth) {
            const lasted = channel.time - at;
            const isOwed = why !== null && lasted >= (isUrgent(why) ? 5 : 20) * MINUTE;
            const isRight = !isOwed || channel.believes(failing);
            expect(isRight, `${failing} fails (${why}), and that was reported`).toBe(true);
          }
        }
        channel.sent.forEach(({ at }, n) => {
          if (n > 0) expect(at - (channel.sent[n - 1]?.at ?? 0)).toBeGreaterThanOrEqual(5 * MINUTE);
        });
        for (const name of ['a', 'b', 'c']) {
          const has = (troubles: Notice['failing']) =>
            troubles.some(({ subject }) => subject.name === name);
          let failing = false;
          for (const { notice } of channel.sent) {
            if (has(notice.recovered)) {
              expect(failing).toBe(true);
              failing = false;
            }
            if (has(notice.still)) expect(failing).toBe(true);
            if (has(notice.failing)) failing = true;
          }
        }
        // In the end the channel knows how things are, once it works and time has passed.
        channel.broken = false;
        for (const name of ['a', 'b', 'c']) channel.see(found(name, null));
        channel.wait(3 * HOUR);
        channel.see();
        for (const name of ['a', 'b', 'c']) expect(channel.believes(name)).toBe(false);
        expect(channel.reported.troubles).toEqual({});
      }),
      { seed, numRuns: 300 },
    );
  });
});

test('a run speaks of what it reached, and an interrupted one of nothing', () => {
  const failure = (account: string | null, mailbox: string | null) => ({
    account,
    mailbox,
    family: 'origin' as const,
    code: 'c',
    message: 'm',
  });
  const report = {
    kind: 'sync',
    startedAt: 0,
    endedAt: 1,
    outcome: 'done' as const,
    failures: [failure('main', null), failure('other', 'x@example.org')],
    accounts: ['main', 'other'],
    mailboxes: ['x@example.org', 'y@example.org'],
    counts: { added: 0, ended: 0, bytes: 0, requests: 0 },
  };
  const brief = (seen: Observation[]) =>
    seen.map(
      ({ subject, failure: bad }) => `${subject.kind} ${subject.name} ${bad?.code ?? 'well'}`,
    );
  expect(brief(observationsFromRun(report))).toEqual([
    'account main c',
    'mailbox x@example.org c',
    'run sync well',
    'account other well',
    'mailbox y@example.org well',
  ]);
  const failed = { ...report, outcome: 'failed' as const, failures: [failure(null, null)] };
  expect(brief(observationsFromRun({ ...failed, accounts: [], mailboxes: [] }))).toEqual([
    'run sync c',
  ]);
  expect(observationsFromRun({ ...report, outcome: 'interrupted' })).toEqual([]);
});

test('a memory of another version is no memory', () => {
  expect(readReported({ troubles: [1] })).toEqual(NO_REPORTS);
  expect(readReported(undefined)).toEqual(NO_REPORTS);
});
