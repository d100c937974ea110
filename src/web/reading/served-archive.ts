import { statSync } from 'node:fs';
import { catalogFile } from '../../catalog/open.ts';
import { openReaderOf, type Reader } from '../../engine/archive/reader.ts';
import { SpareReader } from '../../mime/reading.ts';

interface Opened {
  readonly reader: Reader;
  /** Which file the catalog is: a rebuild puts another one in its place. */
  readonly file: string;
  users: number;
  retired: boolean;
}

/** An archive that is open for reading as long as the server runs, whatever becomes of its catalog meanwhile. */
export class ServedArchive {
  #current: Opened | undefined;
  /** Parses the next message that a browser opens. */
  readonly spare = new SpareReader();

  constructor(readonly dataDir: string) {}

  /**
   * Runs `act` with a reader that stays open until it has ended.
   *
   * @throws what `openReaderOf` throws, and what `act` throws
   */
  async use<T>(act: (reader: Reader) => T | Promise<T>): Promise<T> {
    const { reader, release } = this.hold();
    try {
      return await act(reader);
    } finally {
      release();
    }
  }

  /** Returns a reader that stays open until it is released: for answers that are sent after the handler has returned. */
  hold(): { readonly reader: Reader; readonly release: () => void } {
    const opened = this.#opened();
    opened.users += 1;
    let held = true;
    return {
      reader: opened.reader,
      release: () => {
        if (!held) return;
        held = false;
        opened.users -= 1;
        if (opened.retired && opened.users === 0) opened.reader.close();
      },
    };
  }

  async close(): Promise<void> {
    this.#retire();
    await this.spare.close();
  }

  #opened(): Opened {
    const file = identityOf(catalogFile(this.dataDir));
    if (this.#current?.file === file) return this.#current;
    this.#retire();
    const opened = { reader: openReaderOf(this.dataDir), file, users: 0, retired: false };
    this.#current = opened;
    return opened;
  }

  #retire(): void {
    const old = this.#current;
    this.#current = undefined;
    if (old === undefined) return;
    old.retired = true;
    if (old.users === 0) old.reader.close();
  }
}

function identityOf(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false, bigint: true });
  return stat === undefined ? '' : `${stat.dev}/${stat.ino}`;
}
