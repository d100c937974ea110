import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { serviceError } from '../../errors/small-families.ts';
import { receivedFromSource } from '../../mailbox-surface/message/listing-record.ts';
import type { FileRange } from '../../mailbox-surface/reply.ts';
import type { SourceBlock } from '../store/backend.ts';

/** As much of a file as is read to find the date in its header. */
const HEAD_BYTES = 65_536;

/**
 * Files that are one message each, byte for byte. Only paths and sizes are held; a name that is no UTF-8 is
 * a Buffer.
 */
export class FileBlock implements SourceBlock {
  readonly #sizes: Float64Array;
  /** NaN until somebody asks. */
  readonly #received: Float64Array;

  /** @param received dates that are known without reading (from Maildir names), NaN elsewhere */
  constructor(
    private readonly paths: readonly (string | Buffer)[],
    received?: Float64Array,
  ) {
    this.#sizes = Float64Array.from(paths, (path) => statSync(path).size);
    this.#received = received ?? new Float64Array(paths.length).fill(Number.NaN);
  }

  get count(): number {
    return this.paths.length;
  }

  size(number: number): number {
    return this.#sizes[number] ?? 0;
  }

  read(number: number): Buffer {
    return this.#readHead(number, Number.POSITIVE_INFINITY);
  }

  received(number: number): number {
    const known = this.#received[number] ?? 0;
    if (!Number.isNaN(known)) return known;
    const received = receivedFromSource(this.#readHead(number, HEAD_BYTES));
    this.#received[number] = received;
    return received;
  }

  file(number: number): FileRange {
    return { path: this.#path(number), start: 0, length: this.size(number) };
  }

  #path(number: number): string | Buffer {
    const path = this.paths[number];
    if (path === undefined) throw new RangeError(`no source ${number} in this block`);
    return path;
  }

  #readHead(number: number, ceiling: number): Buffer {
    return readRange(this.file(number), ceiling, true);
  }
}

/** @throws MailkeepError `sandbox-source-changed` for a range that is not all there any more */
export function assertThere(range: FileRange): void {
  const size = statSync(range.path, { throwIfNoEntry: false })?.size ?? -1;
  if (size < range.start + range.length) {
    throw serviceError('sandbox-source-changed', { path: range.path.toString() });
  }
}

/**
 * Reads a range of a file, at most `ceiling` bytes of it.
 *
 * @param whole true where the range is all of the file, so that growth is noticed too
 * @throws MailkeepError `sandbox-source-changed`
 */
export function readRange(range: FileRange, ceiling: number, whole: boolean): Buffer {
  const wanted = Math.min(range.length, ceiling);
  const bytes = Buffer.allocUnsafe(wanted);
  const changed = (cause?: unknown) =>
    serviceError('sandbox-source-changed', { path: range.path.toString() }, cause);
  let fd: number;
  try {
    fd = openSync(range.path, 'r');
  } catch (error) {
    throw changed(error);
  }
  try {
    let filled = 0;
    while (filled < wanted) {
      const count = readSync(fd, bytes, filled, wanted - filled, range.start + filled);
      if (count === 0) throw changed();
      filled += count;
    }
    if (whole && fstatSync(fd).size !== range.length) throw changed();
  } finally {
    closeSync(fd);
  }
  return bytes;
}
