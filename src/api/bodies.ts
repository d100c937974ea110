import { createHash, type Hash, randomUUID } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoName } from '../errors/mailkeep-error.ts';
import { originError } from '../errors/origin.ts';

/** A body that went to a file, which is the receiver's to delete. */
export interface FileBody {
  readonly kind: 'file';
  readonly path: string;
  readonly size: number;
  /** Lower-case hexadecimal SHA-256, computed as the bytes went by. */
  readonly sha256: string;
}

export interface BufferBody {
  readonly kind: 'buffer';
  readonly bytes: Buffer;
}

export type Body = BufferBody | FileBody;

/** Takes the bytes of one answer as they come. */
export interface BodyTaker {
  /** Takes a chunk; `false` asks the sender to pause until `resume` (see the constructor) is called. */
  take(chunk: Buffer): boolean;
  finish(): Body | Promise<Body>;
  /** Gives up and leaves nothing behind. Never throws. */
  discard(): void | Promise<void>;
}

/** Collects in memory. Copies, because a chunk is a view of a larger buffer that would live as long. */
export class MemoryTaker implements BodyTaker {
  readonly #exact: Buffer | null;
  readonly #chunks: Buffer[] = [];
  #received = 0;

  /** @param expected Content-Length, where it was sent and is below the ceiling */
  constructor(expected: number | null) {
    this.#exact = expected === null ? null : Buffer.allocUnsafe(expected);
  }

  take(chunk: Buffer): boolean {
    if (this.#exact === null) this.#chunks.push(chunk);
    else chunk.copy(this.#exact, this.#received);
    this.#received += chunk.length;
    return true;
  }

  finish(): BufferBody {
    const bytes =
      this.#exact === null ? Buffer.concat(this.#chunks) : this.#exact.subarray(0, this.#received);
    return { kind: 'buffer', bytes };
  }

  discard(): void {
    this.#chunks.length = 0;
  }
}

/** Bytes on their way to the file before the sender is asked to pause. */
const UNWRITTEN_BYTES = 1024 * 1024;

interface SpoolTakerOptions {
  readonly dir: string;
  readonly inMemoryLimit: number;
  readonly resume: () => void;
  readonly fail: (error: Error) => void;
}

/**
 * Collects in memory up to a limit, and beyond it in a file of mode 0600. Never holds more than the limit and a
 * little in memory.
 */
export class SpoolTaker implements BodyTaker {
  #chunks: Buffer[] = [];
  #unwritten = 0;
  #size = 0;
  #file: SpoolFile | undefined;
  #failure: Error | undefined;
  #writing: Promise<void> | undefined;

  constructor(private readonly options: SpoolTakerOptions) {}

  take(chunk: Buffer): boolean {
    this.#chunks.push(chunk);
    this.#unwritten += chunk.length;
    this.#size += chunk.length;
    if (this.#size <= this.options.inMemoryLimit) return true;
    this.#writing ??= this.#drain();
    return this.#unwritten < UNWRITTEN_BYTES;
  }

  async finish(): Promise<Body> {
    if (this.#file === undefined) {
      const bytes = Buffer.concat(this.#chunks);
      this.#chunks = [];
      return { kind: 'buffer', bytes };
    }
    // A drain that was running may have ended before the last chunks came.
    while (this.#writing !== undefined) await this.#writing;
    if (this.#unwritten > 0) await this.#drain();
    if (this.#failure !== undefined) throw this.#failure;
    const { path, opened, hash } = this.#file;
    await (await opened).close();
    return { kind: 'file', path, size: this.#size, sha256: hash.digest('hex') };
  }

  async discard(): Promise<void> {
    this.#chunks = [];
    this.#unwritten = 0;
    if (this.#file === undefined) return;
    const { path, opened } = this.#file;
    this.#file = undefined;
    try {
      await this.#writing;
      await (await opened).close();
    } catch {
      // Why it is discarded is already known; that it cannot be closed as well adds nothing.
    }
    await rm(path, { force: true }).catch(() => {});
  }

  /** Writes the chunks that have arrived until none is left. A failure is passed on at once, so that no more is sent. */
  async #drain(): Promise<void> {
    try {
      this.#file ??= this.#create();
      const file = await this.#file.opened;
      while (this.#chunks.length > 0) {
        const bytes = Buffer.concat(this.#chunks);
        this.#chunks = [];
        this.#file.hash.update(bytes);
        // writeFile on a handle continues where the last call ended, and writes every byte.
        await file.writeFile(bytes);
        this.#unwritten -= bytes.length;
        this.options.resume();
      }
    } catch (cause) {
      this.#failure = spoolError(this.options.dir, cause);
      this.options.fail(this.#failure);
    } finally {
      this.#writing = undefined;
    }
  }

  #create(): SpoolFile {
    const path = join(this.options.dir, `source-${randomUUID()}.tmp`);
    return { path, opened: open(path, 'wx', 0o600), hash: createHash('sha256') };
  }
}

interface SpoolFile {
  readonly path: string;
  readonly opened: Promise<FileHandle>;
  readonly hash: Hash;
}

function spoolError(dir: string, cause: unknown): Error {
  return originError('spool-failed', { dir, reason: errnoName(cause) }, { cause });
}
