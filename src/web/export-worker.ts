/** Entry point of the export thread, which exporting.ts starts. */

import { workerData } from 'node:worker_threads';
import { openReaderAt } from '../catalog/open-reader.ts';
import { serializeError } from '../core/errors.ts';
import { openThreadPort } from '../core/in-thread.ts';
import { exportError } from '../transfer/errors.ts';
import { type ExportSink, streamExport } from '../transfer/run-export.ts';
import type { ExportJob, FromExport, ToExport } from './exporting.ts';
import { limitReader } from './served-archive.ts';

const PIECE = 256 * 1024;

const job: ExportJob = workerData;
let request = Promise.withResolvers<void>();
const port = openThreadPort<ToExport, FromExport>(() => request.resolve());

class Pieces implements ExportSink {
  #collected: Uint8Array[] = [];
  #bytes = 0;

  begin(commit: number): void {
    port.send({ kind: 'begun', commit });
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#collected.push(bytes);
    this.#bytes += bytes.length;
    if (this.#bytes >= PIECE) await this.flush();
  }

  async flush(): Promise<void> {
    if (this.#bytes === 0) return;
    await this.#turn();
    const bytes = new Uint8Array(Buffer.concat(this.#collected, this.#bytes));
    this.#collected = [];
    this.#bytes = 0;
    port.send({ kind: 'piece', bytes }, [bytes.buffer]);
  }

  async end(): Promise<void> {
    await this.flush();
    await this.#turn();
    port.send({ kind: 'end' });
  }

  async #turn(): Promise<void> {
    await request.promise;
    request = Promise.withResolvers();
  }
}

async function run(): Promise<void> {
  const { dataDir, mailboxes, format, text } = job;
  const { node, accounts = new Map(), asOf = null } = job.request;
  const reader = openReaderAt(dataDir);
  try {
    const pieces = new Pieces();
    const { places, exported, damaged, purged } = await streamExport(
      {
        format,
        selection: {
          query: { text, node, accounts },
          deleted: false,
          withDeleted: true,
          asOf,
        },
        catalog: limitReader(reader, mailboxes).catalog,
        sources: reader.sources(),
        // The host stops the thread when the export is no longer needed.
        signal: new AbortController().signal,
      },
      pieces,
    );
    // An mbox cannot list missing messages.
    if (format === 'mbox' && damaged + purged > 0)
      throw exportError('export-incomplete', { places, told: exported });
    await pieces.end();
  } finally {
    reader.close();
  }
}

run()
  .catch((error: unknown) => port.send({ kind: 'failed', thrown: serializeError(error) }))
  .finally(() => port.close());
