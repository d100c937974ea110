import {
  type FileContent,
  type FilePosition,
  type FilesCount,
  type FilesRequest,
  groupFilter,
  type ListedFile,
} from '../catalog/files.ts';
import type { Reader } from '../catalog/open-reader.ts';
import type { SearchNode } from '../catalog/query-ast.ts';
import {
  type Excerpt,
  type Excerpts,
  excerpts,
  firstExcerpt,
  type SoughtPhrase,
  soughtPhrases,
} from '../catalog/snippets.ts';
import { Semaphore } from '../core/concurrency.ts';
import { describeError, hasCode, MailkeepError } from '../core/errors.ts';
import { type BlobHash, FILE_GROUPS, type FileGroup, type MessageId } from '../core/types.ts';
import { receivedAt } from '../mail/docid.ts';
import { safeFileName } from '../mail/file-names.ts';
import { displayableImageType, type ImageType, MAX_IMAGE_BYTES } from '../mail/image-header.ts';
import { openAttachments } from '../mail/reading.ts';
import type { ZippedFile } from '../transfer/export-target.ts';
import { dayName } from './dashboard-data.ts';
import { attachmentDownload, attachmentsName, type Download, piecesOf } from './downloads.ts';
import { deadline, decodePosition, encodePosition, positionText } from './mail-list.ts';
import { type MailPages, statusOf } from './mail-pages.ts';
import { contentText, type NoTextReason, readContent, readWhole } from './message-view.ts';
import {
  exceedsDownloadLimit,
  MAX_FILES,
  type SavedFile,
  totalBytes,
} from './pages/message-props.ts';
import { addTerm, findTerm } from './query-text.ts';
import type { ArchiveParts, Parameter } from './request-context.ts';
import { type ReadingFor, type ServedReader, VersionCache } from './served-archive.ts';

/** Maximum bytes of attachments kept in memory per message. A larger message is read again for each attachment. */
const MAX_HELD = 64 * 1024 * 1024;
const NOT_SAVED = 'not saved.txt';

/** Returns a zip of attachments, ending with a list of unreadable ones; undefined if there are none or too many. */
export function zipAttachments(
  reader: Pick<Reader, 'sources'>,
  files: readonly SavedFile[],
  called: string,
  options: ReadingFor,
): Download | undefined {
  if (files.length === 0 || exceedsDownloadLimit(files)) return undefined;
  const bytes = zipPieces(reader, files, options);
  return {
    // A slash must not create a path.
    name: called.trim() === '' ? null : `${called.replaceAll(/[/\\]/g, ' ')}.zip`,
    fallback: 'attachments.zip',
    size: null,
    bytes,
    stop: () => bytes.return(),
  };
}

async function* zipPieces(
  ...files: Parameters<typeof zipEntries>
): AsyncGenerator<Uint8Array, void, undefined> {
  const { zipOfFiles } = await import('../transfer/export-target.ts');
  yield* zipOfFiles(zipEntries(...files));
}

async function* zipEntries(
  reader: Pick<Reader, 'sources'>,
  files: readonly SavedFile[],
  options: ReadingFor,
): AsyncGenerator<ZippedFile, void, undefined> {
  const taken = new Set<string>();
  const lines: string[] = [];
  for (const [id, group] of Map.groupBy(files, (file) => file.id)) {
    const fileOf = ({ filename, number, date }: SavedFile, bytes: ZippedFile['bytes']) => ({
      name: safeFileName(filename, { fallback: `attachment-${number}`, taken }),
      date: date === null ? null : Date.parse(date),
      bytes,
    });
    if (totalBytes(group) > MAX_HELD) {
      for (const file of group) {
        const download = await attachmentDownload(reader, id, file.number, options);
        if (download === undefined) lines.push(notSaved(file, NOT_THERE));
        else yield fileOf(file, piecesOf(download));
      }
      continue;
    }
    const { pieces, problem } = await readTogether(reader, id, options);
    for (const file of group) {
      const data = pieces.get(file.number);
      if (problem !== null || data === undefined) lines.push(notSaved(file, problem ?? NOT_THERE));
      else yield fileOf(file, data);
    }
  }
  if (lines.length > 0)
    yield {
      name: safeFileName(NOT_SAVED, { fallback: NOT_SAVED, taken }),
      date: null,
      bytes: [Buffer.from(`${lines.join('\n')}\n`)],
    };
}

