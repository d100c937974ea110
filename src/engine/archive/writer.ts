import { rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { FOLDER_MODE } from '../../archive/format/layout.ts';
import { type ArchiveCodec, DEFAULT_CODEC } from '../../archive/format/stored-payload.ts';
import { type LogReader, openLogReader } from '../../archive/read/log-reader.ts';
import { localSegments } from '../../archive/read/segment-files.ts';
import type { SegmentStore } from '../../archive/read/segment-store.ts';
import { acquireLock } from '../../archive/write/lock.ts';
import { LogThread } from '../../archive/write/log-thread.ts';
import type { LogWriter } from '../../archive/write/log-writer.ts';
import { openLogWriter } from '../../archive/write/open-log-writer.ts';
import { type Sealer, sealerOnThread } from '../../archive/write/sealer.ts';
import { openCatalog, type WritableCatalog } from '../../catalog/catalog.ts';
import { locateCodec } from '../../config/located-fields.ts';
import { makeFolders } from '../../disk/make-folders.ts';
import { catchUp } from '../../indexer/fold-log.ts';
import type { PurgeJournal } from '../../retention/purge-journal.ts';
import { openState, type StateFile } from '../../state/state-file.ts';
import type { EngineContext } from '../context.ts';
import { refuseNetworkFileSystem } from './archive-folder.ts';

/** The archive as its one writer has it. Close it whatever happens: that frees the lock. */
export interface Writer {
  readonly dataDir: string;
  readonly log: LogWriter;
  readonly sources: LogReader;
  readonly catalog: WritableCatalog;
  readonly state: StateFile;
  /** What sealed records are compressed with, as the configuration says. */
  readonly codec: ArchiveCodec;
  /** Rewrites segments, on a thread that starts when it is first needed, also after it was closed. */
  readonly sealer: Sealer;
  /** Where the files of segments are. */
  readonly segments: SegmentStore;
  /** Where a purge that was decided is written down until it is done; a file next to the log if not said. */
  readonly purges?: PurgeJournal;
  /** Where large sources wait on their way into the log. */
  readonly spoolDir: string;
  close(): Promise<void>;
}

/**
 * Takes the lock, opens log, catalog and state, and brings the catalog level with the log.
 *
 * @param configuredCodec `archive.codec` of a configuration that the command has loaded; otherwise it is located
 * @throws network-file-system, archive-in-use, and those of `locateCodec`; family `damage` when the log is not what was written: nothing was changed then
 */
export async function openWriter(
  context: Pick<EngineContext, 'globals' | 'surroundings' | 'signal' | 'now' | 'report'>,
  dataDir: string,
  configuredCodec?: ArchiveCodec,
): Promise<Writer> {
  const closers: (() => void | Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const { globals, surroundings, report } = context;
    const codec = configuredCodec ?? locateCodec(globals, surroundings) ?? DEFAULT_CODEC;
    refuseNetworkFileSystem(dataDir, surroundings.env);
    const lock = acquireLock(dataDir);
    closers.push(() => lock.release());
    const spoolDir = path.join(dataDir, 'tmp');
    // What a killed process left there belongs to nobody.
    rmSync(spoolDir, { recursive: true, force: true });
    makeFolders(spoolDir, FOLDER_MODE);
    const catalog = await openCatalog(dataDir);
    closers.push(() => catalog.close());
    const log = await openLogWriter({
      dir: dataDir,
      now: context.now,
      expected: catalog.reached(),
      // With one core, a thread would only add work.
      ...(availableParallelism() > 1 && { startThread: () => new LogThread() }),
      onTail: ({ file, bytes }) => report({ event: 'tail-put-aside', file, bytes }),
    });
    closers.push(() => log.close());
    const segments = localSegments;
    const { signal } = context;
    const { commits } = await catchUp({ dir: dataDir, segments, target: catalog, signal });
    if (commits > 0) report({ event: 'catalog-caught-up', commits });
    const state = openState(dataDir, (file) => report({ event: 'state-put-aside', file }));
    closers.push(() => state.close());
    const sealer = sealerOnThread();
    closers.push(() => sealer.close());
    const sources = openLogReader({ dir: dataDir, locator: catalog.locator, segments });
    closers.push(() => sources.close());
    const stores = { log, sources, catalog, state, segments };
    return { dataDir, ...stores, codec, sealer, spoolDir, close };
  } catch (error) {
    await close();
    throw error;
  }
}
