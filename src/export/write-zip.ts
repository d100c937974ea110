import { Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import { type NewFile, writing } from './export-files.ts';
import type { FormatWriter } from './export-options.ts';
import { MANIFEST_NAME, type ManifestEntry } from './manifest.ts';
import { type ExportPlan, entryOf, type PlannedPlace } from './plan.ts';
import type { Source } from './source.ts';
import { sidecarPath } from './write-files.ts';

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

interface ZipWriterDeps {
  readonly file: Pick<NewFile, 'write' | 'discard'>;
  /** The zip's final name, for errors. */
  readonly final: string;
  readonly plan: ExportPlan;
  /** The bytes of a place of the earlier export. */
  readonly earlier: (entry: ManifestEntry) => Promise<Source>;
  readonly sidecar: (entry: ManifestEntry) => Promise<string | null>;
}

/** The range of DOS times, less a day at either end, so that no time zone leads out of it. */
const EARLIEST = Date.UTC(1980, 0, 2);
const LATEST = Date.UTC(2107, 11, 30);

/** A moment whose local time is UTC: a zip has local times too, and its bytes must not depend on the zone. */
class UtcDate extends Date {
  override getFullYear = (): number => this.getUTCFullYear();
  override getMonth = (): number => this.getUTCMonth();
  override getDate = (): number => this.getUTCDate();
  override getHours = (): number => this.getUTCHours();
  override getMinutes = (): number => this.getUTCMinutes();
  override getSeconds = (): number => this.getUTCSeconds();
}

/** Returns a date as a zip has it: in UTC, and within the range that it knows. @param date milliseconds since the epoch */
export function zipTime(date: number | null): Date {
  return new UtcDate(Math.min(LATEST, Math.max(EARLIEST, date ?? EARLIEST)));
}

/** One zip file. Nothing in it depends on the clock, the machine or the order in which the disk answers. */
export class ZipWriter implements FormatWriter {
  readonly width = 1;
  readonly provenFirst = true;
  readonly #zip = new LongZip();
  readonly #written: Promise<void>;
  #failure: { readonly error: unknown } | undefined;
  /** Callers that wait for a turn or for the end: a failure is passed to each. */
  readonly #waiting = new Set<(error: unknown) => void>();

  constructor(private readonly deps: ZipWriterDeps) {
    this.#zip.on('error', (error) => this.#fail(error));
    this.#zip.outputStream.on('error', (error) => this.#fail(error));
    this.#written = this.#drain();
    this.#written.catch((error: unknown) => this.#fail(error));
  }

  async put(rank: number, place: PlannedPlace, open: () => Promise<Source>) {
    const source = await open();
    await this.#add(place.path, place.line.date, place.line.size, source.pieces());
    this.deps.plan.done(rank, place);
    await this.#addSidecar(entryOf(place));
    return 'written' as const;
  }

  async keep(_rank: number, entry: ManifestEntry): Promise<void> {
    const source = await this.deps.earlier(entry);
    await this.#add(entry.path, entry.date, entry.size, source.pieces());
    await this.#addSidecar(entry);
  }

  /** The last entry. */
  async addManifest(text: Iterable<string>): Promise<void> {
    const bytes = function* (): Generator<Buffer> {
      for (const piece of text) yield Buffer.from(piece);
    };
    await this.#add(MANIFEST_NAME, null, undefined, bytes());
  }

  async finish(): Promise<void> {
    this.#zip.finish();
    await this.#unlessFailed((resolve) => this.#written.then(resolve, () => {}));
  }

  async discard(): Promise<void> {
    // The file is closed only when nothing is being written to it any more.
    if (this.#zip.outputStream instanceof Readable) this.#zip.outputStream.destroy();
    await this.#written.catch(() => {});
    await this.deps.file.discard();
  }

  async #addSidecar(entry: ManifestEntry): Promise<void> {
    const text = await this.deps.sidecar(entry);
    if (text === null) return;
    const bytes = Buffer.from(text);
    await this.#add(sidecarPath(entry.path), entry.date, bytes.length, [bytes]);
  }

  /** Resolves when the turn of this entry has come: all before it are compressed. */
  async #add(
    path: string,
    date: string | null,
    size: number | undefined,
    pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
  ): Promise<void> {
    const options = {
      mtime: zipTime(date === null ? null : Date.parse(date)),
      mode: 0o100600,
      ...(size !== undefined && { size }),
    };
    await this.#unlessFailed((resolve) => {
      this.#zip.addReadStreamLazy(path, options, (take) => {
        this.#zip.settle();
        const stream = Readable.from(pieces, { objectMode: false });
        stream.on('error', (error) => this.#fail(error));
        take(null, stream);
        resolve();
      });
    });
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    for (const reject of this.#waiting) reject(error);
  }

  /** A race against one promise of failure would keep something of every wait until the end. */
  async #unlessFailed(wait: (resolve: () => void) => void): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error;
    let rejectWait: ((error: unknown) => void) | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        rejectWait = reject;
        this.#waiting.add(reject);
        wait(resolve);
      });
    } finally {
      if (rejectWait !== undefined) this.#waiting.delete(rejectWait);
    }
  }

  async #drain(): Promise<void> {
    const { file, final } = this.deps;
    for await (const chunk of this.#zip.outputStream) {
      await writing(final, () => file.write(Buffer.from(chunk)));
    }
  }
}
