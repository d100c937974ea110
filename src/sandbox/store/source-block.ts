/**
 * Raw sources that came together: files of a folder, a range of an mbox, a run of the generator, one delivery.
 * Nothing of a source lies in memory because its block does. Numbers are 0-based within the block.
 */
export interface SourceBlock {
  readonly count: number;
  /** Bytes of the source. May have to read or generate it. */
  size(number: number): number;
  /** The whole source. Throws ServiceError `source-changed` when the file behind it is not what it was. */
  read(number: number): Buffer;
  /** Received date in milliseconds since the epoch. May have to read the source's header. */
  received(number: number): number;
  /** Where the bytes lie as they are in a file, for sending a large one without holding it in memory. */
  file(number: number): FileRange | null;
}

export interface FileRange {
  readonly path: string | Buffer;
  readonly start: number;
  readonly length: number;
}

/** A block of sources held in memory. */
export class MemoryBlock implements SourceBlock {
  readonly #sources: readonly Buffer[];
  readonly #received: readonly number[];

  constructor(sources: readonly Buffer[], received: readonly number[]) {
    this.#sources = sources;
    this.#received = received;
  }

  get count(): number {
    return this.#sources.length;
  }

  size(number: number): number {
    return this.read(number).length;
  }

  read(number: number): Buffer {
    const source = this.#sources[number];
    if (source === undefined) throw new RangeError(`no source ${number} in this block`);
    return source;
  }

  received(number: number): number {
    return this.#received[number] ?? 0;
  }

  file(): null {
    return null;
  }
}
