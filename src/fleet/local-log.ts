import { existsSync } from 'node:fs';
import { archiveError } from '../archive/errors.ts';
import type { FileLayer } from '../archive/file-system.ts';
import { logFolder, segmentPath } from '../archive/format.ts';
import { convertSyncErrors, convertWriteErrors } from '../archive/hot-segment.ts';
import type { LogWriter } from '../archive/log-writer.ts';
import {
  openReplicaLog,
  type ReplicaLogOptions,
  writeMissingBytes,
} from '../archive/log-writer.ts';
import type { MissingBytes } from '../archive/recovery.ts';
import { listSegments } from '../archive/segment-files.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import type { UploadingStore } from '../copies/object-store.ts';
import type { StoredArchive } from '../registry/reading.ts';
import { rawBatch, rawChunk } from './chunks.ts';
import { FleetDurability } from './durability.ts';
import type { HeldArchive } from './held-archive.ts';
import { logEndOf, type Manifest, type Piece } from './manifest.ts';
import type { FleetPurges } from './purges.ts';
import { lengthOf } from './segments.ts';
import type { Patience } from './settling.ts';
import { verifiedBytes } from './verified-bytes.ts';

/** What the local copy of a log is made of, and what is written to it from then on. */
export interface LogSource {
  readonly held: HeldArchive;
  readonly stored: StoredArchive;
  readonly purges: FleetPurges;
  readonly objects: UploadingStore;
  readonly dir: string;
  readonly files: FileLayer;
  /** How long it is tried to settle what is unknown. */
  readonly patience: Patience;
  /** Returns milliseconds since the epoch. */
  readonly now: () => number;
  readonly signal: AbortSignal;
  /** Told what the folder had beyond the end of the log, and where it is now. */
  readonly onAside?: ReplicaLogOptions['onTail'];
}

/** Bytes supplied once are right, unless the disk gives back others than it was given. */
const MOST_SUPPLIES = 3;

/**
 * Removes the files of segments that the log does not have in this form: generations that another holder replaced, which may
 * hold what was purged, and sealed ones that nobody published, also under the name of one that another holder published.
 *
 * @throws `log-write-failed`, `log-sync-failed`
 */
export async function removeOthers(
  files: FileLayer,
  dir: string,
  { sealed, pieces }: Manifest,
): Promise<void> {
  const unsealed = new Set(pieces.map(({ segment }) => segment));
  let isChanged = false;
  for (const [segment, generations] of existsSync(logFolder(dir)) ? listSegments(files, dir) : []) {
    const cover = sealed.get(segment);
    const kept = cover?.generation ?? (unsealed.has(segment) ? 1 : undefined);
    if (kept === undefined) continue;
    for (const generation of generations) {
      const file = segmentPath(dir, { segment, generation });
      const isLike = cover === undefined || lengthOf(files, file) === cover.bytes;
      if (generation === kept && isLike) continue;
      await convertWriteErrors(file, 0, () => files.remove(file));
      isChanged = true;
    }
  }
  if (isChanged) await convertSyncErrors(logFolder(dir), () => files.syncFolder(logFolder(dir)));
}

/**
 * Opens the log of a folder, whose unsealed segments are made what the registry says.
 *
 * @param catalog its commit has to be one of the log
 * @throws what `openLogAtEnd` and `supplyBytes` throw, `log-diverged` among it; object-missing, object-damaged, and the other
 *   errors of the object store; the signal's reason
 */
export async function openLog(
  options: LogSource,
  manifest: Manifest,
  catalog: Pick<WritableCatalog, 'reached'>,
): Promise<LogWriter> {
  const { held, stored, purges, dir, files, now, patience, onAside } = options;
  const rawOf = (piece: Piece) => rawPiece(options, piece);
  const end = await logEndOf(stored, manifest, rawOf);
  const { number, hash } = catalog.reached();
  const opening: ReplicaLogOptions = {
    ...{ dir, now, end, files, durability: new FleetDurability(held, patience, purges) },
    ...(number === 0 ? {} : { expected: { number, hash } }),
    ...(onAside === undefined ? {} : { onTail: onAside }),
  };
  for (let supplies = 0; ; supplies += 1) {
    const found = await openReplicaLog(opening);
    if (found.is === 'open') return found.log;
    const [first] = found.missing;
    if (supplies === MOST_SUPPLIES && first !== undefined) {
      const { segment, from: offset } = first;
      throw archiveError('log-damaged', { file: logFolder(dir), segment, offset, reason: 'chain' });
    }
    for (const missing of found.missing) {
      await writeMissingBytes(opening, missing, bytesOf(missing, manifest, rawOf));
    }
  }
}

/** Yields what a folder lacks of a segment, piece by piece. */
async function* bytesOf(
  { segment, from, until }: MissingBytes,
  { pieces }: Manifest,
  rawOf: (piece: Piece) => Promise<Buffer>,
): AsyncGenerator<Buffer> {
  for (const piece of pieces) {
    if (piece.segment !== segment || piece.at >= until) continue;
    if (piece.until !== undefined && piece.until <= from) continue;
    const raw = await rawOf(piece);
    yield raw.subarray(Math.max(0, from - piece.at), until - piece.at);
  }
}

async function rawPiece({ objects, signal }: LogSource, piece: Piece): Promise<Buffer> {
  if (piece.held.by === 'tail') return rawBatch(piece.held.batch);
  const { cover } = piece.held;
  const stored: Buffer[] = [];
  for await (const bytes of verifiedBytes(objects, cover, signal)) stored.push(bytes);
  return rawChunk(cover, Buffer.concat(stored), piece.until);
}
