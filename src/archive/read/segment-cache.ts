import { crc32 } from 'node:zlib';
import { segmentElsewhere } from '../../errors/archive.ts';
import { errnoName } from '../../errors/mailkeep-error.ts';
import type { FileLayer, LogFile } from '../files/file-layer.ts';
import {
  CODEC,
  FLAG_PURGED,
  RECORD_HEADER_BYTES,
  type RecordHeader,
  readRecordHeader,
  STORED_KIND,
} from '../format/headers.ts';
import type { Position } from '../format/records.ts';
import { decodeInner } from '../format/sealed-footer.ts';
import { inflatePayload, releasePayload } from '../format/stored-payload.ts';
import {
  listSegments,
  localSegments,
  type OpenSegment,
  openInForce,
  type SegmentListing,
  segmentNumbers,
} from './segment-files.ts';
import type { SegmentStore } from './segment-store.ts';

/** Open files kept at a time; each is a segment of about 64 MiB. */
const OPEN_SEGMENTS = 32;
/** Bytes of inflated blocks kept: two batches of a first sync, which are read soon after they were folded. */
const CACHED_BYTES = 8 * 1024 * 1024;
/** Read in one go with a record's header; most records fit. */
const FIRST_READ_BYTES = 16 * 1024;
/** Memory kept for stored bytes that are inflated at once; those of a block have room in it. */
const SCRATCH_BYTES = 512 * 1024;

/** A record that was asked for by its position. */
export type FetchedRecord =
  | { readonly state: 'present'; readonly kind: number; readonly payload: Buffer }
  | { readonly state: 'purged' }
  /** What stands there is not a record, or does not have its CRC. */
  | { readonly state: 'damaged' };

/**
 * Reads records by position from whichever generation of their segment is in force. Files stay open and inflated blocks
 * stay in memory, within limits; `forget` lets go of both, and of what is known of the folder.
 */
