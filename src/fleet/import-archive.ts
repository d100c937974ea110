import { randomUUID } from 'node:crypto';
import { realFiles, requireArchive } from '../archive/file-system.ts';
import { SEGMENT_HEADER_BYTES } from '../archive/format.ts';
import { withLock } from '../archive/lock.ts';
import { purgeJournal } from '../archive/purge-journal.ts';
import {
  checkExpectedHash,
  type ExpectedCommit,
  requireExpectedCommit,
} from '../archive/recovery.ts';
import type { ChainState } from '../archive/segment-reader.ts';
import type { UploadingStore } from '../copies/object-store.ts';
import { fleetError } from '../registry/errors.ts';
import {
  beginImport,
  type ImportedEnd,
  type ImportedExtras,
  resumeImport,
} from '../registry/imports.ts';
import type { Head } from '../registry/outcome.ts';
import { accountOfLog } from '../registry/overview.ts';
import { readArchive } from '../registry/reading.ts';
import type { Registry } from '../registry/registry.ts';
import type { AddedAccount } from './add-account.ts';
import { HeldArchive } from './held-archive.ts';
import { LocalLog, type LocalSegment } from './import-log.ts';
import { Scratch, scratchFolder } from './import-scratch.ts';
import { Importer } from './importer.ts';
import { ObjectNames, type Random } from './object-names.ts';
import { type FleetKeys, sealSecret } from './secrets.ts';
import { uploadSnapshot } from './snapshots.ts';
import type { Uploading } from './uploads.ts';

export interface ImportOptions {
  readonly registry: Registry;
  /** The UUID of the fleet. */
  readonly fleet: string;
  readonly objects: UploadingStore;
  /** The folder of the archive: it is locked and read, and stays as it is. */
  readonly dir: string;
  /** The folder of this node's copies: copies of the archive's databases are there for a while. */
  readonly cache: string;
  readonly tenant: string;
  readonly name: string;
  /** Returns settings and secrets; asked only if the account is not there yet. */
  readonly account: () => Promise<Pick<AddedAccount, 'settings' | 'secrets'>>;
  readonly keys: FleetKeys;
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Told before each segment how many were stored. */
  readonly onProgress?: (progress: { readonly segments: number; readonly of: number }) => void;
}

/** What was imported. */
export interface ImportedArchive {
  readonly archive: number;
  /** `already`: an earlier import had ended. */
  readonly was: 'new' | 'continued' | 'already';
  readonly commits: number;
  readonly segments: number;
  /** Objects with mail. */
  readonly uploaded: number;
  readonly kept: number;
  /** Commits in PostgreSQL. */
  readonly tail: number;
  /** Whether the fleet has the catalog, and what the archive remembers: otherwise the first node makes them. */
  readonly hasCatalog: boolean;
  readonly hasMemory: boolean;
}

/** What an open segment has at most so that its commits go to PostgreSQL; more is a chunk at once. */
const TAIL_RAW_BYTES = 1024 * 1024;
/** Looks at what the fleet has of the log: others may change that at the same moment. */
const MOST_LOOKS = 3;

/**
 * Copies an archive into a fleet: sealed segments are uploaded and read back, then the rest, and at last the head moves in one
 * transaction. Until then, nobody can claim the account. An interrupted import is continued by the next one, which keeps what
 * was verified. The account has the identity of the log, so that a log is in a fleet once.
 *
 * @throws usage-no-archive, archive-in-use; archive-format-newer; `log-damaged`, `log-ends-early`, `log-diverged`; the errors
 *   of its folder
 * @throws fleet-import-purge; fleet-account-exists; fleet-log-exists; fleet-import-lost; what `account` throws; the errors of
 *   the registry and the object store; the signal's reason
 */
export async function importArchive(options: ImportOptions): Promise<ImportedArchive> {
  const { dir, cache } = options;
  requireArchive(dir);
  return withLock(dir, async () => {
    const log = LocalLog.open(realFiles, dir);
    if ((await purgeJournal(realFiles, dir).read()) !== undefined) {
      throw fleetError('fleet-import-purge', { dir });
    }
    const found = await openAccount(options, log);
    if (!('head' in found)) return found;
    const scratch = await Scratch.copyOf(dir, scratchFolder(cache, log.id));
    try {
      return await importLog(options, found, log, scratch);
    } finally {
      scratch.remove();
    }
  });
}

/** The account that this importer holds. */
interface Begun {
  readonly was: 'new' | 'continued';
  readonly session: string;
  readonly head: Head;
}

/** Begins an import or continues one. Returns what there is if it has ended. */
async function openAccount(
  { registry, fleet, keys, tenant, name, account }: ImportOptions,
  log: LocalLog,
): Promise<Begun | ImportedArchive> {
  for (let looks = 1; looks <= MOST_LOOKS; looks += 1) {
    const found = await accountOfLog(registry, log.id);
    const session = randomUUID();
    if (found !== undefined && (found.tenant !== tenant || found.name !== name)) {
      throw fleetError('fleet-log-exists', { account: found.name, tenant: found.tenant });
    }
    if (found !== undefined && found.state !== 'importing') return already(found);
    if (found !== undefined) {
      const resumed = await resumeImport(registry, found.archive, session);
      if (resumed.outcome === 'committed') return { was: 'continued', session, ...resumed };
      continue;
    }
    const { settings, secrets } = await account();
    const genesis = Buffer.from(log.genesis.hash, 'hex');
    const added = { tenant, name, logId: log.id, genesis, settings };
    const begun = await beginImport(registry, added, session, (archive) =>
      [...secrets].map(([purpose, secret]) =>
        sealSecret(keys, { fleet, archive, purpose }, secret),
      ),
    );
    if (begun.outcome === 'committed') return { was: 'new', session, ...begun };
    if (begun.by === 'name') throw fleetError('fleet-account-exists', { account: name, tenant });
  }
  throw fleetError('fleet-import-lost', { account: name, tenant });
}

