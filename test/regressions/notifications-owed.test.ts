import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { diskFull } from '../../src/archive/errors.ts';
import { Secret } from '../../src/core/secrets.ts';
import { openState } from '../../src/core/state.ts';
import { Daemon } from '../../src/daemon/daemon.ts';
import { openDaemonLog } from '../../src/daemon/daemon-log.ts';
import { Notifying } from '../../src/daemon/notifying.ts';
import type {
  DaemonEvent,
  MailboxListing,
  SyncRequest,
  WatchedMailbox,
} from '../../src/daemon/ports.ts';
import { mergeResults, type SyncRunner, syncRunReport } from '../../src/daemon/runs.ts';
import { cronTimes, Timetable } from '../../src/daemon/schedule.ts';
import { NO_WORK } from '../../src/sync/committer.ts';
import { syncError } from '../../src/sync/errors.ts';
import { accountFailureResult, type SyncResult } from '../../src/sync/result.ts';
import { recordVerification } from '../../src/verify/verification.ts';
import { FakeTime, settled } from '../daemon/fake-time.ts';
import { type Receiver, receive } from '../sandbox/webhooks/receiver.ts';

const HISTORIES = 6;
const MINUTE = 60_000;
const ACCOUNTS = ['main', 'other'];
const MAILBOXES = ['m0', 'm1'];
const NOTHING = mergeResults([], 0);
const SCHEDULE = { sync: '*/5 * * * *', sweep: '0 3 * * *' };

/** From the last change to the notification: the next pass, a channel that is tried again, and the spacing. */
const SOON_MS = 12 * MINUTE;
/** What a failure that may end by itself is given. */
const PATIENCE_MS = 15 * MINUTE;

let receiver: Receiver;
let isBroken = false;
beforeAll(async () => {
  receiver = await receive((_, response) => {
    response.statusCode = isBroken ? 500 : 200;
    response.end();
  });
});
afterAll(() => receiver.close());

/** How an account is; `slow`: each pass over its first mailbox lasts until something ends it. */
interface Condition {
  token: 'ok' | 'refused';
  network: 'ok' | 'lost';
  slow: boolean;
  mailbox: 'ok' | 'incomplete' | 'held';
}

/** The service and the disk, as passes find them. */
class World implements SyncRunner {
  readonly accounts = new Map<string, Condition>();
  readonly #slow = new Set<() => void>();
  readonly #listed = new Set<string>();
  isDiskFull = false;
  marks = 0;

  constructor() {
    for (const name of ACCOUNTS) {
      this.accounts.set(name, { token: 'ok', network: 'ok', slow: false, mailbox: 'ok' });
    }
  }

  of(account: string): Condition {
    const found = this.accounts.get(account);
    if (found === undefined) throw new Error(`no account ${account}`);
    return found;
  }

  /** A slow pass meets what has changed with its next request. */
  changed(): void {
    for (const end of [...this.#slow]) end();
  }

  listMailboxes = async (account: string, fresh: boolean): Promise<MailboxListing> => {
    const trouble = this.#trouble(account);
    const isAsked = fresh || !this.#listed.has(account);
    if (isAsked && trouble !== undefined) return { mailboxes: [], result: trouble };
    this.#listed.add(account);
    const mailboxes = MAILBOXES.map((name): WatchedMailbox => {
      const address = `${name}@${account}`;
      return { account, host: 'h', resourceId: address, address };
    });
    return { mailboxes, result: NOTHING };
  };

  async pass({ mailbox, signal }: SyncRequest): Promise<SyncResult> {
    const { account, address } = mailbox;
    const isSlow = this.of(account).slow && address.startsWith('m0');
    if (isSlow) await this.#untilSomethingChanges(signal);
    if (this.isDiskFull) throw diskFull('log', 4096, null);
    const trouble = this.#trouble(account);
    if (trouble !== undefined) return trouble;
    const found = { ...NO_WORK, address, comparison: 'all' as const };
    const state = address.startsWith('m1') ? this.of(account).mailbox : 'ok';
    if (state === 'held') return { ...NOTHING, mailboxes: [{ ...found, held: 40 }] };
    if (state === 'ok') return { ...NOTHING, mailboxes: [found] };
    const { family, code, facts } = syncError('sync.does-not-add-up', { total: 9, times: 2 });
    const failure = { ...accountFailureResult(account, { family, code, facts }), mailbox: address };
    return { ...NOTHING, mailboxes: [found], failures: [failure] };
  }

  #untilSomethingChanges(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const over = (act: () => void) => () => {
        this.#slow.delete(end);
        act();
      };
      const end = over(resolve);
      const interrupt = over(() => reject(syncError('sync.interrupted', {})));
      this.#slow.add(end);
      if (signal.aborted) interrupt();
      signal.addEventListener('abort', interrupt);
    });
  }

  #trouble(account: string): SyncResult | undefined {
    const { token, network } = this.of(account);
    if (token === 'ok' && network === 'ok') return undefined;
    const failure =
      network === 'lost'
        ? { family: 'origin' as const, code: 'origin.unreachable', facts: { host: 'h' } }
        : { family: 'auth' as const, code: 'auth.refused', facts: { host: 'h' } };
    return { ...NOTHING, failures: [accountFailureResult(account, failure)] };
  }

  plan = (): never => {
    throw new Error('nobody plans here');
  };
  has = (): boolean => true;
  tidy = (): Promise<boolean> => Promise.resolve(false);
  recover = (): void => {};
  tokenMark = (): string => String(this.marks);
}

