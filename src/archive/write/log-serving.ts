import { thrownBy } from '../../errors/mailkeep-error.ts';
import type { BlobHash, MessageId } from '../../mail/words.ts';
import type { FileLayer, LogFile } from '../files/file-layer.ts';
import { MEMORY_BYTES, serializeBatch } from './batch.ts';
import { writeDurably } from './durability.ts';
import type { FromLogThread, ToLogThread } from './log-thread.ts';
import { type Appended, type AppendJob, localBatch } from './tray-batch.ts';

/**
 * Returns what takes the messages of a `LogThread` and writes its batches to the log.
 *
 * @param send answers it
 */
export function logServer(
  files: FileLayer,
  send: (message: FromLogThread) => void,
): (message: ToLogThread) => void {
  const segment = new OpenSegment(files);
  let answered: (stored: readonly BlobHash[]) => void = () => {};
  let memory: Buffer = Buffer.alloc(0);

  /** Asks which of the batch's blobs the archive has; each comes with a message that has it. */
  const ask = (blobs: readonly (readonly [BlobHash, MessageId])[]): Promise<ReadonlySet<string>> =>
    new Promise((resolve) => {
      answered = (stored) => resolve(new Set(stored));
      send({ ask: blobs });
    });

  const append = async (job: AppendJob): Promise<Appended> => {
    const stored = new Set<string>();
    const batch = localBatch(files, job, (hash) => stored.has(hash));
    const blobs = [...batch.unsureBlobs()];
    if (blobs.length > 0) for (const hash of await ask(blobs)) stored.add(hash);
    const { path } = job;
    const { space } = job.place;
    // What travels between threads is no Buffer any more.
    const place = { ...job.place, space: { ...space, archiveId: Buffer.from(space.archiveId) } };
    const written = serializeBatch(batch, place, memory);
    if (written.memory.length <= MEMORY_BYTES) memory = written.memory;
    const { bytes, committed, nextOrdinal } = written;
    await writeDurably(path, () => segment.file(path), bytes, place.offset);
    return {
      commit: committed.commit,
      blobs: committed.records.flatMap((record) =>
        record.kind === 'blob' ? [[record.hash, record.size] as const] : [],
      ),
      offsets: Float64Array.from(committed.records, ({ position }) => position.offset),
      bytes: bytes.length,
      nextOrdinal,
    };
  };

  return (message) => {
    if ('stored' in message) answered(message.stored);
    else if ('letGo' in message) segment.close();
    else {
      append(message.append).then(
        (appended) => send({ appended }),
        (error: unknown) => send({ thrown: thrownBy(error) }),
      );
    }
  };
}

/** The file of the segment that is written to. */
class OpenSegment {
  #open: { readonly path: string; readonly file: LogFile } | undefined;

  constructor(private readonly files: FileLayer) {}

  file(path: string): LogFile {
    if (this.#open?.path !== path) {
      this.close();
      this.#open = { path, file: this.files.open(path, 'write') };
    }
    return this.#open.file;
  }

  close(): void {
    this.#open?.file.close();
    this.#open = undefined;
  }
}
