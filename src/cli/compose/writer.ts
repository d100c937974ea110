import { rmSync } from 'node:fs';
import path from 'node:path';
import { type ArchiveCodec, DEFAULT_CODEC } from '../../archive/compress-payload.ts';
import { FOLDER_MODE } from '../../archive/layout.ts';
import { acquireLock } from '../../archive/lock.ts';
import { type LogReader, openLogReader } from '../../archive/log-reader.ts';
import type { LogWriter } from '../../archive/log-writer.ts';
import { openLogWriter } from '../../archive/open-log-writer.ts';
import { type Sealer, sealerOnThread } from '../../archive/sealer.ts';
import { openCatalog, type WritableCatalog } from '../../catalog/catalog.ts';
import { openState, type StateFile } from '../../catalog/state.ts';
import { locateCodec } from '../../config/archive-codec.ts';
import { makeFolders } from '../../disk/make-folders.ts';
import { catchUp } from '../../indexer/catch-up.ts';
import { bytes, counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { stateAsideWarning } from '../state-aside.ts';
import { mindFileSystem } from './network-file-system.ts';

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
  context: Pick<CommandContext, 'globals' | 'surroundings' | 'notices' | 'signal' | 'now'>,
  dataDir: string,
  configuredCodec?: ArchiveCodec,
): Promise<Writer> {
  const closers: (() => void | Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const { globals, surroundings } = context;
    const codec = configuredCodec ?? locateCodec(globals, surroundings) ?? DEFAULT_CODEC;
    mindFileSystem(dataDir, surroundings.env);
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
      onTail: ({ file: tail, bytes: length }) =>
        context.notices.warn(
          `the last run was cut off: ${bytes(length)} behind the last commit were put aside in ${tail}`,
        ),
    });
    closers.push(() => log.close());
    const { commits } = await catchUp({ dir: dataDir, target: catalog, signal: context.signal });
    if (commits > 0) context.notices.say(`The catalog caught up ${counted(commits, 'commit')}.`);
    const state = openState(dataDir, (aside) => context.notices.alert(stateAsideWarning(aside)));
    closers.push(() => state.close());
    const sealer = sealerOnThread();
    closers.push(() => sealer.close());
    const sources = openLogReader({ dir: dataDir, locator: catalog.locator });
    closers.push(() => sources.close());
    return { dataDir, log, sources, catalog, state, codec, sealer, spoolDir, close };
  } catch (error) {
    await close();
    throw error;
  }
}
