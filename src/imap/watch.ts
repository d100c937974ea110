/** Watches an account for changes with IDLE (RFC 2177) and NOTIFY (RFC 5465), so that a sync need not wait. */
import { type Clock, onAbort, sleep, systemClock } from '../core/concurrency.ts';
import { MailkeepError } from '../core/errors.ts';
import { examine } from './commands.ts';
import type { ImapSession } from './connection.ts';
import { type ImapConnections, MAX_SUGGESTED_MS } from './connections.ts';
import type { DataResponse, StatusResponse } from './response.ts';

/** Servers may end a session after 30 minutes without a command, and NAT routers forget it sooner. */
const RENEW_MS = 900_000;
const TIMES = { connectMs: 30_000, silenceMs: RENEW_MS + 60_000 };
/** Milliseconds to wait for the answer to DONE. */
const DONE_MS = 30_000;
/** Changes within this time make one notification. */
const SETTLE_MS = 500;
/** Least time between notifications. Doubles while changes go on without a pause. */
const GAP_MS = 2_000;
const LONGEST_GAP_MS = 60_000;
/** Delays before connecting again. They start over after a connection that lasted for a while. */
const AGAIN_MS = 5_000;
const LONGEST_AGAIN_MS = 900_000;
const LASTED_MS = 300_000;

/** New, deleted and changed messages of all folders, and their names. */
const NOTIFY = 'NOTIFY SET (personal (MessageNew MessageExpunge FlagChange MailboxName))';
const CHANGES: ReadonlySet<string> = new Set([
  'EXISTS',
  'EXPUNGE',
  'VANISHED',
  'FETCH',
  'STATUS',
  'LIST',
]);

/** Why watching ended: the server has neither extension, or allows only one connection. */
export type WatchEnd = 'unsupported' | 'one-connection';

/**
 * Calls `onChange` after changes, and after each connection, because something may have changed before. Connects again
 * after failures.
 *
 * @returns why the account cannot be watched
 * @throws errors that another attempt does not solve, such as a refused sign-in; the signal's reason
 */
export async function watchChanges(
  connections: ImapConnections,
  onChange: () => void,
  signal: AbortSignal,
  clock: Clock = systemClock,
): Promise<WatchEnd> {
  const pulse = new Pulse(onChange, clock);
  const release = onAbort(signal, () => pulse.stop());
  try {
    for (let failures = 0; ; ) {
      const startedAt = clock.now();
      try {
        let isSupported = true;
        const isReserved = await connections.reserve(
          async (session) => {
            isSupported = await watchSession(session, pulse, signal, clock);
          },
          signal,
          TIMES,
        );
        if (!isReserved) return 'one-connection';
        if (!isSupported) return 'unsupported';
      } catch (error) {
        signal.throwIfAborted();
        const waitMs = error instanceof MailkeepError ? waitAfter(error, failures, clock) : null;
        if (waitMs === null) throw error;
        const lasted = clock.now() - startedAt;
        failures = lasted >= LASTED_MS ? 0 : failures + 1;
        await sleep(clock, failures === 0 ? AGAIN_MS : waitMs, signal);
      }
    }
  } finally {
    release();
    pulse.stop();
  }
}

/** Returns the milliseconds until another attempt, or null if it does not help. */
function waitAfter(error: MailkeepError, failures: number, clock: Clock): number | null {
  if (error.family !== 'origin') return null;
  const { until, waitMs } = error.facts;
  const asked =
    error.code === 'imap.day-limit'
      ? Date.parse(String(until)) - clock.now()
      : Math.min(MAX_SUGGESTED_MS, Number(waitMs ?? 0));
  return Math.max(asked, Math.min(LONGEST_AGAIN_MS, AGAIN_MS * 2 ** failures));
}

/** Returns false if the server has neither extension. Otherwise ends only with an error. */
async function watchSession(
  session: ImapSession,
  pulse: Pulse,
  signal: AbortSignal,
  clock: Clock,
): Promise<boolean> {
  if (!session.has('IDLE')) return false;
  const isNotified = session.has('NOTIFY') && (await setNotify(session));
  if (!isNotified) await examine(session, 'INBOX', 'INBOX', clock.now());
  pulse.change();
  let hasOverflowed = false;
  const onData = (response: DataResponse | StatusResponse): void => {
    if ('status' in response) hasOverflowed ||= response.code?.name === 'NOTIFICATIONOVERFLOW';
    if ('status' in response ? hasOverflowed : CHANGES.has(response.name)) pulse.change();
  };
  while (!signal.aborted) {
    const startedAt = clock.now();
    await idleOnce(session, onData, clock);
    // Some servers end IDLE at once.
    if (Math.abs(clock.now() - startedAt) < AGAIN_MS) await sleep(clock, AGAIN_MS, signal);
    // The server has stopped all notifications.
    if (hasOverflowed) await setNotify(session);
    hasOverflowed = false;
  }
  return true;
}

/** Returns false if the server refuses these events. */
async function setNotify(session: ImapSession): Promise<boolean> {
  // Changed flags are reported as a HIGHESTMODSEQ, to a client that has enabled it (RFC 5465, section 5.6).
  if (session.has('ENABLE') && session.has('CONDSTORE')) {
    await session.runAll('ENABLE', ['ENABLE CONDSTORE'], () => {});
  }
  const [result] = await session.runAll('NOTIFY', [NOTIFY], () => {});
  if (result?.status === 'OK' || result === undefined) return true;
  const error = session.refusal('NOTIFY', result);
  if (error.code !== 'imap.refused') throw error;
  return false;
}

async function idleOnce(
  session: ImapSession,
  onData: (response: DataResponse | StatusResponse) => void,
  clock: Clock,
): Promise<void> {
  const { promise: renewed, resolve } = Promise.withResolvers<void>();
  const cancels = [
    clock.after(RENEW_MS, resolve),
    clock.after(RENEW_MS + DONE_MS, () => session.close()),
  ];
  try {
    await session.idle(onData, renewed);
  } finally {
    for (const cancel of cancels) cancel();
  }
}

/** Turns any number of changes into few notifications. */
class Pulse {
  #cancel: (() => void) | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;
  #gapMs = GAP_MS;

  constructor(
    private readonly notify: () => void,
    private readonly clock: Clock,
  ) {}

  change(): void {
    if (this.#cancel !== undefined) return;
    const since = this.clock.now() - this.#lastAt;
    // A time in the future is from before the clock was set back.
    const left = since < 0 ? 0 : this.#gapMs - since;
    this.#gapMs = left > 0 ? Math.min(LONGEST_GAP_MS, this.#gapMs * 2) : GAP_MS;
    this.#cancel = this.clock.after(Math.max(SETTLE_MS, left), () => {
      this.#cancel = undefined;
      this.#lastAt = this.clock.now();
      this.notify();
    });
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
