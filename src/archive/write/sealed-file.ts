import { hash as digest } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { type LogFile, writeAll } from '../files/file-layer.ts';
import {
  RECORD_HEADER_BYTES,
  type RecordSpace,
  STORED_KIND,
  writeRecordHeader,
} from '../format/headers.ts';
import {
  type Container,
  encodeFooter,
  encodeInner,
  encodeTrailer,
  innerLength,
  PURGED_BIT,
} from '../format/sealed-footer.ts';
import { type ArchiveCodec, compressPayload } from '../format/stored-payload.ts';

interface Layout {
  /** Small records are gathered in blocks of about this many bytes before compression. */
  readonly blockBytes: number;
  /** A record of this raw size or more stands alone: reading it needs no block. */
  readonly standaloneBytes: number;
}

/**
 * The larger a block, the better it compresses, and the longer one of its records takes to read. zstd inflates 512 KiB
 * in about half a millisecond, zlib 64 KiB in about 0.15 ms. See docs/performance.md.
 */
const LAYOUTS: Readonly<Record<ArchiveCodec, Layout>> = {
  zlib: { blockBytes: 64 * 1024, standaloneBytes: 64 * 1024 },
  zstd: { blockBytes: 512 * 1024, standaloneBytes: 256 * 1024 },
};

/** Compressions under way at a time, on the threads of the pool. Half of these stay free for files and addresses. */
const PENDING_JOBS = 2;
/** Bytes gathered before they are written. */
const OUTPUT_BYTES = 1024 * 1024;

/** A record to be put into a sealed file; without a payload it is a purged one. */
export interface SealedRecord {
  readonly kind: number;
  readonly rawLength: number;
  readonly hash: Buffer;
  readonly payload: Buffer | undefined;
}

interface StoredRecord {
  readonly kind: number;
  readonly flags: number;
  readonly rawLength: number;
  readonly hash: Buffer;
  readonly codec: number;
  readonly stored: Buffer;
}

/** A compression under way: of a block of `records` records, or of a record that stands alone. */
interface Job {
  readonly records: number;
  readonly job: Promise<StoredRecord>;
  /** The block's own, to be used again. */
  readonly memory: Buffer | undefined;
}

/** Writes the records of a sealed file behind its header, in order: blocks, standalone records, footer and trailer. */
export class SealedFileWriter {
  readonly #kinds: number[] = [];
  readonly #rawLengths: number[] = [];
  readonly #containers: Container[] = [];
  #block: Buffer | undefined;
  #blockBytes = 0;
  #blockRecords = 0;
  readonly #jobs: Job[] = [];
  /** Memory of blocks that are compressed, for the next ones. */
  readonly #spare: Buffer[] = [];
  #output: Buffer[] = [];
  #outputBytes = 0;
  /** Where the next record will stand. */
  #offset: number;
  #written: number;

  /** @param codec what records are compressed with; zstd only where FORMAT allows it (see `allowZstd`) */
  constructor(
    private readonly file: LogFile,
    private readonly space: RecordSpace,
    offset: number,
    private readonly codec: ArchiveCodec,
  ) {
    this.#offset = offset;
    this.#written = offset;
  }

  /** Takes a record; its payload may change once the promise has resolved. */
  async add(record: SealedRecord): Promise<void> {
    const { kind, rawLength, payload, hash } = record;
    this.#kinds.push(payload === undefined ? kind | PURGED_BIT : kind);
    this.#rawLengths.push(rawLength);
    if (payload !== undefined && rawLength >= LAYOUTS[this.codec].standaloneBytes) {
      await this.#endBlock();
      // A copy, since compression is still running when the caller reads the next payload.
      await this.#queue(0, this.#compressed(kind, Buffer.from(payload), hash));
      return;
    }
    const length = innerLength(rawLength, payload === undefined);
    this.#block ??= this.#spare.pop() ?? Buffer.allocUnsafeSlow(this.#mostBlockBytes);
    for (const part of encodeInner(record)) {
      part.copy(this.#block, this.#blockBytes);
      this.#blockBytes += part.length;
    }
    if (this.#blockBytes > this.#block.length) throw new Error(`no room for ${length} bytes`);
    this.#blockRecords += 1;
    if (this.#blockBytes >= LAYOUTS[this.codec].blockBytes) await this.#endBlock();
  }

  /** Writes everything out, footer and trailer included; returns the file's length. */
  async end(): Promise<number> {
    await this.#endBlock();
    while (this.#jobs.length > 0) await this.#settle();
    const footer = encodeFooter({
      kinds: Uint8Array.from(this.#kinds),
      rawLengths: Uint32Array.from(this.#rawLengths),
      containers: this.#containers,
    });
    const offset = this.#offset;
    const hash = digest('sha256', footer, 'buffer');
    this.#put(await this.#compressed(STORED_KIND.footer, footer, hash));
    this.#push(encodeTrailer(this.space, offset, this.#offset - offset));
    await this.#write();
    return this.#offset;
  }

  async #endBlock(): Promise<void> {
    const memory = this.#block;
    if (memory === undefined) return;
    const raw = memory.subarray(0, this.#blockBytes);
    const records = this.#blockRecords;
    this.#block = undefined;
    this.#blockBytes = 0;
    this.#blockRecords = 0;
    const hash = digest('sha256', raw, 'buffer');
    await this.#queue(records, this.#compressed(STORED_KIND.block, raw, hash), memory);
  }

  /** A block holds less than `blockBytes` before its last record, which is smaller than one that stands alone. */
  get #mostBlockBytes(): number {
    const { blockBytes, standaloneBytes } = LAYOUTS[this.codec];
    return blockBytes + innerLength(standaloneBytes, false);
  }

  async #queue(records: number, job: Promise<StoredRecord>, memory?: Buffer): Promise<void> {
    // Its failure is met when it is settled; until then it must not count as unhandled.
    job.catch(() => undefined);
    this.#jobs.push({ records, job, memory });
    if (this.#jobs.length >= PENDING_JOBS) await this.#settle();
  }

  async #settle(): Promise<void> {
    const next = this.#jobs.shift();
    if (next === undefined) return;
    const { records } = next;
    this.#containers.push({
      offset: this.#offset,
      records: Math.max(records, 1),
      block: records > 0,
    });
    const record = await next.job;
    this.#put(record);
    // What does not compress is stored as it is, and still to be written.
    if (next.memory !== undefined && record.stored.buffer !== next.memory.buffer) {
      this.#spare.push(next.memory);
    }
    if (this.#outputBytes >= OUTPUT_BYTES) await this.#write();
  }

  #put({ kind, flags, rawLength, hash, codec, stored }: StoredRecord): void {
    const header = Buffer.allocUnsafe(RECORD_HEADER_BYTES);
    const storedLength = stored.length;
    const fields = { kind, codec, flags, rawLength, storedLength, hash, crc: crc32(stored) };
    writeRecordHeader(header, 0, fields, this.space, this.#offset);
    this.#push(header);
    this.#push(stored);
  }

  #push(bytes: Buffer): void {
    this.#output.push(bytes);
    this.#outputBytes += bytes.length;
    this.#offset += bytes.length;
  }

  async #write(): Promise<void> {
    const bytes = Buffer.concat(this.#output);
    this.#output = [];
    this.#outputBytes = 0;
    await writeAll(this.file, bytes, this.#written);
    this.#written += bytes.length;
  }
  async #compressed(kind: number, raw: Buffer, hash: Buffer): Promise<StoredRecord> {
    const { codec, stored } = await compressPayload(this.codec, raw);
    return { kind, flags: 0, rawLength: raw.length, hash, codec, stored };
  }
}