type Kind = 'urgent' | 'patient';

/** A daemon over a world, a person who is notified, and the failures that must have been reported. */
class History {
  readonly time = new FakeTime();
  readonly world = new World();
  readonly #folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-owed-'));
  readonly #state = openState(this.#folder);
  /** By subject: how it fails and since when. */
  readonly #failing = new Map<string, { readonly kind: Kind; readonly since: number }>();
  /** By subject: whether it fails, as the person who is notified believes. */
  readonly believed = new Map<string, boolean>();
  readonly told: string[] = [];
  #read = receiver.got.length;
  #worksSince = this.time.now();
  #isDamaged = false;
  #notifying: Notifying | undefined;
  #daemon: Daemon | undefined;

  async start(): Promise<void> {
    const { time, world } = this;
    const clock = { now: time.now, after: time.after };
    const notifying = new Notifying(
      { command: null, url: new Secret(receiver.url) },
      {
        memory: this.#state,
        env: {},
        clock,
        log: await openDaemonLog('silent', false),
        metrics: { notification: () => {} },
        quotas: () => [],
        copies: () => [],
        accounts: () => ACCOUNTS,
        warnPercent: () => null,
      },
    );
    this.#notifying = notifying;
    const observer = (event: DaemonEvent): void => {
      notifying.onEvent(event);
      if (event.event !== 'run-finished') return;
      const { kind, account, startedAt } = event.run;
      const accounts = account === null ? ACCOUNTS : [account];
      notifying.onRun(
        syncRunReport(event.result, { kind, accounts, startedAt, endedAt: time.now() }),
      );
    };
    const entries = (['sync', 'sweep'] as const).map((name) => {
      const times = cronTimes(SCHEDULE[name], 'UTC');
      return { name, times, lastAt: null, atStart: name === 'sync' };
    });
    this.#daemon = new Daemon({
      accounts: ACCOUNTS,
      runner: world,
      clock: time,
      timetable: new Timetable(entries, () => 0, time.now()),
      started: () => {},
      tasks: { verify: () => Promise.resolve(), prune: () => Promise.resolve() },
      observer,
      random: () => 1,
      onFatal: (error) => {
        throw error;
      },
    });
    this.#daemon.start();
    await settled();
  }

  async stop(): Promise<void> {
    await this.#daemon?.stop();
    await this.#notifying?.close();
    await this.#take();
  }

  async end(): Promise<void> {
    await this.stop();
    this.#state.close();
    rmSync(this.#folder, { recursive: true });
  }

  breakChannel(broken: boolean): void {
    if (isBroken && !broken) this.#worksSince = this.time.now();
    isBroken = broken;
  }

  damage(isDamaged: boolean): void {
    this.#isDamaged = isDamaged;
    const findings = isDamaged ? [{ what: 'checkpoint', id: null, text: 'it ends early' }] : [];
    const at = this.time.now();
    recordVerification(this.#state, {
      ...{ at, endedAt: at, mode: 'full', checked: 1, of: 1, found: findings.length, findings },
      covers: () => true,
    });
  }

  hand(): void {
    const request = { account: undefined, mailboxes: [], folders: [] };
    this.#daemon?.sync({ ...request, full: false, acceptEndings: false }, () => {});
  }

  /** Lets minutes pass; after each, checks that nothing is owed. */
  async pass(minutes: number): Promise<void> {
    for (let minute = 0; minute < minutes; minute += 1) {
      this.#note();
      await this.time.pass(MINUTE);
      await this.#notifying?.idle();
      await this.#take();
      expect(this.#owed(), `at ${this.time.now()}`).toEqual([]);
    }
  }

  /** What fails for so long that it must have been reported. */
  #owed(): string[] {
    if (isBroken || this.time.now() - this.#worksSince < SOON_MS) return [];
    return [...this.#failing]
      .filter(([subject, { kind, since }]) => {
        const lasted = this.time.now() - since;
        const limit = kind === 'urgent' ? SOON_MS : SOON_MS + PATIENCE_MS;
        return lasted >= limit && this.believed.get(subject) !== true;
      })
      .map(([subject]) => subject);
  }

  #note(): void {
    const now = this.time.now();
    const note = (subject: string, kind: Kind | null): void => {
      const known = this.#failing.get(subject);
      if (kind === null) this.#failing.delete(subject);
      else if (known?.kind !== kind) this.#failing.set(subject, { kind, since: now });
    };
    const { isDiskFull } = this.world;
    for (const [name, { token, network, slow, mailbox }] of this.world.accounts) {
      const isLost = network === 'lost';
      // With a full disk no pass gets to the service.
      const isUnknown = isDiskFull || (slow && !isLost && token === 'ok');
      const account = token === 'refused' ? 'urgent' : 'patient';
      note(
        `account ${name}`,
        isUnknown || (token === 'ok' && !isLost) ? null : isLost ? 'patient' : account,
      );
      const isReached = token === 'ok' && !isLost && !isDiskFull;
      const kind = mailbox === 'held' ? 'urgent' : mailbox === 'incomplete' ? 'patient' : null;
      note(`mailbox m1@${name}`, isReached ? kind : null);
    }
    const reached = [...this.world.accounts.values()].some(
      ({ token, network }) => token === 'ok' && network === 'ok',
    );
    note('run sync', isDiskFull && reached ? 'urgent' : null);
    note('run verify', this.#isDamaged ? 'urgent' : null);
  }

  /** Reads what was received. */
  async #take(): Promise<void> {
    const { got } = receiver;
    for (; this.#read < got.length; this.#read += 1) {
      if (isBroken) continue;
      const body = JSON.parse(got[this.#read]?.body ?? '') as Notification;
      for (const [items, isFailing] of [
        [body.failing, true],
        [body.recovered, false],
      ] as const) {
        for (const { kind, name } of items) {
          const subject = `${kind} ${name}`;
          if (!isFailing) expect(this.believed.get(subject), `${subject} failed before`).toBe(true);
          this.believed.set(subject, isFailing);
          this.told.push(`${isFailing ? '-' : '+'} ${subject}`);
        }
      }
    }
  }
}

interface Notification {
  readonly failing: readonly { readonly kind: string; readonly name: string }[];
  readonly recovered: readonly { readonly kind: string; readonly name: string }[];
}

const seed = Number(process.env.MAILKEEP_SEED ?? Date.now() % 1_000_000);

const account = fc.constantFrom(...ACCOUNTS);
const act = fc.oneof(
  fc.record({ act: fc.constant('token' as const), account, to: fc.constantFrom('ok', 'refused') }),
  fc.record({ act: fc.constant('network' as const), account, to: fc.constantFrom('ok', 'lost') }),
  fc.record({ act: fc.constant('slow' as const), account, to: fc.boolean() }),
  fc.record({
    act: fc.constant('mailbox' as const),
    account,
    to: fc.constantFrom('ok', 'incomplete', 'held'),
  }),
  fc.record({ act: fc.constant('disk' as const), to: fc.boolean() }),
  fc.record({ act: fc.constant('damage' as const), to: fc.boolean() }),
  fc.record({ act: fc.constant('channel' as const), to: fc.boolean() }),
  fc.record({ act: fc.constant('restart' as const) }),
  fc.record({ act: fc.constant('hand' as const) }),
);
const step = fc.record({ what: act, minutes: fc.constantFrom(1, 2, 4, 7, 13, 30) });
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

async function play(history: History, { what, minutes }: Step): Promise<void> {
  const { world } = history;
  switch (what.act) {
    case 'token':
      world.of(what.account).token = what.to === 'ok' ? 'ok' : 'refused';
      world.marks += 1;
      break;
    case 'network':
      world.of(what.account).network = what.to === 'ok' ? 'ok' : 'lost';
      break;
    case 'slow':
      world.of(what.account).slow = what.to;
      break;
    case 'mailbox':
      world.of(what.account).mailbox = what.to as Condition['mailbox'];
      break;
    case 'disk':
      world.isDiskFull = what.to;
      break;
    case 'damage':
      history.damage(what.to);
      break;
    case 'channel':
      history.breakChannel(what.to);
      break;
    case 'restart':
      await history.stop();
      await history.start();
      break;
    case 'hand':
      history.hand();
  }
  world.changed();
  await history.pass(minutes);
}

/** Plays a history, then lets things stay as they are, then mends everything. */
async function check(steps: readonly Step[]): Promise<void> {
  const history = new History();
  await history.start();
  try {
    for (const one of steps) await play(history, one);
    history.breakChannel(false);
    await history.pass(45);
    const before = history.told.length;
    await history.pass(90);
    // Recoveries of what comes and goes may be waited for; failures were reported.
    expect(history.told.slice(before).filter((line) => line.startsWith('-'))).toEqual([]);
    for (const condition of history.world.accounts.values()) {
      Object.assign(condition, { token: 'ok', network: 'ok', slow: false, mailbox: 'ok' });
    }
    history.world.isDiskFull = false;
    history.world.marks += 1;
    history.damage(false);
    history.world.changed();
    await history.pass(90);
    expect([...history.believed].filter(([, fails]) => fails)).toEqual([]);
  } finally {
    history.breakChannel(false);
    await history.end();
  }
}

test(`whatever came before, each failure is reported in time and each recovery once (seed ${seed})`, async () => {
  const histories = fc.sample(fc.array(step, { minLength: 5, maxLength: 25 }), {
    seed,
    numRuns: HISTORIES,
  });
  for (const steps of histories) {
    try {
      await check(steps);
    } catch (error) {
      const lines = steps.map((one) => JSON.stringify(one)).join('\n');
      throw new Error(`with seed ${seed}, after\n${lines}`, { cause: error });
    }
  }
});
