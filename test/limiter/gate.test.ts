import { describe, expect, test } from 'vitest';
import type { Lane } from '../../src/core/concurrency.ts';
import type { Answer, Gate, Wait } from '../../src/core/pace.ts';
import { Limiter, type LimiterStore } from '../../src/core/pace.ts';
import { FakeClock, settle } from './fake-clock.ts';

const FINE: Answer = {
  status: 200,
  startedAt: 0,
  retryAfterMs: null,
  limit: null,
  remaining: null,
};

function setUp(requestsPerMinute: number, concurrency: number, store?: LimiterStore) {
  const clock = new FakeClock();
  const waits: Wait[] = [];
  const limiter = new Limiter({
    policy: { requestsPerMinute, concurrency },
    clock,
    onWait: (wait) => waits.push(wait),
    ...(store === undefined ? {} : { store }),
  });
  return { clock, limiter, waits, gate: limiter.gate('mail.example:443', 'main') };
}

/** Enters and notes its name when it passes. */
function line(gate: Gate, passed: string[], name: string, lane: Lane = 'backlog', key = 'k') {
  return gate.enter({ lane, key }).then((at) => {
    passed.push(name);
    return at;
  });
}

function refuse(gate: Gate, clock: FakeClock, retryAfterMs: number | null = null) {
  gate.leave({ ...FINE, status: 429, startedAt: clock.now(), retryAfterMs });
}

/** Has a request refused, after it has waited for its turn for at most `ms`. */
async function refuseNext(gate: Gate, clock: FakeClock, ms: number): Promise<void> {
  const at = gate.enter({ lane: 'backlog', key: 'k' });
  await clock.advance(ms);
  await at;
  refuse(gate, clock);
}

class Memory implements LimiterStore {
  readonly kept = new Map<string, string>();
  load(key: string): unknown {
    return JSON.parse(this.kept.get(key) ?? 'null');
  }
  save(key: string, state: unknown): void {
    this.kept.set(key, JSON.stringify(state));
  }
}

describe('width', () => {
  test('no more are in flight than allowed, and leaving lets the next in', async () => {
    const { gate } = setUp(10_000_000, 2);
    const passed: string[] = [];
    for (const name of ['1', '2', '3', '4']) void line(gate, passed, name);
    await settle();
    expect(passed).toEqual(['1', '2']);
    gate.leave(FINE);
    await settle();
    expect(passed).toEqual(['1', '2', '3']);
    gate.leave(null);
    await settle();
    expect(passed).toEqual(['1', '2', '3', '4']);
    expect(gate.inFlight).toBe(2);
  });

  test('nobody overtakes by entering at once while others wait', async () => {
    const { gate, clock } = setUp(1, 4);
    const passed: string[] = [];
    void line(gate, passed, 'first');
    void line(gate, passed, 'second');
    await settle();
    expect(gate.tryEnter()).toBeNull();
    await clock.advance(61_000);
    expect(passed).toEqual(['first', 'second']);
  });
});

describe('order', () => {
  test('a hint passes before the backlog that waited longer', async () => {
    const { gate } = setUp(10_000_000, 1);
    const passed: string[] = [];
    void line(gate, passed, 'in flight');
    void line(gate, passed, 'backlog', 'backlog');
    void line(gate, passed, 'hint', 'hint');
    gate.leave(FINE);
    await settle();
    expect(passed).toEqual(['in flight', 'hint']);
  });

  test('mailboxes take turns', async () => {
    const { gate } = setUp(10_000_000, 1);
    const passed: string[] = [];
    void line(gate, passed, '0');
    for (const name of ['a1', 'a2', 'b1']) {
      void line(gate, passed, name, 'backlog', name.slice(0, 1));
    }
    for (let i = 0; i < 3; i += 1) {
      gate.leave(FINE);
      await settle();
    }
    expect(passed).toEqual(['0', 'a1', 'b1', 'a2']);
  });
});

