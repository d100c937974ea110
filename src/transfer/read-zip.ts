import type { Entry, ZipFile } from 'yauzl';
import yauzl from 'yauzl';
import { sha256Of } from './export-files.ts';
import { MANIFEST_NAME } from './export-manifest.ts';

export class ZipUnreadable extends Error {}

export class ZipReader {
  private constructor(
    private readonly zip: ZipFile,
    private readonly entries: ReadonlyMap<string, Entry>,
  ) {}

  /** @throws ZipUnreadable; the system's error if the file cannot be read */
  static async open(file: string): Promise<ZipReader> {
    return await mapErrors(async () => {
      const zip = await yauzl.openPromise(file, { lazyEntries: true, autoClose: false });
      const entries = new Map<string, Entry>();
      for await (const entry of zip.eachEntry()) entries.set(entry.fileName, entry);
      return new ZipReader(zip, entries);
    });
  }

  names(): IterableIterator<string> {
    return this.entries.keys();
  }

  get hasManifest(): boolean {
    return this.entries.has(MANIFEST_NAME);
  }

  /** Returns the size given in the directory. Reading fails if an entry's actual size differs. */
  sizeOf(name: string): number | undefined {
    return this.entries.get(name)?.uncompressedSize;
  }

  /** Returns undefined if the entry does not exist. @throws ZipUnreadable */
  async pieces(name: string): Promise<AsyncGenerator<Buffer, void, undefined> | undefined> {
    const entry = this.entries.get(name);
    if (entry === undefined) return undefined;
    const stream = await mapErrors(() => this.zip.openReadStreamPromise(entry));
    return (async function* () {
      try {
        for await (const piece of stream) yield piece;
      } catch (error) {
        throw toUnreadable(error);
      }
    })();
  }

  /** Returns an entry's SHA-256 in hexadecimal, or undefined if it does not exist. @throws ZipUnreadable */
  async hash(name: string): Promise<string | undefined> {
    const pieces = await this.pieces(name);
    return pieces && sha256Of(pieces);
  }

  close(): void {
    this.zip.close();
  }
}

async function mapErrors<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw toUnreadable(error);
  }
}

function toUnreadable(error: unknown): unknown {
  if (error instanceof ZipUnreadable || !(error instanceof Error)) return error;
  const system = 'syscall' in error;
  return system ? error : new ZipUnreadable(error.message, { cause: error });
}
