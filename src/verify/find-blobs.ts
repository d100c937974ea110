import type { FileLayer } from '../archive/files/file-layer.ts';
import { isCount } from '../archive/format/json-shape.ts';
import { filesOverBadSectors } from '../archive/mend/bad-sectors.ts';
import { type LogReader, openLogReader } from '../archive/read/log-reader.ts';
import { type BlobPositions, openBlobPositions } from '../catalog/blob-positions.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import type { BlobHash } from '../mail/words.ts';

/**
 * Finds blobs at the positions in an archive's catalog. A position is only a hint: the bytes are used if they have the
 * hash, and a caller that finds nothing here waits until the log itself has shown where they are.
 */
export class BlobsByCatalog {
  #opened: { readonly positions: BlobPositions; readonly reader: LogReader } | undefined;
  #useless = false;

  constructor(
    private readonly files: FileLayer,
    private readonly dir: string,
  ) {}

  /** @throws system errors of reading the log */
  find(hash: BlobHash): Buffer | undefined {
    if (!this.#hasPosition(hash)) return undefined;
    try {
      return this.#opened?.reader.readBlob(hash);
    } catch (error) {
      if (error instanceof MailkeepError) return undefined;
      throw error;
    }
  }

  close(): void {
    this.#opened?.reader.close();
    this.#opened?.positions.close();
    this.#opened = undefined;
  }

  #hasPosition(hash: BlobHash): boolean {
    if (this.#useless) return false;
    try {
      this.#opened ??= this.#open();
      const at = this.#opened.positions.of(hash);
      // A damaged row has anything there, and the system takes offsets only.
      return at !== undefined && [at.segment, at.ordinal, at.offset].every(isCount);
    } catch (error) {
      // It is missing, damaged, or of another version: the comparison says so.
      if (!(error instanceof MailkeepError)) throw error;
      this.#useless = true;
      return false;
    }
  }

  #open() {
    const { dir, files } = this;
    const positions = openBlobPositions(dir);
    try {
      const locator = { blob: positions.of, message: () => undefined };
      const reader = openLogReader({ dir, files: filesOverBadSectors(files), locator });
      return { positions, reader };
    } catch (error) {
      positions.close();
      throw error;
    }
  }
}
