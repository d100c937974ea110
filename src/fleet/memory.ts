import { existsSync, rmSync } from 'node:fs';
import { promisify } from 'node:util';
import { deflate, inflate } from 'node:zlib';
import { type FileLayer, replaceFile } from '../archive/file-system.ts';
import { convertWriteErrors } from '../archive/hot-segment.ts';
import type { Writer } from '../catalog/open-writer.ts';
import { errnoName } from '../core/errors.ts';
import { stateFile } from '../core/state.ts';
import { saveMemory } from '../registry/fleet.ts';
import type { Outcome } from '../registry/outcome.ts';
import type { StoredArchive } from '../registry/reading.ts';
import type { FolderCatalog } from './best-catalog.ts';
import { fleetArchiveError } from './errors.ts';
import type { HeldArchive } from './held-archive.ts';
import { underLease } from './under-lease.ts';

const deflated = promisify(deflate);
const inflated = promisify(inflate);

/** Bytes of a state that is taken from the registry, at most. */
const MOST_STATE_BYTES = 256 * 1024 * 1024;

/**
 * Saves what a new holder may have of the state, so that it need not learn it again.
 *
 * @returns what refused it, if something did: the lease is lost, or there was a purge since
 * @throws outcome-unknown: it was saved or not, and can be saved again; the other errors of the registry; `catalog-io`
 */
export async function storeMemory(
  held: HeldArchive,
  { state, log }: Pick<Writer, 'state' | 'log'>,
): Promise<Outcome> {
  // Together with the content: what is decided from here on refuses it.
  const { purges } = held.head;
  const { number } = log.last;
  const bytes = await deflated(state.travelling());
  return await underLease(held, (lease) =>
    saveMemory(held.registry, lease, { number, bytes, purges }),
  );
}

/** Returns whether the state in a folder may stay: it is of this log, and no older than what the registry has. */
export function keepsState(
  found: FolderCatalog | undefined,
  { memory, head }: Pick<StoredArchive, 'memory' | 'head'>,
): boolean {
  // It says what was stored, and is believed: of a log that nobody accepted, it would hide mail from the next pass.
  if (found?.isKnown !== true || (found.number === 0 && head.headNumber > 0)) return false;
  return memory === undefined || memory.number <= found.number;
}

/** Removes the state of a folder. */
export function removeState(dir: string): void {
  // The database before its log: SQLite would replay a log that is left next to another database.
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${stateFile(dir)}${suffix}`, { force: true });
}

/**
 * Puts the state that the registry has into a folder that has none.
 *
 * @throws memory-damaged: the folder has none then; `disk-full`, `log-write-failed`
 */
export async function bringState(
  files: FileLayer,
  dir: string,
  { memory, head }: Pick<StoredArchive, 'memory' | 'head'>,
): Promise<void> {
  const file = stateFile(dir);
  if (memory === undefined || existsSync(file)) return;
  // What may be left of an earlier database would be replayed into this one.
  removeState(dir);
  const bytes = await inflatedState(memory.bytes, head.archive);
  await convertWriteErrors(file, bytes.length, () => replaceFile(files, file, bytes));
}

async function inflatedState(bytes: Buffer, archive: number): Promise<Buffer> {
  try {
    return await inflated(bytes, { maxOutputLength: MOST_STATE_BYTES });
  } catch (error) {
    throw fleetArchiveError('memory-damaged', { archive, reason: errnoName(error) }, error);
  }
}