describe('pauses', () => {
  test('three refusals in a row pause the host for a minute, and nothing probes it meanwhile', async () => {
    const { gate, clock, limiter } = setUp(600, 4);
    const passed: string[] = [];
    for (let i = 0; i < 3; i += 1) {
      const at = line(gate, passed, `refused ${i}`);
      await clock.advance(20_000);
      await at;
      refuse(gate, clock);
    }
    const other = limiter.gate('mail.example:443', 'another token');
    void line(gate, passed, 'probe');
    void line(other, passed, 'other token');
    await clock.advance(59_000);
    expect(passed).toHaveLength(3);
    expect(gate.heldForMs).toBeGreaterThan(0);
    await clock.advance(2000);
    expect(passed.slice(3).sort()).toEqual(['other token', 'probe']);
  });

  test('a refused probe doubles the pause, up to an hour; an answer ends the series', async () => {
    const { gate, clock } = setUp(600, 1);
    const pauses: number[] = [];
    for (let i = 0; i < 11; i += 1) {
      await refuseNext(gate, clock, 3_600_000);
      pauses.push(Math.round(gate.heldForMs / 1000));
    }
    expect(pauses).toEqual([5, 10, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
    const at = gate.enter({ lane: 'backlog', key: 'k' });
    await clock.advance(3_600_000);
    await at;
    gate.leave({ ...FINE, startedAt: clock.now() });
    expect(gate.heldForMs).toBe(0);
  });

  test('another host is not concerned', async () => {
    const { gate, clock, limiter } = setUp(600, 1);
    for (let i = 0; i < 3; i += 1) await refuseNext(gate, clock, 60_000);
    expect(limiter.gate('other.example:443', 'main').tryEnter()).not.toBeNull();
  });

  test('waits of a second and more are reported with their reason', async () => {
    const { gate, clock, waits } = setUp(600, 1);
    expect(gate.tryEnter()).not.toBeNull();
    refuse(gate, clock, 30_000);
    const passed: string[] = [];
    void line(gate, passed, 'next');
    await settle();
    expect(waits.at(-1)).toEqual({
      host: 'mail.example:443',
      until: clock.now() + 30_000,
      reason: 'retry-after',
    });
  });
});

describe('giving up', () => {
  test('an aborted wait rejects with the reason, leaves the line and its timer', async () => {
    const { gate, clock } = setUp(1, 1);
    expect(gate.tryEnter()).not.toBeNull();
    gate.leave(FINE);
    const stop = new AbortController();
    const waiting = gate.enter({ lane: 'hint', key: 'k', signal: stop.signal });
    await settle();
    expect(clock.timers).toBe(1);
    const reason = new Error('stopped by the user');
    stop.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    expect(gate.waiting).toBe(0);
    expect(clock.timers).toBe(0);
  });

  test('an aborted signal does not enter at all', async () => {
    const { gate } = setUp(60, 1);
    await expect(
      gate.enter({ lane: 'hint', key: 'k', signal: AbortSignal.abort(new Error('over')) }),
    ).rejects.toThrow('over');
    expect(gate.inFlight).toBe(0);
  });

  test('many waits on one signal add one listener', async () => {
    const { gate } = setUp(1, 1);
    const stop = new AbortController();
    let listeners = 0;
    const add = stop.signal.addEventListener.bind(stop.signal);
    stop.signal.addEventListener = (...all: Parameters<typeof add>) => {
      listeners += 1;
      add(...all);
    };
    const waits = Array.from({ length: 50 }, () =>
      gate.enter({ lane: 'hint', key: 'k', signal: stop.signal }),
    );
    stop.abort(new Error('over'));
    const ends = await Promise.allSettled(waits);
    expect(ends.filter(({ status }) => status === 'rejected')).toHaveLength(49);
    expect(listeners).toBe(1);
  });
});

describe('memory', () => {
  test('a pause and a learned rate survive a restart', async () => {
    const memory = new Memory();
    const { gate, clock } = setUp(60, 1, memory);
    for (let i = 0; i < 3; i += 1) await refuseNext(gate, clock, 60_000);
    const again = new Limiter({
      policy: { requestsPerMinute: 60, concurrency: 1 },
      clock,
      store: memory,
    }).gate('mail.example:443', 'main');
    expect(again.heldForMs).toBe(gate.heldForMs);
    expect(again.rate).toBe(gate.rate);
    expect(again.rate).toBeLessThan(60);
    expect(again.tryEnter()).toBeNull();
  });

  test('counting is saved now and then, and on demand', async () => {
    const memory = new Memory();
    const { gate, clock, limiter } = setUp(6_000_000, 4, memory);
    gate.tryEnter();
    gate.leave(FINE);
    const first = [...memory.kept.values()];
    gate.tryEnter();
    gate.leave(FINE);
    expect([...memory.kept.values()]).toEqual(first);
    limiter.save();
    expect([...memory.kept.values()]).not.toEqual(first);
    expect(clock.timers).toBe(0);
  });

  test.each([null, 7, {}, { learned: -1 }, { due: 'soon' }])(
    'what is no memory is ignored: %j',
    (junk) => {
      const { gate } = setUp(60, 1, { load: () => junk, save: () => {} });
      expect(gate.rate).toBe(60);
      expect(gate.tryEnter()).not.toBeNull();
    },
  );
});
