/** The attachment worker thread, started by attachment-extractor.ts. */

import { workerData } from 'node:worker_threads';
import { isWorn, openThreadPort, PieceIntake, strayErrors } from '../core/in-thread.ts';
import type { AttachmentWorkerData, FromWorker, ToWorker } from './attachment-extractor.ts';
import type { AttachmentOutcome } from './attachment-text.ts';
import { documentText, loadPdfReader, Unreadable } from './document-text.ts';
import { DEFAULT_LIMITS } from './extraction.ts';
import { isListed, parseTree, type TakeLeaf } from './part-tree.ts';

const { limits }: AttachmentWorkerData = workerData;
const withStrayErrors = strayErrors();

const intake = new PieceIntake(() => port.send({ kind: 'next' }));
const port = openThreadPort<ToWorker, FromWorker>((message) => {
  if (message.kind !== 'job') intake.take(message);
  else
    void read(message, intake.pieces())
      .catch((): AttachmentOutcome => ({ status: 'failed', reason: 'malformed' }))
      .then((outcome) => port.send({ kind: 'outcome', outcome, worn: isSpent(outcome) }));
});

/** True if this thread must not read another attachment. `pdfText` explains why for bombs. */
function isSpent(outcome: AttachmentOutcome): boolean {
  const bomb = outcome.status === 'failed' && outcome.reason === 'bomb';
  return bomb || isWorn(limits.wornBytes);
}

type Job = Extract<ToWorker, { kind: 'job' }>;

async function read(
  { form, number }: Job,
  source: AsyncIterable<Buffer>,
): Promise<AttachmentOutcome> {
  if (form === 'pdf') await loadPdfReader();
  let bytes: Buffer;
  try {
    bytes = number === null ? await whole(source) : await leafOf(source, number);
  } catch (error) {
    if (error instanceof Unreadable) return { status: 'failed', reason: error.reason };
    throw error;
  }
  return await withStrayErrors(() => documentText(bytes, form, limits));
}

async function whole(source: AsyncIterable<Buffer>): Promise<Buffer> {
  const kept = new Kept();
  for await (const piece of source) kept.add(piece);
  return kept.bytes();
}

async function leafOf(source: AsyncIterable<Buffer>, number: number): Promise<Buffer> {
  const kept = new Kept();
  let listed = 0;
  const take: TakeLeaf<null> = (info) => {
    if (isListed(info)) listed++;
    if (!isListed(info) || listed !== number) return { content: null, sink: () => undefined };
    return {
      content: null,
      sink: (chunk) => {
        // The decoder may reuse the buffer that this chunk is a view of.
        kept.offer(Buffer.from(chunk));
        return undefined;
      },
    };
  };
  const until = async function* () {
    for await (const piece of source) {
      yield piece;
      if (listed > number || kept.tooLarge) return;
    }
  };
  await parseTree(until(), take, DEFAULT_LIMITS);
  if (listed < number) throw new Unreadable('malformed');
  return kept.bytes();
}

class Kept {
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  get tooLarge(): boolean {
    return this.#bytes > limits.bytes;
  }

  add(chunk: Buffer): void {
    this.offer(chunk);
    if (this.tooLarge) throw new Unreadable('too-large');
  }

  offer(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (!this.tooLarge) this.#chunks.push(chunk);
  }

  bytes(): Buffer {
    if (this.tooLarge) throw new Unreadable('too-large');
    return Buffer.concat(this.#chunks);
  }
}