const NOT_THERE = 'the message does not have it as it was indexed';
const TOO_LARGE = 'the message has more than it was indexed with';

function notSaved({ filename, number, id }: SavedFile, reason: string): string {
  const name = safeFileName(filename, { fallback: `attachment-${number}`, taken: new Set() });
  return `${name} (number ${number} of message ${id}): ${reason}`;
}

/** Reads a message's attachments. The pieces are unusable if the message is damaged or cannot be parsed. */
async function readTogether(reader: Pick<Reader, 'sources'>, id: MessageId, options: ReadingFor) {
  const pieces = new Map<number, Uint8Array[]>();
  let held = 0;
  try {
    await readWhole(reader, id, options.signal, async (source) => {
      for await (const piece of openAttachments(source, options)) {
        if ('attachment' in piece) pieces.set(piece.attachment.number, []);
        if (!('bytes' in piece)) continue;
        held += piece.bytes.byteLength;
        if (held > 2 * MAX_HELD) return;
        if (piece.bytes.byteLength > 0) pieces.get(piece.number)?.push(piece.bytes);
      }
    });
    return { pieces, problem: held > 2 * MAX_HELD ? TOO_LARGE : null };
  } catch (error) {
    const isKnown =
      hasCode(error, 'mail-unreadable') ||
      hasCode(error, 'bytes-purged') ||
      (error instanceof MailkeepError && error.family === 'damage');
    if (!isKnown) throw error;
    return { pieces, problem: describeError(error).message };
  }
}

const TILES = 60;
/** Time limits for a page's tiles and for their text, in milliseconds. The rest is omitted. */
const WALKING_MS = 400;
const TEXTS_MS = 150;
const COUNTING_MS = 150;
const MAX_HOLDERS = 50;
const MAX_SUMS = 200;

type Sheet =
  | { readonly kind: 'picture' }
  | { readonly kind: 'text'; readonly excerpt: Excerpt }
  | { readonly kind: 'none'; readonly why: NoTextReason };

export type FilesList = ReturnType<FilesPages['list']>;

async function fileDetail(
  reader: Pick<Reader, 'catalog' | 'sources'>,
  request: FilesRequest,
  hash: BlobHash,
  options: ReadingFor,
) {
  const { catalog } = reader;
  const found = catalog.files.content(request, hash, MAX_HOLDERS, deadline(WALKING_MS));
  if (found === undefined) return null;
  const { message, number, isCutOff, first, newest, isFound } = found;
  const read = await readContent(reader, { ...found, message: message.id }, options);
  return {
    ...factsOf(found),
    message: message.id,
    number,
    isCutOff,
    isPicture: isPicture(found),
    /** When the first message with this attachment was received, in milliseconds since the epoch. */
    first,
    holders: newest,
    text: textOf(catalog, found, request.node),
    read: read.state === 'whole' ? ({ state: 'whole' } as const) : read,
    isFound,
  };
}

export type FileDetail = NonNullable<Awaited<ReturnType<typeof fileDetail>>>;

function tileOf(file: ListedFile, sheet: Sheet, timeZone: string | undefined) {
  const month = dayName(receivedAt(file.docid), timeZone).slice(0, 7);
  return { ...factsOf(file), month, sheet };
}

export type FileTile = ReturnType<typeof tileOf>;

function factsOf({ hash, filename, type, size, group, message, messages }: ListedFile) {
  const { from, date, endedAt } = message;
  return { hash, filename, type, size, group, from, date, endedAt, messages };
}

/** Types that browsers show; for a generic type, the file extension decides. */
const PICTURE_TYPE = /^image\/(?:png|x-png|jpe?g|pjpeg|gif|webp|bmp|x-ms-bmp)$/;
const GENERIC_TYPE = /^(?:$|application\/|text\/plain$)/;
const PICTURE_ENDING = /\.(?:png|jpe?g|gif|webp|bmp)$/i;

function isPicture({ group, type, filename, size, isCutOff }: ListedFile): boolean {
  if (group !== 'pictures' || size > MAX_IMAGE_BYTES || size === 0 || isCutOff) return false;
  return (
    PICTURE_TYPE.test(type) || (GENERIC_TYPE.test(type) && PICTURE_ENDING.test(filename ?? ''))
  );
}