function already({ archive, commits }: { archive: number; commits: number }): ImportedArchive {
  return {
    ...{ archive, commits, was: 'already', segments: 0, uploaded: 0, kept: 0, tail: 0 },
    ...{ hasCatalog: false, hasMemory: false },
  };
}

async function importLog(
  options: ImportOptions,
  { was, session, head }: Begun,
  log: LocalLog,
  scratch: Scratch,
): Promise<ImportedArchive> {
  const { registry, fleet, objects, random, signal, tenant, name } = options;
  const { archive } = head;
  const held = new HeldArchive(registry, session, { head, entry: '' });
  const uploading: Uploading = { held, objects, signal };
  const names = new ObjectNames({ fleet, logId: log.id }, random);
  const covers = was === 'new' ? [] : ((await readArchive(registry, archive))?.covers ?? []);
  const importer = new Importer({
    ...{ uploading, names, logId: log.id, covers },
    account: { account: name, tenant },
  });
  const seen = scratch.reached();
  const { end, tail } = await storeSegments(options, importer, log, seen);
  await importer.trim(end.headNumber);
  const extras = await extrasOf(uploading, { log, end, scratch, names });
  await importer.finish(end, extras);
  const { uploaded, kept } = importer;
  return {
    ...{ archive, was, commits: end.headNumber, segments: log.segments.length, uploaded, kept },
    ...{ tail, hasCatalog: extras.snapshot !== undefined, hasMemory: extras.memory !== undefined },
  };
}

/** Stores the segments of a log, one after the other, and returns its end. */
async function storeSegments(
  { signal, dir, onProgress }: ImportOptions,
  importer: Importer,
  log: LocalLog,
  seen: ExpectedCommit | undefined,
): Promise<{ readonly end: ImportedEnd; readonly tail: number }> {
  const of = log.segments.length;
  let [after, time, tail]: [ChainState, number, number] = [log.genesis, 0, 0];
  let end = emptyEnd(1, after, time);
  for (let segment = 1; segment <= (log.segments.at(-1) ?? 0); segment += 1) {
    signal.throwIfAborted();
    onProgress?.({ segments: segment - 1, of });
    const opened = await log.openSegment(segment, after, seen);
    try {
      if (opened.is === 'loose' && isTail(opened, segment === log.segments.at(-1))) {
        tail = opened.loose.commits.length;
        await importer.tail(opened.loose);
      } else if (opened.is === 'loose') await importer.chunks(opened.loose);
      else await importer.sealed(opened.sealed);
      const before = after;
      ({ after, time } = endOf(opened, after, time));
      end =
        opened.is === 'sealed'
          ? emptyEnd(segment + 1, after, time)
          : {
              ...emptyEnd(segment, before, time),
              ...{ headNumber: after.number, headHash: Buffer.from(after.hash, 'hex') },
              ...{ hotOffset: opened.loose.end.offset, hotOrdinal: opened.loose.end.ordinal },
            };
      checkExpectedHash(after, seen, dir);
    } finally {
      if (opened.is === 'sealed') opened.sealed.close();
      else opened.loose.close();
    }
  }
  requireExpectedCommit(dir, seen, end.headNumber);
  return { end, tail };
}

function isTail({ loose }: Extract<LocalSegment, { is: 'loose' }>, isLast: boolean): boolean {
  return isLast && loose.end.offset <= TAIL_RAW_BYTES;
}

function endOf(opened: LocalSegment, after: ChainState, time: number) {
  if (opened.is === 'sealed') {
    const { range, lastTime } = opened.sealed;
    return { after: stateOf(range.last, range.lastHash), time: lastTime };
  }
  const last = opened.loose.commits.at(-1);
  return last === undefined
    ? { after, time }
    : { after: stateOf(last.number, last.hash), time: last.time };
}

function stateOf(number: number, hash: Buffer): ChainState {
  return { number, hash: hash.toString('hex') };
}

/** The end of a log whose open segment has no commit yet. */
function emptyEnd(segment: number, after: ChainState, time: number): ImportedEnd {
  const hash = Buffer.from(after.hash, 'hex');
  return {
    ...{ headNumber: after.number, headHash: hash, headTime: time },
    ...{ hotSegment: segment, hotOffset: SEGMENT_HEADER_BYTES, hotOrdinal: 0 },
    ...{ hotPrevious: after.number, hotPreviousHash: hash },
  };
}

interface ExtrasSource {
  readonly log: LocalLog;
  readonly end: ImportedEnd;
  readonly scratch: Scratch;
  readonly names: ObjectNames;
}

/** Brings the catalog, if it has all of the log, and what the archive remembers. The first holder can do without. */
async function extrasOf(
  uploading: Uploading,
  { log, end, scratch, names }: ExtrasSource,
): Promise<ImportedExtras> {
  const memory = await scratch.memory();
  const others = memory === undefined ? {} : { memory };
  const catalog = await scratch.catalog();
  try {
    const reached = catalog?.reached();
    const isAll =
      end.headNumber > 0 &&
      reached?.number === end.headNumber &&
      reached.hash === end.headHash.toString('hex');
    if (catalog === undefined || !isAll) return others;
    const source = { dir: scratch.dir, logId: log.id, catalog, names };
    const snapshot = await uploadSnapshot(uploading, source);
    return snapshot.outcome === 'committed' ? { ...others, snapshot } : others;
  } finally {
    catalog?.close();
  }
}
