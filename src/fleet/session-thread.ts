/**
 * Entry point of the thread that renews a worker's session. It has a connection of its own, so that neither long work of
 * the main thread nor other statements delay a renewal. Without a word from the main thread it stops.
 */

import { workerData } from 'node:worker_threads';
import { serializeError, type TransferredError } from '../core/errors.ts';
import { openThreadPort } from '../core/in-thread.ts';
import { openRegistry, type Registry, type RegistryLimits } from './postgres.ts';
import type { RegistryTarget } from './postgres-target.ts';
import { renew, sharedClockMs } from './sessions.ts';

export interface SessionThreadData {
  readonly target: RegistryTarget;
  readonly session: string;
  readonly leaseMs: number;
  readonly renewMs: number;
  /** The main thread counts as dead if it has said nothing for this time. */
  readonly silentMs: number;
}

export type SessionReport =
  /** `askedAt`: milliseconds of the clock that all threads share. */
  | { readonly what: 'renewed'; readonly askedAt: number; readonly isDraining: boolean }
  | { readonly what: 'dead' }
  | { readonly what: 'failed'; readonly error: TransferredError };

/** A renewal has to fail within a third of a lease. */
const LIMITS: Partial<RegistryLimits> = {
  ...{ connections: 1, connectMs: 3_000, statementMs: 3_000, answerMs: 5_000 },
  idleInTransactionMs: 3_000,
};

const data: SessionThreadData = workerData;
let heardAt = sharedClockMs();
let registry: Registry | undefined;

const port = openThreadPort<'alive', SessionReport>(() => {
  heardAt = sharedClockMs();
});

async function renewOnce(): Promise<boolean> {
  const { target, session, leaseMs, silentMs } = data;
  const askedAt = sharedClockMs();
  if (askedAt - heardAt > silentMs) return true;
  try {
    registry ??= await openRegistry(target, LIMITS);
    const outcome = await renew(registry, session, leaseMs);
    if (outcome.outcome === 'refused') {
      port.send({ what: 'dead' });
      return false;
    }
    port.send({ what: 'renewed', askedAt, isDraining: outcome.isDraining });
  } catch (error) {
    port.send({ what: 'failed', error: serializeError(error) });
  }
  return true;
}

async function run(): Promise<void> {
  for (;;) {
    const beganAt = sharedClockMs();
    if (!(await renewOnce())) break;
    const rest = Math.max(0, beganAt + data.renewMs - sharedClockMs());
    await new Promise((resolve) => setTimeout(resolve, rest));
  }
  await registry?.close();
  port.close();
}

await run();
