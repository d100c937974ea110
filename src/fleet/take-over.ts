import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { realFiles } from '../archive/files/real-files.ts';
import { FOLDER_MODE, logFolder, segmentPath } from '../archive/format/layout.ts';
import type { ArchiveCodec } from '../archive/format/stored-payload.ts';
import type { MissingBytes } from '../archive/read/known-end.ts';
import { openLogReader } from '../archive/read/log-reader.ts';
import { listSegments } from '../archive/read/segment-files.ts';
import { syncing, writing } from '../archive/write/hot-segment.ts';
import { acquireLock } from '../archive/write/lock.ts';
import type { LogWriter } from '../archive/write/log-writer.ts';
import { type AtEndOptions, openLogAtEnd, supplyBytes } from '../archive/write/open-at-end.ts';
import { sealerOnThread } from '../archive/write/sealer.ts';
import { openCatalog, type WritableCatalog } from '../catalog/catalog.ts';
import { catalogFile } from '../catalog/open.ts';
import { makeFolders } from '../disk/make-folders.ts';
import { isOfNoUse, removeCatalogs } from '../engine/archive/catalog-of-copy.ts';
import type { Writer } from '../engine/archive/writer.ts';
import { logDamaged, logFenced } from '../errors/archive.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { catchUp } from '../indexer/fold-log.ts';
import type { UploadingStore } from '../objects/store.ts';
import type { StoredArchive } from '../registry/reading.ts';
import { openState } from '../state/state-file.ts';
import { rawBatch, rawChunk } from './chunks.ts';
import { FleetDurability } from './durability.ts';
import type { HeldArchive } from './held-archive.ts';
import { logEndOf, type Manifest, manifestOf, type Piece } from './manifest.ts';
import type { ObjectNames } from './object-names.ts';
import type { PurgedRecords } from './publish-sealed.ts';
import { FleetStore } from './segments.ts';
import type { Patience } from './settling.ts';
import { fetchSnapshot } from './snapshots.ts';
import { verifiedBytes } from './verified-bytes.ts';

export interface TakeOverOptions {
  readonly held: HeldArchive;
  /** What the registry has of the archive, read since it was claimed. */
  readonly stored: StoredArchive;
  readonly objects: UploadingStore;
  readonly names: ObjectNames;
  /** The archive's folder on this node; it is made if it is not there. */
  readonly dir: string;
  readonly codec: ArchiveCodec;
  /** How long it is tried to settle what is unknown. */
  readonly patience: Patience;
  readonly unfinishedPurges: () => PurgedRecords;
  /** Returns milliseconds since the epoch. */
  readonly now: () => number;
  readonly signal: AbortSignal;
  /** Told what the folder had beyond the end of the log, and where it is now. */
  readonly onAside?: AtEndOptions['onTail'];
}

/** Kibibytes of pages: a worker has many catalogs open. */
const CACHE_KIB = 2_048;
/** Bytes supplied once are right, unless the disk gives back others than it was given. */
const MOST_SUPPLIES = 3;

/**
 * Opens an archive that was claimed: makes the folder of this node a copy of what the registry and the object store have, and
 * opens it for writing. Whatever the folder held before, from another holder or an earlier kill, and wherever this is cut off,
 * the next one comes to the same copy. Sealed segments are fetched when they are first needed.
 *
 * @throws `log-fenced` if the archive was lost meanwhile; archive-in-use; manifest-damaged, `log-damaged` and the rest of
 *   family `damage`: nothing was committed; the errors of the object store, the registry, the catalog and the disk
 */
