import type { Writer } from '../engine/archive/writer.ts';
import type { EngineContext } from '../engine/context.ts';
import { finishPurge } from '../engine/purge.ts';
import { logFenced } from '../errors/archive.ts';
import { readArchive } from '../registry/reading.ts';
import { FleetPurges } from './purges.ts';
import { type TakeOverOptions, takeOver } from './take-over.ts';

export interface OpenHeldOptions extends Omit<TakeOverOptions, 'stored' | 'purges'> {
  /** What was decided and is not finished; of an earlier opening under the same claim, if there was one. */
  readonly purges?: FleetPurges;
  readonly report: EngineContext['report'];
}

/** An archive that this session writes, and its purges, which last longer than the writer. */
export interface OpenedArchive {
  readonly writer: Writer;
  readonly purges: FleetPurges;
}

/**
 * Opens an archive that was claimed. Purges that were decided are carried out on this node before anything else: the folder
 * may have been a copy from before, and whoever decided them may never have come to it.
 *
 * @throws purge-interrupted when the signal was aborted; purge-damaged; as `takeOver`
 */
export async function openHeld(options: OpenHeldOptions): Promise<OpenedArchive> {
  const { held, signal, report } = options;
  let { purges } = options;
  for (;;) {
    const stored = await readArchive(held.registry, held.lease.archive);
    if (stored === undefined) throw logFenced(null, 'refused');
    purges ??= new FleetPurges(held, stored);
    const writer = await takeOver({ ...options, stored, purges });
    const isOpen = await carriedOut(writer, { signal, report });
    if (isOpen) return { writer, purges };
  }
}

/** Returns whether the writer is still open, when nothing is left to carry out; if not, more may be left. */
async function carriedOut(
  writer: Writer,
  context: Pick<EngineContext, 'signal' | 'report'>,
): Promise<boolean> {
  try {
    for (;;) {
      const done = await finishPurge(context, writer);
      if (done === undefined) return true;
      if (done.closed) return false;
    }
  } catch (error) {
    await writer.close();
    throw error;
  }
}