export class SegmentCache {
  #listing: SegmentListing | undefined;
  readonly #open = new Recent<number, OpenSegment>(
    OPEN_SEGMENTS,
    () => 1,
    ({ file }) => file.close(),
  );
  readonly #blocks = new Recent<string, Buffer>(
    CACHED_BYTES,
    ({ length }) => length,
    // What is given away of a block is a copy. As garbage, blocks and what they were inflated from took 60 MB.
    releasePayload,
  );
  /** Compressed bytes, from one record to the next. */
  #scratch: Buffer | undefined;

  /** @param listing what the folder is known to hold, if the caller has just listed it */
  constructor(
    private readonly files: FileLayer,
    private readonly dir: string,
    listing?: SegmentListing,
    private readonly store: SegmentStore = localSegments,
  ) {
    this.#listing = listing;
  }

  /** The payload may be a view of memory that is shared: it must not be written to. */
  fetch({ segment, ordinal, offset }: Position): FetchedRecord {
    const opened = this.opened(segment);
    if (opened.sealed !== undefined) {
      const found = opened.sealed.index.find(ordinal);
      if (found === undefined) return { state: 'damaged' };
      return found.container.block
        ? this.#fromBlock(opened, found.container.offset, found.inner)
        : this.#alone(opened, found.container.offset);
    }
    // A sealed file without a footer has no way from a position to its record but a walk, which is for repair.
    return opened.name.generation === 1 ? this.#alone(opened, offset) : { state: 'damaged' };
  }

  /**
   * Keeps a block that was read from a segment's file and is intact, as if a record of it had been asked for. Its memory
   * is freed when it leaves the cache.
   */
  keep(path: string, offset: number, block: Buffer): void {
    this.#blocks.set(keyOf(path, offset), block);
  }

  forget(): void {
    this.#listing = undefined;
    this.#open.clear();
    this.#blocks.clear();
  }

  /** The numbers of the segments that the log is known to have, in order. */
  numbers(): readonly number[] {
    this.#listing ??= listSegments(this.files, this.dir);
    return segmentNumbers(this.#listing, this.store);
  }

  /** Whether a segment can be opened now. */
  isPresent(segment: number): boolean {
    return this.store.present(segment);
  }

  /**
   * Returns a segment's file in force. It is closed when others have been used more recently.
   *
   * @throws `segment-elsewhere`; `log-damaged`; the system's error when a file went away meanwhile
   */
  opened(segment: number): OpenSegment {
    const open = this.#open.get(segment);
    if (open !== undefined) return open;
    if (!this.store.present(segment)) throw segmentElsewhere(segment);
    if (!this.#listing?.has(segment)) this.#listing = listSegments(this.files, this.dir);
    const opened = openInForce(this.files, this.dir, segment, this.#listing.get(segment) ?? []);
    this.#open.set(segment, opened);
    return opened;
  }

  #fromBlock(opened: OpenSegment, offset: number, inner: number): FetchedRecord {
    const key = keyOf(opened.path, offset);
    let block = this.#blocks.get(key);
    if (block === undefined) {
      const read = this.#stored(opened, offset);
      if (read?.header.kind !== STORED_KIND.block) return { state: 'damaged' };
      block = inflatePayload(read.header, read.stored);
      if (block === undefined) return { state: 'damaged' };
      this.#blocks.set(key, block);
    }
    const record = decodeInner(block, inner);
    if (record === undefined) return { state: 'damaged' };
    const { kind, payload } = record;
    if (payload === undefined) return { state: 'purged' };
    // A copy: the block may leave the cache, and its memory go, while the payload is in use.
    return { state: 'present', kind, payload: Buffer.from(payload) };
  }

  #alone(opened: OpenSegment, offset: number): FetchedRecord {
    const read = this.#stored(opened, offset);
    if (read === undefined) return { state: 'damaged' };
    const { header, stored } = read;
    if ((header.flags & FLAG_PURGED) !== 0) return { state: 'purged' };
    const payload = inflatePayload(header, stored);
    return payload === undefined
      ? { state: 'damaged' }
      : { state: 'present', kind: header.kind, payload };
  }

  /**
   * A stored record whose bytes have their CRC; undefined when there is none at this offset. Compressed bytes are valid
   * until the next call; what was not compressed has memory of its own, since it is given away as it is.
   */
  #stored(
    { file, header: space }: OpenSegment,
    offset: number,
  ): { readonly header: RecordHeader; readonly stored: Buffer } | undefined {
    this.#scratch ??= Buffer.allocUnsafeSlow(SCRATCH_BYTES);
    const first = this.#scratch.subarray(0, FIRST_READ_BYTES);
    const got = first.subarray(0, readReadable(file, first, offset));
    const header = readRecordHeader(got, 0, space, offset);
    if (header === undefined) return undefined;
    const { storedLength } = header;
    const end = RECORD_HEADER_BYTES + storedLength;
    // The length is the header's, whose CRC holds; but a file that was cut must not make us ask for memory in vain.
    if (end > got.length && offset + end > file.size()) return undefined;
    const isKept = header.codec === CODEC.none || end > SCRATCH_BYTES;
    const stored = isKept
      ? Buffer.allocUnsafe(storedLength)
      : this.#scratch.subarray(RECORD_HEADER_BYTES, end);
    const had = Math.min(storedLength, got.length - RECORD_HEADER_BYTES);
    if (isKept) got.copy(stored, 0, RECORD_HEADER_BYTES, RECORD_HEADER_BYTES + had);
    const rest = readReadable(file, stored.subarray(had), offset + RECORD_HEADER_BYTES + had);
    if (had + rest < storedLength) return undefined;
    return crc32(stored) === header.crc ? { header, stored } : undefined;
  }
}

function keyOf(path: string, offset: number): string {
  return `${path} ${offset}`;
}

/** Bytes up to the first that the disk does not give back: what needs those is damaged, and nothing else. */
function readReadable(file: LogFile, target: Uint8Array, position: number): number {
  let done = 0;
  try {
    while (done < target.length) {
      const got = file.read(target.subarray(done), position + done);
      if (got === 0) break;
      done += got;
    }
  } catch (error) {
    if (errnoName(error) !== 'EIO') throw error;
  }
  return done;
}

/** Keeps the values used last, up to a total weight; the last one stays whatever it weighs. */
class Recent<K, V> {
  readonly #values = new Map<K, V>();

  #weight = 0;

  constructor(
    private readonly most: number,
    private readonly weigh: (value: V) => number,
    private readonly letGo: (value: V) => void,
  ) {}

  get(key: K): V | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    // A map keeps the order of insertion: the first is the one not used for longest.
    this.#values.delete(key);
    this.#values.set(key, value);
    return value;
  }

  set(key: K, value: V): void {
    const before = this.#values.get(key);
    if (before !== undefined) {
      this.#values.delete(key);
      this.#weight -= this.weigh(before);
      this.letGo(before);
    }
    this.#values.set(key, value);
    this.#weight += this.weigh(value);
    for (const [oldest, old] of this.#values) {
      if (this.#weight <= this.most || oldest === key) break;
      this.#values.delete(oldest);
      this.#weight -= this.weigh(old);
      this.letGo(old);
    }
  }

  clear(): void {
    for (const value of this.#values.values()) this.letGo(value);
    this.#values.clear();
    this.#weight = 0;
  }
}
