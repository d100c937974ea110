import type { Entry, ZipFile } from 'yauzl';
import yauzl from 'yauzl';
import type { AttachmentLimits } from './limits.ts';
import { Unreadable } from './text-sink.ts';

export interface ZipEntry {
  readonly name: string;
  readonly entry: Entry;
}

export interface OpenZip {
  readonly entries: readonly ZipEntry[];
  /** Unpacked bytes of an entry; all that is read counts towards one ceiling. */
  read(entry: ZipEntry): AsyncIterable<Buffer>;
}

/**
 * The entries of a zip in memory. What the zip says of its sizes is not believed: bytes are counted as they come.
 *
 * @throws Unreadable `bomb`, `encrypted`, `malformed`
 */
export async function openZip(
  bytes: Buffer,
  limits: Pick<AttachmentLimits, 'entries' | 'inflatedBytes'>,
): Promise<OpenZip> {
  const zip = await opened(bytes);
  if (zip.entryCount > limits.entries) throw new Unreadable('bomb');
  const entries = await listed(zip, limits.entries);
  let inflated = 0;
  return {
    entries,
    async *read({ entry }) {
      if (entry.isEncrypted()) throw new Unreadable('encrypted');
      const stream = await openedEntry(zip, entry);
      try {
        for await (const piece of stream) {
          if (!Buffer.isBuffer(piece)) continue;
          inflated += piece.length;
          if (inflated > limits.inflatedBytes) throw new Unreadable('bomb');
          yield piece;
        }
      } catch (error) {
        throw error instanceof Unreadable ? error : new Unreadable('malformed');
      } finally {
        stream.destroy();
      }
    },
  };
}

function opened(bytes: Buffer): Promise<ZipFile> {
  return new Promise((resolve, reject) => {
    // Names are only compared, never opened as files, so strange ones are no reason to refuse.
    yauzl.fromBuffer(bytes, { lazyEntries: true, validateEntrySizes: true }, (error, zip) => {
      if (error === null) resolve(zip);
      else reject(new Unreadable('malformed'));
    });
  });
}

function listed(zip: ZipFile, max: number): Promise<ZipEntry[]> {
  return new Promise((resolve, reject) => {
    const entries: ZipEntry[] = [];
    zip.on('entry', (entry: Entry) => {
      entries.push({ name: entry.fileName, entry });
      if (entries.length > max) reject(new Unreadable('bomb'));
      else zip.readEntry();
    });
    zip.on('end', () => resolve(entries));
    zip.on('error', () => reject(new Unreadable('malformed')));
    zip.readEntry();
  });
}

function openedEntry(
  zip: ZipFile,
  entry: Entry,
): Promise<NodeJS.ReadableStream & { destroy(): void }> {
  return new Promise((resolve, reject) => {
    zip.openReadStream(entry, (error, stream) => {
      if (error === null) resolve(stream);
      else reject(new Unreadable('malformed'));
    });
  });
}
