import type { Catalog } from '../../catalog/catalog-shape.ts';
import type { FileContent, FilesSums, ListedFile } from '../../catalog/files/files.ts';
import type { FilePosition, FilesRequest } from '../../catalog/files/found-files.ts';
import type { FileGroup } from '../../catalog/files/group-names.ts';
import type { Holder } from '../../catalog/files/holders.ts';
import type { HitCount } from '../../catalog/search/search.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import { DOCIDS_PER_SECOND } from '../../mail/docid.ts';
import type { Address, BlobHash } from '../../mail/words.ts';
import { MOST_PICTURE_BYTES } from '../../mime/picture-header.ts';
import type { SearchNode } from '../../search/ast.ts';
import { wallTime } from '../../search/dates.ts';
import { type Excerpt, type Excerpts, excerpts, smallPage } from '../../search/excerpts.ts';
import { type Sought, soughtWords } from '../../search/word-matches.ts';
import { type ContentRead, readContent } from './content-bytes.ts';
import { contentText, type NoText } from './content-text.ts';
import { within } from './mail-list.ts';
import type { ReadingFor } from './reading-for.ts';

/** Tiles of a page. */
const TILES = 60;
/** For the tiles of a page, and for their texts, in milliseconds: what is not there by then is left out. */
const WALKING_MS = 400;
const TEXTS_MS = 150;
/** For all numbers of a page, in milliseconds. */
const COUNTING_MS = 150;
/** Messages that have a content which are listed. */
const MOST_HOLDERS = 50;
/** Numbers that are kept. */
const MOST_SUMS = 200;

/** What stands for a content on its tile. */
export type Sheet =
  | { readonly kind: 'picture' }
  | { readonly kind: 'text'; readonly excerpt: Excerpt }
  | { readonly kind: 'none'; readonly why: NoText };

/** A content of the list. */
export interface FileTile {
  readonly hash: BlobHash;
  readonly filename: string | null;
  readonly type: string;
  readonly size: number;
  readonly group: FileGroup;
  readonly from: Address | null;
  /** When its newest message was received, milliseconds since the epoch; and that message's month, `2026-03`. */
  readonly date: number | null;
  readonly month: string;
  /** When the service deleted that message; null where it has it. */
  readonly endedAt: number | null;
  readonly messages: HitCount;
  readonly sheet: Sheet;
}

export interface FilesList {
  readonly tiles: readonly FileTile[];
  /** What `after` is for the next page; null on the last. */
  readonly next: string | null;
  readonly sums: Omit<FilesSums, 'months'>;
  /** Months with their numbers, and what `after` is for each. */
  readonly months: readonly {
    readonly key: string;
    readonly after: string;
    readonly count: number;
  }[];
}

/** One content with the messages that have it. */
export interface FileDetail extends Omit<FileTile, 'sheet' | 'month'> {
  /** The newest message of the result that has it. */
  readonly message: string;
  readonly number: number;
  readonly isCutOff: boolean;
  readonly isPicture: boolean;
  /** When the first message that has it was received. */
  readonly first: number | null;
  readonly holders: readonly Holder[];
  readonly text: (Excerpts & { readonly truncated: boolean }) | { readonly why: NoText };
  readonly read: Exclude<ContentRead, { readonly state: 'whole' }> | { readonly state: 'whole' };
  /** Whether the query finds a message that has it. */
  readonly isFound: boolean;
}

/** Lists attachments, and keeps their sums until the archive has another commit. */
export class FilesLists {
  #version = -1;
  readonly #sums = new Map<string, FilesSums>();

  /** Reads one page of tiles. */
  of(
    { catalog }: Pick<Reader, 'catalog'>,
    request: FilesRequest,
    after: FilePosition | undefined,
  ): FilesList {
    return catalog.snapshot(() => {
      const words = soughtWords(request.node, ['any']);
      const sums = this.#sumsOf(catalog, request);
      const { files, next } = catalog.files.page(
        { ...request, limit: TILES, after },
        within(WALKING_MS),
      );
      const hasTime = within(TEXTS_MS);
      const { months, ...rest } = sums;
      return {
        tiles: files.map((file) => tileOf(file, sheetOf(catalog, file, words, hasTime))),
        next: next === null ? null : nextPosition(catalog, next),
        sums: rest,
        months: months.map(({ key: month, from, count }) => ({
          key: month,
          after: positionText(from),
          count,
        })),
      };
    });
  }

