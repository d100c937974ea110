import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ComparedCatalog, ImpliedCatalog } from '../catalog/implied.ts';
import type { SettledCounts } from '../catalog/settled-rows.ts';
import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { Grown } from './grown-catalog.ts';
import { unlessTroubled } from './unless-troubled.ts';

/** The state of the catalog by which messages are settled. */
export interface SettlingState {
  readonly catalog: ComparedCatalog;
  /** Messages of later commits are not settled. */
  readonly upTo: number;
  /** See `ComparedCatalog.version`. */
  readonly version: unknown;
}

/**
 * Returns the state by which messages may be settled; see `Settling`. Threads see one state of the catalog after the
 * other if somebody writes: then it is another one in the end, and nothing they settled counts.
 */
export function settlingState({
  catalog,
  reached,
}: Pick<Grown, 'catalog' | 'reached'>): SettlingState | undefined {
  if (catalog === undefined || reached === undefined) return undefined;
  return unlessTroubled(() =>
    catalog.settles() ? { catalog, upTo: reached.number, version: catalog.version() } : undefined,
  );
}

/**
 * Returns whether the catalog is still in the state in which messages were settled, has exactly the settled rows and the
 * folded ones, and does not contradict itself. False proves nothing. The caller has frozen the catalog.
 *
 * @param contradicting what `contradictingTables` found, asked for after `settlingState`: while the version is the same,
 *   so is the state that it read
 * @throws AbortError; errors of `contradicting` that are not the catalog's
 */
export async function agrees(
  { catalog, upTo, version }: SettlingState,
  implied: ImpliedCatalog,
  settled: SettledCounts,
  contradicting: Promise<readonly string[]>,
  signal: AbortSignal,
): Promise<boolean> {
  const comparing = unlessTroubled(() => {
    const reached = [catalog, implied].map((side) => side.reached().number);
    const same = catalog.version() === version && reached.every((number) => number === upTo);
    return same ? implied.agrees(catalog, settled) : undefined;
  });
  for (;;) {
    const step = unlessTroubled(() => comparing?.next());
    if (step === undefined) return false;
    if (step.done === true) return step.value && (await isConsistent(contradicting));
    await nextTurn();
    signal.throwIfAborted();
  }
}

async function isConsistent(contradicting: Promise<readonly string[]>): Promise<boolean> {
  try {
    return (await contradicting).length === 0;
  } catch (error) {
    // Comparing every row reports what keeps the catalog from being read.
    if (!(error instanceof MailkeepError) || hasCode(error, 'thread-ended')) throw error;
    return false;
  }
}