function sheetOf(
  catalog: Reader['catalog'],
  file: ListedFile,
  words: readonly SoughtPhrase[],
  hasTime: () => boolean,
): Sheet {
  if (isPicture(file)) return { kind: 'picture' };
  if (file.textId !== null && !hasTime()) return { kind: 'none', why: 'later' };
  const known = contentText(catalog, file);
  return 'why' in known
    ? { kind: 'none', why: known.why }
    : { kind: 'text', excerpt: firstExcerpt(known.text, words) };
}

function textOf(
  catalog: Reader['catalog'],
  file: FileContent,
  node: SearchNode,
): (Excerpts & { readonly truncated: boolean }) | { readonly why: NoTextReason } {
  const known = contentText(catalog, file);
  if ('why' in known) return known;
  return { ...excerpts(known.text, soughtPhrases(node, ['any'])), truncated: known.truncated };
}

const ATTACHED = 'has:attachment';
/** Types of inline files to list when pictures are left out. A type term applies to the whole message. */
const OTHER_THAN_PICTURES = ['application', 'text', 'message', 'audio', 'video']
  .map((type) => `mime:${type}/*`)
  .join(' OR ');
const ANY = `(has:attachment OR (has:inline (-mime:image/* OR ${OTHER_THAN_PICTURES})))`;
const ANY_WITH_PICTURES = '(has:attachment OR has:inline)';

function queryFor(
  query: string,
  { group, inlinePictures }: { group: FileGroup | null; inlinePictures: boolean },
) {
  // No term distinguishes attached from inline pictures.
  const isNamed = group !== null && (group !== 'pictures' || inlinePictures);
  const ofGroup = isNamed ? groupFilter(group) : null;
  const filter = ofGroup ?? (inlinePictures ? ANY_WITH_PICTURES : ANY);
  const isFiltered =
    findTerm(query, filter) !== undefined ||
    (ofGroup === null && findTerm(query, ATTACHED) !== undefined);
  const text = isFiltered ? query : addTerm(query, filter);
  // If a group cannot be expressed in a query, the messages may have attachments of any type.
  return { text, isOfGroup: group === null || ofGroup !== null };
}

/** Time limit for listing all attachments to save, in milliseconds. The user waits for it only once. */
const LISTING_MS = 1_000;

/** Lists each distinct attachment once, with its newest message; undefined if there are too many for one file or time runs out. */
function listedFiles(
  { catalog }: Pick<Reader, 'catalog'>,
  request: FilesRequest,
): SavedFile[] | undefined {
  const wanted = { ...request, limit: MAX_FILES + 1 };
  const { files, next } = catalog.files.page(wanted, deadline(LISTING_MS));
  const rows = files.map(({ message: { id, date }, number, filename, size }) => ({
    ...{ id, number, filename, size },
    date: date === null ? null : new Date(date).toISOString(),
  }));
  return next !== null || exceedsDownloadLimit(rows) ? undefined : rows;
}

/** Maximum attachments read concurrently, each on its own thread. Opened messages have a separate limit. */
const READINGS = 2;
const readings = new Semaphore(READINGS);
const FINDING_MS = 400;

export class FilesPages {
  readonly #sums = new VersionCache<string, FilesCount>(MAX_SUMS);

  constructor(
    private readonly parts: Pick<ArchiveParts, 'archive' | 'now'>,
    private readonly pages: Pick<MailPages, 'frame' | 'asked'>,
  ) {}

  async files(reader: ServedReader, parameter: Parameter, signal: AbortSignal) {
    const { asked, request, group, inlinePictures } = this.#readRequest(reader, parameter);
    const position = decodePosition(reader.catalog, parameter('after') ?? '');
    const typed = parameter('a') ?? '';
    const chosen = /^[0-9a-f]{64}$/i.test(typed) ? typed.toLowerCase() : null;
    const options = { spare: this.parts.archive.spare, signal };
    const page = {
      kind: 'files' as const,
      frame: this.pages.frame(reader, asked),
      /** Null for an invalid query. */
      list: request && this.list(reader, request, position),
      /** Null for all. */
      group,
      inlinePictures,
      /** Query for the messages with these attachments; null without a list. */
      messages: request && this.messages(reader, asked.query, { group, inlinePictures }, parameter),
      after: position === undefined ? undefined : parameter('after'),
      /** SHA-256 of the chosen attachment, in hexadecimal. */
      chosen,
      /** Null if no attachment is chosen, or no message contains it. */
      detail:
        request === null || chosen === null
          ? null
          : await readings.run(() => fileDetail(reader, request, chosen, options), signal),
      pending: reader.catalog.index.pendingCount(),
    };
    return { page, status: statusOf(asked.problem) };
  }

