import { existsSync, rmSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import { logWriteFailed } from '../archive/errors.ts';
import { FOLDER_MODE } from '../archive/format.ts';
import { openCatalog, type WritableCatalog } from '../catalog/catalog.ts';
import { catalogFile } from '../catalog/database.ts';
import { readCatalogHead } from '../catalog/implied.ts';
import { isUnusableCatalog } from '../catalog/open-writer.ts';
import { errnoOf, MailkeepError } from '../core/errors.ts';
import { makeFolders } from '../core/files.ts';
import { openState, stateFile } from '../core/state.ts';
import { deflated } from './packing.ts';

/** Returns the folder for copies of the databases of an archive that is imported. */
export function scratchFolder(cache: string, logId: Buffer): string {
  return path.join(cache, `importing-${logId.toString('hex')}`);
}

/** Removes what a killed import has left in that folder. */
export function removeScratch(cache: string, logId: Buffer): void {
  rmSync(scratchFolder(cache, logId), { recursive: true, force: true });
}

/**
 * Copies of an archive's databases: SQLite writes into a folder even to read, and the folder of an archive that is imported
 * stays as it is. They have the text of messages, so they are removed afterwards, and before the next import.
 */
export class Scratch {
  private constructor(readonly dir: string) {}

  /**
   * @param dir a folder of its own
   * @throws `log-write-failed` for what the disk refuses
   */
  static async copyOf(archive: string, dir: string): Promise<Scratch> {
    const scratch = new Scratch(dir);
    scratch.remove();
    try {
      makeFolders(dir, FOLDER_MODE);
      for (const file of [catalogFile(archive), stateFile(archive)]) {
        for (const one of [file, `${file}-wal`]) {
          if (existsSync(one)) await copyFile(one, path.join(dir, path.basename(one)));
        }
      }
      return scratch;
    } catch (error) {
      scratch.remove();
      if (errnoOf(error) === undefined) throw error;
      throw logWriteFailed(dir, error);
    }
  }

  /** The commit that the catalog has reached; undefined if it cannot be read. */
  reached() {
    return existsSync(catalogFile(this.dir)) ? readCatalogHead(this.dir) : undefined;
  }

  /** Opens the catalog, brought to this program's version. Undefined if there is none that can be used. */
  async catalog(): Promise<WritableCatalog | undefined> {
    if (!existsSync(catalogFile(this.dir))) return undefined;
    try {
      return await openCatalog(this.dir, catalogFile(this.dir));
    } catch (error) {
      if (!(error instanceof MailkeepError) || !isUnusableCatalog(error)) throw error;
      return undefined;
    }
  }

  /** Returns what the archive remembers apart from its log, as a registry has it. Undefined if there is nothing. */
  async memory(): Promise<Buffer | undefined> {
    if (!existsSync(stateFile(this.dir))) return undefined;
    const state = openState(this.dir);
    try {
      return await deflated(state.travelling());
    } finally {
      state.close();
    }
  }

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}
