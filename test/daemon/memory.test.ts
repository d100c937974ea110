import { rmSync } from 'node:fs';
import { queryObjects, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { openWriter } from '../../src/catalog/open-writer.ts';
import { systemClock } from '../../src/core/concurrency.ts';
import { loadConfig } from '../../src/core/config.ts';
import { Daemon } from '../../src/daemon/daemon.ts';
import type { DaemonEvent } from '../../src/daemon/ports.ts';
import { SyncRuns } from '../../src/daemon/runs.ts';
import { cronTimes, Timetable } from '../../src/daemon/schedule.ts';
import { deliver } from '../../src/sandbox/faults.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { FakeTime } from './fake-time.ts';
import { daemonWorkplace } from './running-daemon.ts';

const MAILBOXES = 4;
const FIVE_MINUTES = 300_000;
/** Runs until caches, prepared statements and compiled code are what they will be. */
const WARM_UP = 100;
const RUNS = 500;

setFlagsFromString('--expose-gc');
const collect = z.function().parse(runInNewContext('gc'));

it('days of passes leave nothing behind', async () => {
  const addresses = Array.from({ length: MAILBOXES }, (_, n) => `box${n}@example.org`);
  const sandbox = await startSandbox({ seed: 8, addresses, mail: { messages: 20 } });
  const place = daemonWorkplace(sandbox);
  const abort = new AbortController();
  const time = new FakeTime();
  const writer = await openWriter(
    {
      globals: { config: undefined, data: undefined },
      environment: { cwd: place.folder, env: {} },
      report: () => {},
      signal: abort.signal,
      now: time.now,
    },
    place.data,
  );
  // The service answers in real time, and the committer waits in it.
  const clock = { now: time.now, monotonic: time.monotonic, after: systemClock.after };
  const { settings } = loadConfig(place.config);
  const passes = new SyncRuns({
    writer,
    env: {},
    settings,
    clock,
    onRequest: () => {},
    onWait: () => {},
    onSealed: () => {},
    onTidied: () => {},
  });
  let over: (event: DaemonEvent) => void = () => {};
  const failures: unknown[] = [];
  let passed = 0;
  const daemon = new Daemon({
    accounts: settings.accounts.map(({ name }) => name),
    runner: passes,
    clock: time,
    timetable: new Timetable(
      [{ name: 'sync', times: cronTimes('*/5 * * * *', 'UTC'), lastAt: null, atStart: true }],
      () => 0,
      time.now(),
    ),
    started: () => {},
    tasks: { verify: async () => {}, prune: async () => {} },
    observer: (event) => {
      if (event.event === 'pass-finished') passed += 1;
      if (event.event === 'run-finished') {
        failures.push(...event.result.failures);
        over(event);
      }
    },
    random: () => 0.5,
    onFatal: (error) => failures.push(error),
  });
  const run = (begin: () => unknown): Promise<DaemonEvent> => {
    const ended = new Promise<DaemonEvent>((resolve) => {
      over = resolve;
    });
    void begin();
    return ended;
  };
  const live = () => {
    collect();
    // What the first one finds of memory outside the heap, V8 frees on another thread; the second one waits for that.
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return { signals: queryObjects(AbortSignal, { format: 'count' }), bytes: heapUsed + external };
  };
  const several = async (runs: number): Promise<void> => {
    for (let n = 0; n < runs; n += 1) {
      await run(() => time.pass(FIVE_MINUTES));
      if (n % 10 > 0) continue;
      // By hand: the mailboxes are requested again. And a hint, with what it is about.
      await run(
        () =>
          daemon.sync(
            { full: false, acceptEndings: false, account: undefined, mailboxes: [], folders: [] },
            () => {},
          ).done,
      );
      const [mailbox] = sandbox.service.store.mailboxes.values();
      if (mailbox === undefined) throw new Error('no mailbox');
      const inbox = sandbox.service.store.folderFor(mailbox, 'INBOX');
      const uid = deliver(
        sandbox.service,
        mailbox,
        inbox,
        Buffer.from(`Subject: ${n}\r\n\r\nHello.\r\n`),
      );
      await run(() => daemon.hint({ resourceId: mailbox.resourceId, uid }));
    }
  };
  try {
    await run(() => {
      daemon.start();
    });
    // To a full five minutes: from here on each step ends with what is due then.
    await run(() => time.pass(FIVE_MINUTES - 30_000));
    await several(WARM_UP);
    const before = live();
    const passedBefore = passed;
    await several(RUNS);
    const after = live();
    expect(failures).toEqual([]);
    expect(passed - passedBefore).toBeGreaterThanOrEqual(RUNS * MAILBOXES);
    expect(after.signals - before.signals).toBeLessThan(50);
    // What one pass leaves where its signal stays alive is 8 kB.
    expect(after.bytes - before.bytes).toBeLessThan(2_000 * (passed - passedBefore));
  } finally {
    await daemon.stop();
    await passes.close();
    await writer.close();
    await sandbox.close();
    rmSync(place.folder, { recursive: true, force: true });
  }
}, 300_000);
