import { hash } from 'node:crypto';
import type { Batch } from '../../src/archive/batch.ts';
import type { FileLayer } from '../../src/archive/file-system.ts';
import type { CommittedBatch, Fact } from '../../src/archive/format.ts';
import { type ScanEvent, scanLog } from '../../src/archive/log-reader.ts';
import type { LogWriter } from '../../src/archive/log-writer.ts';
import { type LogWriterOptions, openLogWriter } from '../../src/archive/log-writer.ts';
import { mailWithAttachment, noise } from './generated-mail.ts';
import { Positions } from './positions.ts';
import { SimulatedDisk } from './simulated-disk.ts';
import { threadOn } from './thread-link.ts';

export const DIR = '/archive';

export function place(uid: number) {
  return { host: 'mail.example.org', mailbox: 'm1', folder: 'INBOX', generation: 1, uid };
}

export function appeared(uid: number, raw: Buffer): Fact {
  return {
    fact: 'appeared',
    ...place(uid),
    docid: uid * 64,
    message: hash('sha256', raw),
    size: raw.length,
    listing: {
      uid,
      date: '2026-02-03T04:05:06Z',
      flags: ['\\Seen'],
      size: raw.length,
      subject: `Grüße Nr. ${uid}`,
      from: { name: 'Ada', address: 'ada@example.org' },
      to: [],
      cc: [],
      bcc: [],
      messageId: `<${uid}@example.org>`,
      inReplyTo: null,
      attachments: [],
      extra: { threadId: null },
    },
  };
}

/** Message number `n`: every third has an attachment, and every sixth the same one. */
export function sampleMail(n: number, attachmentBytes = 2000): Buffer {
  if (n % 3 === 0) return mailWithAttachment(noise(attachmentBytes, n % 6 === 0 ? 6 : n));
  const body = `line of message ${n}\r\n`.repeat((n * 7) % 40);
  return Buffer.from(`From: ada@example.org\r\nSubject: message ${n}\r\n\r\n${body}`);
}

/** Puts messages into a batch, with the facts of their appearance. */
export function fill(batch: Batch, raws: readonly Buffer[], known: Positions, uid = 1): Batch {
  for (const [index, raw] of raws.entries()) {
    batch.addSource(raw, hash('sha256', raw), (name) => known.blobs.has(name));
    batch.addFact(appeared(uid + index, raw));
  }
  return batch;
}

/** Commits `count` batches of three messages each. */
export async function writeBatches(
  writer: LogWriter,
  known: Positions,
  count: number,
  firstMessage = 1,
): Promise<Buffer[]> {
  const written: Buffer[] = [];
  for (let b = 0; b < count; b += 1) {
    const first = firstMessage + b * 3;
    const raws = [first, first + 1, first + 2].map((n) => sampleMail(n));
    known.fold(await writer.commit(fill(writer.newBatch(), raws, known, first)));
    written.push(...raws);
  }
  return written;
}

let byThread = false;

/** From here on, logs are written by the code of the log thread; see `threadOn`. */
export function writeByThread(): void {
  byThread = true;
}

export function openOn(
  files: FileLayer,
  options: Partial<LogWriterOptions> = {},
): Promise<LogWriter> {
  const thread = byThread ? { startThread: () => threadOn(files), threadFrom: 0 } : {};
  return openLogWriter({ dir: DIR, now: () => 1_770_000_000_000, files, ...thread, ...options });
}

/** A new log on a simulated disk, and the positions of what a test writes to it. */
export async function newLog(options: Partial<LogWriterOptions> = {}) {
  const disk = new SimulatedDisk();
  return { disk, writer: await openOn(disk.files, options), known: new Positions() };
}

export async function scanAll(
  files: FileLayer,
  after?: { number: number; hash: string },
): Promise<ScanEvent[]> {
  const events: ScanEvent[] = [];
  for await (const event of scanLog({ dir: DIR, files, after })) events.push(event);
  return events;
}

/** The batches of a log that must be without any damage. */
export async function soundBatches(files: FileLayer): Promise<CommittedBatch[]> {
  return (await scanAll(files)).flatMap((event) => {
    if (event.what === 'damage') throw new Error(`damage: ${JSON.stringify(event.damage)}`);
    return event.what === 'batch' ? [event.batch] : [];
  });
}

export function hotPath(segment = 1): string {
  return `${DIR}/log/${String(segment).padStart(10, '0')}.1.seg`;
}
