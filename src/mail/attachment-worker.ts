/** The attachment worker thread, started by attachment-extractor.ts. */

import { workerData } from 'node:worker_threads';
import {
  catchStrayErrors,
  needsReplacement,
  openThreadPort,
  PieceIntake,
} from '../core/in-thread.ts';
import { attachmentsIn } from './attached-mail-text.ts';
import type { AttachmentWorkerData, FromWorker, ToWorker } from './attachment-extractor.ts';
import type { AttachmentOutcome } from './attachment-text.ts';
import { documentText, loadPdfReader, Unreadable } from './document-text.ts';

const { limits }: AttachmentWorkerData = workerData;
const withStrayErrors = catchStrayErrors();

const intake = new PieceIntake(() => port.send({ kind: 'next' }));
const port = openThreadPort<ToWorker, FromWorker>((message) => {
  if (message.kind !== 'job') intake.take(message);
  else
    void readJob(message, intake.pieces())
      .catch((): AttachmentOutcome => ({ status: 'failed', reason: 'malformed' }))
      .then((outcome) => port.send({ kind: 'outcome', outcome, worn: isSpent(outcome) }));
});

/** Reports whether this thread must not read another attachment. For bombs, `pdfText` explains why. */
function isSpent(outcome: AttachmentOutcome): boolean {
  const bomb = outcome.status === 'failed' && outcome.reason === 'bomb';
  return bomb || needsReplacement(limits.wornBytes);
}

type Job = Extract<ToWorker, { kind: 'job' }>;

async function readJob(
  { form, number }: Job,
  source: AsyncIterable<Buffer>,
): Promise<AttachmentOutcome> {
  if (form === 'pdf') await loadPdfReader();
  let bytes: Buffer;
  try {
    bytes = number === null ? await readAll(source) : await readOne(source, number);
  } catch (error) {
    if (error instanceof Unreadable) return { status: 'failed', reason: error.reason };
    throw error;
  }
  return await withStrayErrors(() => documentText(bytes, form, limits));
}

async function readOne(source: AsyncIterable<Buffer>, number: number): Promise<Buffer> {
  const [entry] = await attachmentsIn(source, limits.bytes, number);
  return entry?.bytes ?? Buffer.alloc(0);
}

async function readAll(source: AsyncIterable<Buffer>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of source) {
    bytes += piece.length;
    if (bytes > limits.bytes) throw new Unreadable('too-large');
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}
