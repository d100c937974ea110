import { parseHeaderDate } from '../../mail/header-date.ts';
import { type MboxRange, mboxRanges, unquoted } from '../../mailfiles/mbox.ts';
import { receivedFromSource } from '../message/listing-record.ts';
import type { FileRange, SourceBlock } from '../store/source-block.ts';
import { readRange } from './file-block.ts';

/** The messages of an mbox file, read as mboxrd. Only where they lie is held. */
export class MboxBlock implements SourceBlock {
  readonly #path: string;
  readonly #starts: Float64Array;
  readonly #ends: Float64Array;
  readonly #quotedLines: Float64Array;
  /** Dates of the "From " lines; NaN where there is none, until somebody asks. */
  readonly #received: Float64Array;

  /** @throws the system's error where the file cannot be read */
  constructor(path: string) {
    this.#path = path;
    const ranges: MboxRange[] = [...mboxRanges(path)];
    this.#starts = Float64Array.from(ranges, ({ start }) => start);
    this.#ends = Float64Array.from(ranges, ({ end }) => end);
    this.#quotedLines = Float64Array.from(ranges, ({ quotedLines }) => quotedLines);
    this.#received = Float64Array.from(
      ranges,
      ({ fromLine }) => parseHeaderDate(fromLine) ?? Number.NaN,
    );
  }

  get count(): number {
    return this.#starts.length;
  }

  size(number: number): number {
    return this.#range(number).length - (this.#quotedLines[number] ?? 0);
  }

  read(number: number): Buffer {
    const bytes = readRange(this.#range(number), Number.POSITIVE_INFINITY, false);
    return (this.#quotedLines[number] ?? 0) > 0 ? unquoted(bytes) : bytes;
  }

  received(number: number): number {
    const known = this.#received[number] ?? 0;
    if (!Number.isNaN(known)) return known;
    const received = receivedFromSource(this.read(number));
    this.#received[number] = received;
    return received;
  }

  file(number: number): FileRange | null {
    return (this.#quotedLines[number] ?? 0) > 0 ? null : this.#range(number);
  }

  #range(number: number): FileRange {
    const start = this.#starts[number];
    const end = this.#ends[number];
    if (start === undefined || end === undefined) throw new RangeError(`no source ${number}`);
    return { path: this.#path, start, length: end - start };
  }
}
