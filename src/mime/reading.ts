import { hasCode } from '../errors/mailkeep-error.ts';
import { attachmentMissing, mailUnreadable } from '../errors/mime.ts';
import type { ExtractedAttachment, UnparsedReason } from './extraction.ts';
import type { MimeLimits } from './limits.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import type { MessageReading } from './message-reading.ts';
import { readInWorker } from './reading-thread.ts';
import { mimeWorkerFile } from './worker-file.ts';
import type { ReadWant } from './worker-protocol.ts';

export interface ReadingOptions {
  readonly limits?: Partial<MimeLimits>;
  /** The built worker, where it is not in its usual place. */
  readonly workerFile?: URL;
}

/** An attachment as it is handed out: its size shows when its bytes have come. */
export interface OpenAttachment {
  readonly attachment: Omit<ExtractedAttachment, 'size'>;
  /** Decoded bytes; to be read once. Throws `mail-unreadable` when the message ends before the attachment. */
  readonly content: AsyncIterable<Uint8Array>;
}

/**
 * One message in full, for people to read, parsed in a worker as its bytes come: a source of any size passes
 * through. A message that will not parse comes with its headers and a `reason`; only what `source` throws is
 * thrown.
 */
export async function readMessage(
  source: AsyncIterable<Uint8Array>,
  options: ReadingOptions = {},
): Promise<MessageReading> {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const head: Uint8Array[] = [];
  try {
    return await messageIn(keepingHead(source, head, limits.headerBytes), { kind: 'message' });
  } catch (error) {
    if (!hasCode(error, 'mail-unreadable')) throw error;
    return await headersOnly(unparsedReason(error.facts.reason));
  }

  async function messageIn(from: AsyncIterable<Uint8Array>, want: ReadWant) {
    for await (const answer of readInWorker(from, want, limits, workerFile(options))) {
      if (answer.kind === 'message') return answer.message;
    }
    throw mailUnreadable('malformed');
  }

  async function headersOnly(reason: UnparsedReason): Promise<MessageReading> {
    try {
      return await messageIn(each(head), { kind: 'headers', reason });
    } catch (error) {
      if (hasCode(error, 'mail-unreadable')) return nothingRead(reason);
      throw error;
    }
  }
}

/**
 * One attachment of a message, by its number in the order of the source (as `readMessage` and extraction count
 * them). Throws `attachment-missing` when there are fewer, `mail-unreadable` when the message cannot be parsed
 * up to it, and whatever `source` throws.
 */
export async function openAttachment(
  source: AsyncIterable<Uint8Array>,
  number: number,
  options: ReadingOptions = {},
): Promise<OpenAttachment> {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const want: ReadWant = { kind: 'attachment', number };
  const answers = readInWorker(source, want, limits, workerFile(options));
  const first = await answers.next();
  const answer = first.done === true ? null : first.value;
  if (answer?.kind === 'attachment') {
    const { size: _, ...attachment } = answer.attachment;
    return { attachment, content: contentOf(answers) };
  }
  await answers.return();
  if (answer?.kind !== 'finished') throw mailUnreadable('malformed');
  if (answer.breach !== null) throw mailUnreadable(answer.breach);
  throw attachmentMissing(number, answer.attachments);
}

async function* contentOf(
  answers: ReturnType<typeof readInWorker>,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for (;;) {
      const { done, value } = await answers.next();
      if (done === true) throw mailUnreadable('malformed');
      if (value.kind === 'chunk') yield value.bytes;
      if (value.kind === 'finished') {
        if (value.breach !== null) throw mailUnreadable(value.breach);
        return;
      }
    }
  } finally {
    await answers.return();
  }
}

function workerFile(options: ReadingOptions): URL {
  return options.workerFile ?? mimeWorkerFile();
}

/** Passes a source on, keeping its first bytes in case the message ends its worker. */
async function* keepingHead(
  source: AsyncIterable<Uint8Array>,
  head: Uint8Array[],
  max: number,
): AsyncGenerator<Uint8Array> {
  let room = max;
  for await (const piece of source) {
    if (room > 0) {
      head.push(piece.slice(0, room));
      room -= piece.byteLength;
    }
    yield piece;
  }
}

async function* each(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* pieces;
}

const REASONS: readonly UnparsedReason[] = [
  'timeout',
  'memory',
  'depth',
  'parts',
  'header',
  'malformed',
];

function unparsedReason(reason: unknown): UnparsedReason {
  return REASONS.find((known) => known === reason) ?? 'malformed';
}

function nothingRead(reason: UnparsedReason): MessageReading {
  return {
    reason,
    headers: [],
    subject: '',
    from: '',
    to: '',
    cc: '',
    bcc: '',
    messageId: null,
    text: '',
    html: null,
    attachments: [],
    truncated: false,
  };
}
