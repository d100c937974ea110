import { ZipFile } from 'yazl';

/** What the library knows of an entry, which its types do not have. */
interface Entry {
  readonly state: number;
  getCentralDirectoryRecord(): Buffer;
}

/** The library's FILE_DATA_DONE. */
const WRITTEN = 3;

/**
 * A zip that neither slows down nor takes more memory than its directory as it grows. yazl walks the list of all its
 * entries, from the first, whenever one is added and whenever one is done, and keeps with each what its bytes came from.
 * Here that list has no more than what is still to be written; of the others there is what the directory at the end
 * of the file says of them.
 */
export class LongZip extends ZipFile {
  declare private entries: Entry[];
  readonly #written: Entry[] = [];
  readonly #records = new Records();

  /** How many entries are walked. */
  get walked(): number {
    return this.entries.length;
  }

  /** Takes what is written off the list: to be called when the turn of an entry has come. */
  settle(): void {
    const waiting: Entry[] = [];
    for (const entry of this.entries) {
      if (entry.state < WRITTEN) waiting.push(entry);
      else {
        const { state } = entry;
        const record = this.#records.keep(entry.getCentralDirectoryRecord());
        this.#written.push({ state, getCentralDirectoryRecord: () => record });
      }
    }
    this.entries = waiting;
  }

  /** Nothing is added any more. */
  finish(): void {
    this.entries = [...this.#written, ...this.entries];
    this.end();
  }
}

const PAGE_BYTES = 1024 * 1024;

/** Records of some hundred bytes. Each by itself would keep the 8 KiB alive that small buffers of all kinds share. */
class Records {
  #page = Buffer.alloc(0);
  #used = 0;

  keep(record: Buffer): Buffer {
    if (this.#used + record.length > this.#page.length) {
      this.#page = Buffer.allocUnsafeSlow(Math.max(PAGE_BYTES, record.length));
      this.#used = 0;
    }
    const at = this.#used;
    this.#used += record.copy(this.#page, at);
    return this.#page.subarray(at, this.#used);
  }
}