  #sumsOf(catalog: Reader['catalog'], request: FilesRequest): FilesSums {
    const version = catalog.version();
    if (version !== this.#version) this.#sums.clear();
    this.#version = version;
    const { group = '', inlinePictures = false, asOf = null, node } = request;
    // What was understood, not the text: the days that words such as `yesterday` mean are others tomorrow.
    const name = JSON.stringify([group, inlinePictures, asOf, node]);
    const known = this.#sums.get(name);
    if (known !== undefined) return known;
    const sums = catalog.files.sums(request, within(COUNTING_MS));
    if (this.#sums.size >= MOST_SUMS) this.#sums.clear();
    if (sums.complete) this.#sums.set(name, sums);
    return sums;
  }
}

/** Returns one content with what a page shows of it; null where no message that the request may see has it. */
export async function fileDetail(
  reader: Pick<Reader, 'catalog' | 'sources'>,
  request: FilesRequest,
  hash: BlobHash,
  how: ReadingFor,
): Promise<FileDetail | null> {
  const { catalog } = reader;
  const found = catalog.files.content(request, hash, MOST_HOLDERS, within(WALKING_MS));
  if (found === undefined) return null;
  const { message, number, isCutOff, first, newest, isFound } = found;
  const read = await readContent(reader, { ...found, message: message.id }, how);
  return {
    ...factsOf(found),
    message: message.id,
    number,
    isCutOff,
    isPicture: isPicture(found),
    first,
    holders: newest,
    text: textOf(catalog, found, request.node),
    read: read.state === 'whole' ? { state: 'whole' } : read,
    isFound,
  };
}

/** Returns what stands in an address for the place where a page ended. */
export function nextPosition(
  { positions }: Pick<Catalog, 'positions'>,
  { docid, number }: FilePosition,
): string {
  // Attachments of the message at the docid may remain: `oldest` gives the rank of that message itself.
  return positionText({ docid: positions.shown(docid, 'oldest'), number });
}

function positionText({ docid, number }: FilePosition): string {
  return `${docid}-${number}`;
}

/** Returns where a list continues; undefined for what no address of ours has. */
export function positionOf(
  { positions }: Pick<Catalog, 'positions'>,
  text: string,
): FilePosition | undefined {
  const parts = /^(\d{1,15})-(\d{1,5})$/.exec(text);
  if (parts === null) return undefined;
  return { docid: positions.meant(Number(parts[1]), 'oldest'), number: Number(parts[2]) };
}

function tileOf(file: ListedFile, sheet: Sheet): FileTile {
  const received = Math.floor(file.docid / DOCIDS_PER_SECOND) * 1000;
  const { year, month } = wallTime(received);
  return {
    ...factsOf(file),
    month: `${String(year).padStart(4, '0')}-${String(month).padStart(2, '0')}`,
    sheet,
  };
}

function factsOf({ hash, filename, type, size, group, message, messages }: ListedFile) {
  const { from, date, endedAt } = message;
  return { hash, filename, type, size, group, from, date, endedAt, messages };
}

/** Types that browsers show; of a type that says nothing the name does. */
const SHOWN = /^image\/(?:png|x-png|jpe?g|pjpeg|gif|webp|bmp|x-ms-bmp)$/;
const UNTOLD = /^(?:$|application\/|text\/plain$)/;
const SHOWN_ENDING = /\.(?:png|jpe?g|gif|webp|bmp)$/i;

/** Whether it may be a picture that a page shows; its bytes decide when they are asked for. */
function isPicture({ group, type, filename, size, isCutOff }: ListedFile): boolean {
  if (group !== 'pictures' || size > MOST_PICTURE_BYTES || size === 0 || isCutOff) return false;
  return SHOWN.test(type) || (UNTOLD.test(type) && SHOWN_ENDING.test(filename ?? ''));
}

function sheetOf(
  catalog: Reader['catalog'],
  file: ListedFile,
  words: readonly Sought[],
  hasTime: () => boolean,
): Sheet {
  if (isPicture(file)) return { kind: 'picture' };
  if (file.textId !== null && !hasTime()) return { kind: 'none', why: 'later' };
  const known = contentText(catalog, file);
  return 'why' in known
    ? { kind: 'none', why: known.why }
    : { kind: 'text', excerpt: smallPage(known.text, words) };
}

function textOf(
  catalog: Reader['catalog'],
  file: FileContent,
  node: SearchNode,
): FileDetail['text'] {
  const known = contentText(catalog, file);
  if ('why' in known) return known;
  return { ...excerpts(known.text, soughtWords(node, ['any'])), truncated: known.truncated };
}