export async function takeOver(options: TakeOverOptions): Promise<Writer> {
  const { held, stored, dir, codec, signal } = options;
  const closers: (() => void | Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    refuseOther(held, stored);
    const manifest = manifestOf(stored);
    makeFolders(dir, FOLDER_MODE);
    const lock = acquireLock(dir);
    closers.push(() => lock.release());
    const spoolDir = path.join(dir, 'tmp');
    rmSync(spoolDir, { recursive: true, force: true });
    makeFolders(spoolDir, FOLDER_MODE);
    const catalog = await openBestCatalog(options);
    closers.push(() => catalog.close());
    await removeOthers(dir, manifest);
    const log = await openLog(options, manifest, catalog);
    closers.push(() => log.close());
    const segments = await FleetStore.open({ ...options, files: realFiles });
    closers.push(() => segments.close());
    await catchUp({ dir, segments, target: catalog, signal });
    const state = openState(dir);
    closers.push(() => state.close());
    const sealer = sealerOnThread();
    closers.push(() => sealer.close());
    const sources = openLogReader({ dir, locator: catalog.locator, segments });
    closers.push(() => sources.close());
    const stores = { log, sources, catalog, state, segments };
    return { dataDir: dir, ...stores, codec, sealer, spoolDir, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** @throws `log-fenced` if what was read is no longer of this lease */
function refuseOther(held: HeldArchive, { head }: StoredArchive): void {
  if (head.epoch !== held.lease.epoch || head.holder !== held.session) {
    held.lose('lease');
    throw logFenced(null, 'refused');
  }
  held.moved(head);
}

/**
 * Opens the catalog that lacks least: the one in the folder if it is of this log, or the snapshot. Without either, an empty
 * one, into which the whole log is folded.
 */
async function openBestCatalog(options: TakeOverOptions): Promise<WritableCatalog> {
  const { dir, objects, signal, stored } = options;
  const { snapshot } = stored;
  const found = await openIfOfLog(dir, stored);
  if (found !== undefined) {
    if (snapshot === undefined || found.reached().number >= snapshot.number) return found;
    found.close();
  }
  await removeCatalogs(dir);
  if (snapshot !== undefined) await fetchSnapshot(objects, dir, snapshot, signal);
  return await openCatalog(dir, catalogFile(dir), { cacheKib: CACHE_KIB });
}

/**
 * Undefined where there is no catalog, or none that can be used, or where nobody can tell without reading the log whether the
 * commit that it has reached is one of this log.
 */
async function openIfOfLog(
  dir: string,
  stored: StoredArchive,
): Promise<WritableCatalog | undefined> {
  if (!existsSync(catalogFile(dir))) return undefined;
  let catalog: WritableCatalog | undefined;
  try {
    catalog = await openCatalog(dir, catalogFile(dir), { cacheKib: CACHE_KIB });
    const { number, hash } = catalog.reached();
    if (knownHash(stored, number) === hash) return catalog;
  } catch (error) {
    catalog?.close();
    if (!(error instanceof MailkeepError) || !isOfNoUse(error)) throw error;
    return undefined;
  }
  catalog.close();
  return undefined;
}

/** Returns the hash of a commit, where the registry has it. */
function knownHash({ covers, tail, head }: StoredArchive, number: number): string | undefined {
  if (number === head.headNumber) return head.headHash.toString('hex');
  const hash =
    tail.find((batch) => batch.number === number)?.hash ??
    covers.find(({ last }) => last === number)?.lastHash;
  return hash?.toString('hex');
}

/**
 * Removes the files of segments that the log does not have in this form: generations that another holder replaced, which may
 * hold what was purged, and sealed ones that nobody published.
 */
async function removeOthers(dir: string, { sealed, pieces }: Manifest): Promise<void> {
  const unsealed = new Set(pieces.map(({ segment }) => segment));
  let isChanged = false;
  for (const [segment, generations] of existsSync(logFolder(dir))
    ? listSegments(realFiles, dir)
    : []) {
    const kept = sealed.get(segment)?.generation ?? (unsealed.has(segment) ? 1 : undefined);
    if (kept === undefined) continue;
    for (const generation of generations) {
      if (generation === kept) continue;
      const file = segmentPath(dir, { segment, generation });
      await writing(file, 0, () => realFiles.remove(file));
      isChanged = true;
    }
  }
  if (isChanged) await syncing(logFolder(dir), () => realFiles.syncFolder(logFolder(dir)));
}

async function openLog(
  options: TakeOverOptions,
  manifest: Manifest,
  catalog: Pick<WritableCatalog, 'reached'>,
): Promise<LogWriter> {
  const { held, stored, dir, now, patience, onAside } = options;
  const rawOf = (piece: Piece) => rawPiece(options, piece);
  const end = await logEndOf(stored, manifest, rawOf);
  const { number, hash } = catalog.reached();
  const opening: AtEndOptions = {
    ...{ dir, now, end, files: realFiles, durability: new FleetDurability(held, patience) },
    ...(number === 0 ? {} : { expected: { number, hash } }),
    ...(onAside === undefined ? {} : { onTail: onAside }),
  };
  for (let supplies = 0; ; supplies += 1) {
    const found = await openLogAtEnd(opening);
    if (found.is === 'open') return found.log;
    const [first] = found.missing;
    if (supplies === MOST_SUPPLIES && first !== undefined) {
      const { segment, from: offset } = first;
      throw logDamaged({ file: logFolder(dir), segment, offset, reason: 'chain' });
    }
    for (const missing of found.missing) {
      await supplyBytes(opening, missing, bytesOf(missing, manifest, rawOf));
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

async function rawPiece({ objects, signal }: TakeOverOptions, piece: Piece): Promise<Buffer> {
  if (piece.held.by === 'tail') return rawBatch(piece.held.batch);
  const { cover } = piece.held;
  const stored: Buffer[] = [];
  for await (const bytes of verifiedBytes(objects, cover, signal)) stored.push(bytes);
  return rawChunk(cover, Buffer.concat(stored), piece.until);
}
