import { MailkeepError } from '../core/errors.ts';
import type { Registry } from '../registry/registry.ts';
import type { Session } from '../registry/sessions.ts';
import type { FleetNeighbours } from './neighbours.ts';
import { pause } from './pause.ts';
import { SESSION_TIMES, type SessionTimes, WorkerSession } from './session.ts';
import { Worker, type WorkerOptions } from './worker.ts';

export interface RunWorkerOptions extends Omit<WorkerOptions, 'session' | 'node' | 'capacity'> {
  /** With limits that are shorter than a lease, and no connection that others wait for. */
  readonly sessions: Registry;
  readonly worker: Omit<Session, 'session'>;
  /** Milliseconds of a clock that is never set, also while the machine sleeps. */
  readonly uptime: () => number;
  readonly times?: SessionTimes;
  /** Those who listen to the worker, and those it listens to. */
  readonly neighbours?: Pick<FleetNeighbours, 'join'>;
}

/** Until a session is tried to be begun again, in milliseconds. */
const BEGIN_AGAIN_MS = 5_000;

/**
 * Works for a fleet until the signal is aborted, in one session after the other: one that died has lost its archives, and only
 * another one may claim.
 *
 * @throws what is a mistake of the program; failures of the registry and the object store pass
 */
export async function runWorker(options: RunWorkerOptions, signal: AbortSignal): Promise<void> {
  const { log, worker: facts, times } = options;
  while (!signal.aborted) {
    const session = await begun(options, signal);
    if (session === undefined) return;
    const { node, capacity } = facts;
    log.say('info', 'session begun', { session: session.id, node, capacity });
    const worker = new Worker({ ...options, session, node, capacity });
    const leave = options.neighbours?.join(worker, session);
    const renewal = times?.renewMs ?? SESSION_TIMES.renewMs;
    try {
      await worker.run(signal);
    } finally {
      await leave?.();
      await ended(session, options);
    }
    if (!signal.aborted) {
      log.say('warn', 'the session is dead; another one begins', { session: session.id });
      await pause(options.clock, renewal, signal);
    }
  }
}

async function begun(
  { sessions, worker, clock, uptime, times, log }: RunWorkerOptions,
  signal: AbortSignal,
): Promise<WorkerSession | undefined> {
  while (!signal.aborted) {
    try {
      return await WorkerSession.begin({
        ...{ registry: sessions, worker, clock, monotonic: uptime },
        ...(times === undefined ? {} : { times }),
        onFailure: (error) => log.fail('error', 'the session could not be renewed', error),
      });
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      log.fail('error', 'a session could not be begun', error);
      await pause(clock, BEGIN_AGAIN_MS, signal);
    }
  }
  return undefined;
}

async function ended(session: WorkerSession, { log }: RunWorkerOptions): Promise<void> {
  try {
    await session.end();
  } catch (error) {
    // Its lease runs out.
    if (!(error instanceof MailkeepError)) throw error;
    log.fail('error', 'the session could not be ended', error);
  }
}
