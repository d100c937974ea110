import { archiveError } from '../archive/errors.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import type { Writer } from '../catalog/open-writer.ts';
import { readArchive } from '../registry/reading.ts';
import { finishPurge } from '../verify/purge.ts';
import { type DecideOptions, FleetForgets } from './forgets.ts';
import { FleetPurges } from './purges.ts';
import { type TakeOverOptions, takeOver } from './take-over.ts';

export interface OpenHeldOptions
  extends Omit<TakeOverOptions, 'stored' | 'purges'>,
    Pick<DecideOptions, 'onUnforgotten'> {
  /** What was decided and is not finished; of an earlier opening under the same claim, if there was one. */
  readonly purges?: FleetPurges;
  readonly report: EngineContext['report'];
}

/** An archive that this session writes, and its purges, which last longer than the writer. */
export interface OpenedArchive {
  readonly writer: Writer;
  readonly purges: FleetPurges;
  /** Requests to forget that could not be decided. */
  readonly unforgotten: number;
}

/**
 * Opens an archive that was claimed. Purges that were decided are carried out on this node before anything else: the folder
 * may have been a copy from before, and whoever decided them may never have come to it. Then what somebody asked to be
 * forgotten is decided and carried out, while nothing else commits.
 *
 * @throws purge-interrupted when the signal was aborted; purge-damaged; as `takeOver`
 */
export async function openHeld(options: OpenHeldOptions): Promise<OpenedArchive> {
  const { held } = options;
  const forgets = new FleetForgets(held);
  let { purges } = options;
  for (;;) {
    const stored = await readArchive(held.registry, held.lease.archive);
    if (stored === undefined) throw archiveError('log-fenced', { commit: null, reason: 'refused' });
    purges ??= new FleetPurges(held, stored);
    const writer = await takeOver({ ...options, stored, purges });
    const unforgotten = await carriedOut(writer, forgets, options);
    if (unforgotten !== undefined) return { writer, purges, unforgotten };
  }
}

/** Returns how many requests are left when nothing is left to carry out; undefined if the writer was closed for that. */
async function carriedOut(
  writer: Writer,
  forgets: FleetForgets,
  options: OpenHeldOptions,
): Promise<number | undefined> {
  try {
    for (;;) {
      const done = await finishPurge(options, writer);
      if (done?.closed === true) return undefined;
      if (done !== undefined) continue;
      const decided = await forgets.decide(writer, options);
      if (decided !== 'decided') return decided;
    }
  } catch (error) {
    await writer.close();
    throw error;
  }
}
