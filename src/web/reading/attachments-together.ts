import type { Reader } from '../../engine/archive/reader.ts';
import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';
import { type ZippedFile, zipOfFiles } from '../../export/zip-of-files.ts';
import type { MessageId } from '../../mail/words.ts';
import { openAttachments } from '../../mime/reading.ts';
import { safeFileName } from '../../mime/safe-file-name.ts';
import { sentenceOf } from '../../wording/sentence-of.ts';
import { bytesOf, isTooMuch, type SavedFile } from './attached-files.ts';
import { attachmentDownload, type Download } from './downloads.ts';
import { inTurns } from './in-turns.ts';
import type { ReadingFor } from './reading-for.ts';

/** Attachments of one message that are held in memory; larger ones are read again for each. Bytes. */
const MOST_HELD = 64 * 1024 * 1024;
/** Names the attachments that could not be read. */
const NOT_SAVED = 'not saved.txt';

/**
 * Returns attachments as one zip; undefined where there are none, or more than one file takes. What cannot be read is
 * named in a text at its end.
 *
 * @param called what the zip is called, without an ending
 */
export function attachmentsTogether(
  reader: Pick<Reader, 'sources'>,
  files: readonly SavedFile[],
  called: string,
  how: ReadingFor,
): Download | undefined {
  if (files.length === 0 || isTooMuch(files)) return undefined;
  const bytes = zipOfFiles(zipped(reader, files, how));
  return {
    // A slash does not make a path of it.
    name: called.trim() === '' ? null : `${called.replaceAll(/[/\\]/g, ' ')}.zip`,
    fallback: 'attachments.zip',
    size: null,
    bytes,
    stop: () => bytes.return(),
  };
}

/** The files of a zip: one message is read after the other. */
async function* zipped(
  reader: Pick<Reader, 'sources'>,
  files: readonly SavedFile[],
  how: ReadingFor,
): AsyncGenerator<ZippedFile, void, undefined> {
  const taken = new Set<string>();
  const missing: string[] = [];
  for (const [id, own] of Map.groupBy(files, (file) => file.id)) {
    const fileOf = ({ filename, number, date }: SavedFile, bytes: ZippedFile['bytes']) => ({
      name: safeFileName(filename, { fallback: `attachment-${number}`, taken }),
      date: date === null ? null : Date.parse(date),
      bytes,
    });
    if (bytesOf(own) > MOST_HELD) {
      for (const file of own) {
        const download = await attachmentDownload(reader, id, file.number, how);
        if (download === undefined) missing.push(notSaved(file, NOT_THERE));
        else yield fileOf(file, piecesOf(download));
      }
      continue;
    }
    const { pieces, problem } = await readTogether(reader, id, how);
    for (const file of own) {
      const its = pieces.get(file.number);
      if (problem !== null || its === undefined) missing.push(notSaved(file, problem ?? NOT_THERE));
      else yield fileOf(file, its);
    }
  }
  if (missing.length > 0)
    yield {
      name: safeFileName(NOT_SAVED, { fallback: NOT_SAVED, taken }),
      date: null,
      bytes: [Buffer.from(`${missing.join('\n')}\n`)],
    };
}

const NOT_THERE = 'the message does not have it as it was indexed';
const TOO_LARGE = 'the message has more than it was indexed with';

function notSaved({ filename, number, id }: SavedFile, why: string): string {
  const name = safeFileName(filename, { fallback: `attachment-${number}`, taken: new Set() });
  return `${name} (number ${number} of message ${id}): ${why}`;
}

async function* piecesOf({ bytes, stop }: Download): AsyncGenerator<Uint8Array> {
  try {
    for (let next = await bytes.next(); next.done !== true; next = await bytes.next())
      yield next.value;
  } finally {
    await stop();
  }
}

interface ReadTogether {
  /** The bytes of each attachment by its number. */
  readonly pieces: ReadonlyMap<number, readonly Uint8Array[]>;
  /** Why they are not to be used: the message is damaged, or cannot be parsed. */
  readonly problem: string | null;
}

/** Reads all attachments of a message, and the message to its end: only then its hash is compared. */
async function readTogether(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  how: ReadingFor,
): Promise<ReadTogether> {
  const sources = reader.sources();
  const pieces = new Map<number, Uint8Array[]>();
  let held = 0;
  let isWhole = false;
  async function* noted() {
    yield* sources.streamMessage(id);
    isWhole = true;
  }
  try {
    for await (const piece of openAttachments(noted(), how)) {
      if ('attachment' in piece) {
        pieces.set(piece.attachment.number, []);
        continue;
      }
      if (!('bytes' in piece)) continue;
      held += piece.bytes.byteLength;
      if (held > 2 * MOST_HELD) return { pieces: new Map(), problem: TOO_LARGE };
      if (piece.bytes.byteLength > 0) pieces.get(piece.number)?.push(piece.bytes);
    }
    if (!isWhole) for await (const _ of inTurns(sources.streamMessage(id), how.signal));
    return { pieces, problem: null };
  } catch (error) {
    const isKnown =
      hasCode(error, 'mail-unreadable') ||
      hasCode(error, 'bytes-purged') ||
      (error instanceof MailkeepError && error.family === 'damage');
    if (!isKnown) throw error;
    return { pieces, problem: sentenceOf(error).message };
  }
}
