import { randomUUID } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { writing } from '../../transfer/export-files.ts';
import type { Source } from '../../transfer/plan-export.ts';

const PIECE_BYTES = 256 * 1024;

/**
 * Sources that are brought here before a byte of them is used, in files without a name: a process that is killed leaves
 * nothing of them.
 */
export class BroughtFiles {
  readonly #open = new Set<FileHandle>();

  /** @throws export-disk-full, export-write-failed; what `pieces` throws */
  async bring(pieces: AsyncIterable<Buffer>): Promise<Source> {
    const file = path.join(tmpdir(), `.mailkeep-${randomUUID()}.tmp`);
    const handle = await writing(file, () => open(file, 'wx+', 0o600));
    this.#open.add(handle);
    try {
      await writing(file, () => unlink(file));
      for await (const piece of pieces) await writing(file, () => handle.appendFile(piece));
    } catch (error) {
      await this.#close(handle);
      throw error;
    }
    return { pieces: () => this.#pieces(handle) };
  }

  async close(): Promise<void> {
    for (const handle of this.#open) await this.#close(handle);
  }

  /** Once they were read to their end, the file is gone. */
  async *#pieces(handle: FileHandle): AsyncGenerator<Buffer> {
    for (let at = 0; ; ) {
      const { bytesRead, buffer } = await handle.read(
        Buffer.alloc(PIECE_BYTES),
        0,
        PIECE_BYTES,
        at,
      );
      if (bytesRead === 0) break;
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
    await this.#close(handle);
  }

  async #close(handle: FileHandle): Promise<void> {
    this.#open.delete(handle);
    await handle.close();
  }
}
