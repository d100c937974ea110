import { Readable } from 'node:stream';
import { LongZip, zipTime } from './write-zip.ts';

/** A file to be put into a zip. */
export interface ZippedFile {
  /** Its path in the zip; two files must not share one. */
  readonly name: string;
  /** Milliseconds since the epoch; null where it has none. */
  readonly date: number | null;
  readonly bytes: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

/**
 * Returns a zip of files as it is made. A file is asked for once all bytes of the one before have been taken, and given
 * back where nobody wants the rest.
 *
 * @throws what `files` and their bytes throw; what came until then is no complete zip
 */
export async function* zipOfFiles(
  files: AsyncIterable<ZippedFile>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const zip = new LongZip();
  const output = zip.outputStream;
  if (!(output instanceof Readable)) throw new TypeError('a zip without a stream');
  const fail = (error: unknown): void => {
    output.destroy(error instanceof Error ? error : new Error(String(error)));
  };
  zip.on('error', fail);
  let isRead = true;
  let abandon = (): void => {};
  const add = ({ name, date, bytes }: ZippedFile): Promise<void> =>
    new Promise((resolve, reject) => {
      const nobody = new Error('nobody reads the zip');
      abandon = () => reject(nobody);
      if (!isRead) {
        abandon();
        return;
      }
      zip.addReadStreamLazy(name, { mtime: zipTime(date), mode: 0o100600 }, (take) => {
        zip.settle();
        const stream = Readable.from(bytes, { objectMode: false });
        abandon = () => stream.destroy(nobody);
        stream.on('end', resolve);
        stream.on('error', reject);
        take(null, stream);
      });
    });
  const adding = (async () => {
    for await (const file of files) await add(file);
    zip.finish();
  })();
  adding.catch(fail);
  try {
    for await (const piece of output) yield piece;
  } finally {
    isRead = false;
    abandon();
    await adding.catch(() => {});
  }
}
