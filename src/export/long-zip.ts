import { ZipFile } from 'yazl';

/**
 * A zip that does not slow down as it grows. yazl walks the list of all its entries, from the first, whenever one is
 * added and whenever one is done. Here that list has no more than what is still to be written; the others come back
 * for the directory at the end of the file.
 */
export class LongZip extends ZipFile {
  /** The library's own list, which its types do not have. */
  declare private entries: unknown[];
  readonly #written: unknown[] = [];

  /** How many entries are walked. */
  get walked(): number {
    return this.entries.length;
  }

  /** Every entry but the last that was added is written. */
  settle(): void {
    const last = this.entries.pop();
    for (const entry of this.entries) this.#written.push(entry);
    this.entries = last === undefined ? [] : [last];
  }

  /** Nothing is added any more. */
  finish(): void {
    this.entries = [...this.#written, ...this.entries];
    this.end();
  }
}