  /** Returns a query for the messages with the listed attachments, and their number; null if the query is invalid. */
  messages(
    reader: ServedReader,
    query: string,
    filter: Parameters<typeof queryFor>[1],
    parameter: Parameter,
  ) {
    const { text, isOfGroup } = queryFor(query, filter);
    const { request } = this.pages.asked(reader, (name) => (name === 'q' ? text : parameter(name)));
    if (request === null) return null;
    const found = reader.catalog.prepare(request).countWhile(deadline(COUNTING_MS));
    return { query: text, found, isOfGroup };
  }

  together(reader: ServedReader, parameter: Parameter, options: ReadingFor): Download | undefined {
    const { asked, request } = this.#readRequest(reader, parameter);
    const files = request === null ? [] : (listedFiles(reader, request) ?? []);
    return zipAttachments(reader, files, attachmentsName(asked.query, this.parts.now()), options);
  }

  /** Reads a picture and checks its hash. Returns undefined if no page would show it. */
  async picture(
    reader: ServedReader,
    hash: string,
    parameter: Parameter,
    signal: AbortSignal,
  ): Promise<{ readonly type: ImageType; readonly bytes: Buffer } | undefined> {
    const { request } = this.pages.asked(reader, parameter);
    const found =
      request === null
        ? undefined
        : reader.catalog.files.content(request, hash, 1, deadline(FINDING_MS));
    if (found === undefined || found.group !== 'pictures' || found.size > MAX_IMAGE_BYTES)
      return undefined;
    const target = { ...found, message: found.message.id };
    const options = { spare: this.parts.archive.spare, signal };
    const read = await readings.run(() => readContent(reader, target, options), signal);
    if (read.state !== 'whole') return undefined;
    const type = displayableImageType(read.bytes);
    return type === undefined ? undefined : { type, bytes: read.bytes };
  }

  #readRequest(reader: ServedReader, parameter: Parameter) {
    const asked = this.pages.asked(reader, parameter);
    const group = FILE_GROUPS.find((known) => known === parameter('type')) ?? null;
    const inlinePictures = parameter('inline') === '1';
    const request = asked.request && {
      ...asked.request,
      group: group ?? undefined,
      inlinePictures,
      timeZone: parameter('zone'),
    };
    return { asked, request, group, inlinePictures };
  }

  /** Lists a page of attachments, with the numbers of all. */
  list(
    { catalog }: ServedReader,
    request: FilesRequest & { readonly timeZone?: string | undefined },
    after: FilePosition | undefined,
  ) {
    return catalog.snapshot(() => {
      const { group = '', inlinePictures = false, asOf = null, node, timeZone } = request;
      // Keyed by the parsed query, because words such as `yesterday` mean a different day tomorrow.
      const name = JSON.stringify([group, inlinePictures, asOf, node, timeZone]);
      let counted = this.#sums.find(catalog.version(), name);
      if (counted === undefined) {
        counted = catalog.files.sums(request, deadline(COUNTING_MS));
        if (counted.complete) this.#sums.keep(name, counted);
      }
      const { months, ...sums } = counted;
      const words = soughtPhrases(node, ['any']);
      const wanted = { ...request, limit: TILES, after };
      const { files, next } = catalog.files.page(wanted, deadline(WALKING_MS));
      const hasTime = deadline(TEXTS_MS);
      return {
        tiles: files.map((file) => tileOf(file, sheetOf(catalog, file, words, hasTime), timeZone)),
        next: next === null ? null : encodePosition(catalog, next),
        sums,
        months: months.map(({ key, from, count }) => ({ key, after: positionText(from), count })),
      };
    });
  }
}
