import { type Address, type BlobHash, FILE_GROUPS, type FileGroup } from '../core/types.ts';
import { hasDate } from '../mail/docid.ts';
import { knownText } from './attachment-texts.ts';
import type { Connection } from './database.ts';
import { endsBeforeAttachment } from './indexing.ts';
import { displaySender, readableText } from './messages.ts';
import { selectBy } from './query.ts';
import type { SearchNode } from './query-ast.ts';
import { createView, seen, type View } from './resolve-query.ts';
import {
  type CountRequest,
  type HitCount,
  type PreparedQuery,
  type SearchQueries,
  shownPlaces,
} from './search.ts';
import { isInScope, isVisible } from './sql.ts';
import { enclosingPeriod } from './timeline.ts';

interface Carrier {
  readonly docid: number;
  readonly number: number;
}

const ASKED_AFTER = 256;

/**
 * Yields the attachments with the given content, by message. The same logo can be in most of an archive's messages, so
 * the walk regularly checks whether to continue. Returns true if it reached the end.
 *
 * @param meant SQL condition on an attachment `a` of a message `m`; skipped attachments also take time
 */
function* carriersOf(
  connection: Connection,
  hash: Buffer,
  { meant, order }: { readonly meant: string; readonly order: 'newest' | 'oldest' },
  mayContinue: () => boolean,
): Generator<Carrier, boolean, undefined> {
  const direction = order === 'newest' ? 'DESC' : 'ASC';
  const rows = connection.text<Carrier & { readonly isMeant: 0 | 1 }>(
    `SELECT a.docid, a.number, (${meant}) AS isMeant
     FROM attachments a CROSS JOIN messages m ON m.docid = a.docid
     WHERE a.hash = ? ORDER BY a.docid ${direction}, a.number ${direction}`,
    [hash],
  );
  let steps = 0;
  for (const { docid, number, isMeant } of rows) {
    if (isMeant === 1) yield { docid, number };
    steps += 1;
    if (steps % ASKED_AFTER === 0 && !mayContinue()) return false;
  }
  return true;
}

/** Types so generic that the file extension decides instead. */
const UNTOLD =
  /^(?:$|application\/(?:octet-?stream|binary|(?:force-|x-)?download|x-msdownload|unknown|x-unknown|save|file)$|text\/plain$)/;
const BY_TYPE: readonly (readonly [FileGroup, RegExp])[] = [
  ['pdf', /^application\/(?:x-)?pdf$/],
  ['pictures', /^image\//],
  [
    'tables',
    /^(?:text\/(?:csv|tab-separated-values)|application\/(?:csv|x-csv|vnd\.ms-excel|vnd\.apple\.numbers|vnd\.openxmlformats-officedocument\.spreadsheetml\.|vnd\.oasis\.opendocument\.spreadsheet))/,
  ],
  [
    'archives',
    /^application\/(?:zip|gzip|x-(?:zip|zip-compressed|gzip|tar|gtar|bzip2?|xz|7z-compressed|rar|rar-compressed|compress)|vnd\.rar|java-archive|zstd)$/,
  ],
  [
    'documents',
    /^(?:text\/|message\/|application\/(?:msword|rtf|ics|xhtml\+xml|vnd\.(?:openxmlformats-officedocument\.|oasis\.opendocument\.|ms-(?:word|powerpoint)|apple\.(?:pages|keynote)))|application\/xml$|application\/json$)/,
  ],
];
const BY_ENDING: ReadonlyMap<string, FileGroup> = new Map([
  ...each('pdf', 'pdf'),
  ...each('pictures', 'png jpg jpeg jpe gif webp bmp svg tif tiff heic heif avif ico'),
  ...each('tables', 'csv tsv xls xlsx xlsm xltx ods numbers'),
  ...each('archives', 'zip gz tgz tar bz2 xz 7z rar zst jar'),
  ...each('documents', 'doc docx docm dotx odt ott rtf ppt pptx pptm ppsx odp otp pages'),
  ...each('documents', 'txt text md log html htm xhtml xml json eml ics vcf tex'),
]);

/**
 * Returns the group of an attachment. The type takes precedence over the name, as in text extraction.
 *
 * @param type in lower case
 */
export function fileGroup(type: string, filename: string | null): FileGroup {
  const named = endingGroup(filename);
  if (UNTOLD.test(type)) return named ?? (type === 'text/plain' ? 'documents' : 'other');
  return BY_TYPE.find(([, types]) => types.test(type))?.[0] ?? 'other';
}

const NAMED_TYPES: Readonly<Partial<Record<FileGroup, readonly string[]>>> = {
  pdf: ['application/pdf'],
  pictures: ['image/*'],
  tables: ['text/csv', 'application/vnd.ms-excel'],
  archives: ['application/zip', 'application/gzip'],
  documents: ['application/msword', 'application/rtf'],
};

/**
 * Returns a query for the attachments in a group, by type or extension; null if the query language cannot express it.
 */
export function groupFilter(group: FileGroup): string | null {
  const types = NAMED_TYPES[group]?.map((type) => `mime:${type}`);
  if (types === undefined) return null;
  const endings = [...BY_ENDING].flatMap(([ending, owner]) => (owner === group ? ending : []));
  const named = endings.length === 1 ? endings.join('') : `(${endings.join(' OR ')})`;
  return `(${[...types, `filename:${named}`].join(' OR ')})`;
}

function endingGroup(filename: string | null): FileGroup | undefined {
  const ending = /\.([a-z0-9]{2,7})[\s.]{0,8}$/i.exec(filename ?? '')?.[1];
  return ending === undefined ? undefined : BY_ENDING.get(ending.toLowerCase());
}

function each(group: FileGroup, endings: string): (readonly [string, FileGroup])[] {
  return endings.split(' ').map((ending) => [ending, group] as const);
}

export interface FilesRequest extends CountRequest {
  readonly group?: FileGroup | undefined;
  /** Includes images in message text, which are mostly signature logos. */
  readonly inlinePictures?: boolean | undefined;
}

/** A position in the attachment list. Number 0 precedes the first attachment of a message. */
export interface FilePosition {
  readonly docid: number;
  readonly number: number;
}

/** A distinct attachment, and the newest matching message that contains it. */
interface FoundFile extends FilePosition {
  readonly filename: string | null;
  /** In lower case. */
  readonly type: string;
  readonly size: number;
  readonly hash: Buffer;
  readonly group: FileGroup;
  readonly textId: number | null;
}

interface Reached {
  readonly reached: FilePosition;
}

interface Row extends Omit<FoundFile, 'group' | 'textId'> {
  readonly text_id: number | null;
}

/** Number of messages per statement when reading attachments: for the first statement, and the maximum. */
const FIRST = 128;
const MOST = 2_048;
/** Number of messages that contain an attachment to search at a time. */
const AMONG = 16;
/** Beyond this many searches, one walk over the result is cheaper. */
const MAX_SEARCHES = 32;

const SPAN = { start: 0, end: 0 };
const HAS_ANY: SearchNode = {
  kind: 'or',
  nodes: [
    { kind: 'has', what: 'attachment', span: SPAN },
    { kind: 'has', what: 'inline', span: SPAN },
  ],
  span: SPAN,
};

/**
 * Walks the distinct attachments in a query's matches, newest first. Content appears only with its newest message, even
 * if the walk starts after that message.
 */
class FoundFiles {
  readonly #hashes = new Set<string>();
  readonly #query: PreparedQuery;
  readonly #group: FilesRequest['group'];
  readonly #rowFilter: string;
  readonly #meant: string;
  readonly #isAll: boolean;
  #searches = 0;
  readonly #found = new Set<number>();
  #last = Number.POSITIVE_INFINITY;
  #walk: Generator<number, number | null, undefined> | undefined;

  constructor(
    private readonly connection: Connection,
    search: SearchQueries,
    request: FilesRequest,
  ) {
    const { node, asOf } = request;
    const { scope } = connection;
    this.#isAll = node.kind === 'all' && asOf === undefined && scope === null;
    const nodes = [node, HAS_ANY];
    this.#query = search.prepare({ ...request, node: { kind: 'and', nodes, span: node.span } });
    this.#group = request.group;
    this.#rowFilter =
      request.inlinePictures === true ? '1' : "NOT (a.inline = 1 AND a.type LIKE 'image/%')";
    this.#meant = `${this.#rowFilter} AND ${isVisible(scope)}`;
  }

  get met(): number {
    return this.#hashes.size;
  }

  /**
   * Yields the attachments after a position, or all of them. Also yields the current position every few thousand
   * messages, so that the caller can stop. Ends when `mayContinue` returns false. Content can recur after a position if
   * time ran out while searching for a newer message that contains it.
   */
  *behind(
    position: FilePosition | undefined,
    mayContinue: () => boolean,
  ): Generator<FoundFile | Reached, void, undefined> {
    const group = this.#group;
    const after = position === undefined ? undefined : position.docid + 1;
    const docids = this.#query.walk({ after }, mayContinue);
    try {
      for (let size = FIRST; ; size = Math.min(MOST, size * 2)) {
        const { chunk, end } = take(docids, size);
        for (const row of this.#rowsOf(chunk)) {
          if (position !== undefined && isAt(row, position)) continue;
          const key = row.hash.toString('latin1');
          if (this.#hashes.has(key)) continue;
          this.#hashes.add(key);
          const rowGroup = fileGroup(row.type, row.filename);
          // The newest message also determines the type, so that groups are independent of each other.
          if (group !== undefined && group !== rowGroup) continue;
          if (position !== undefined && this.#isEarlier(row.hash, position, mayContinue)) continue;
          const { text_id: textId, ...rest } = row;
          yield { ...rest, textId, group: rowGroup };
        }
        if (end === null) return;
        // The position before the first attachment of the next message.
        const next = end ?? chunk.at(-1) ?? 0;
        yield { reached: { docid: next - 1, number: 0 } };
        if (end !== undefined) return;
      }
    } finally {
      docids.return(null);
      this.#walk?.return(null);
    }
  }

  /** Returns the newest matching attachment with this content; undefined if there is none or time ran out. */
  newestWith(hash: Buffer, mayContinue: () => boolean): FoundFile | undefined {
    const docid = this.#newestAmong(this.#carriers(hash, mayContinue), mayContinue);
    this.#walk?.return(null);
    if (docid === undefined) return undefined;
    const [row] = [...this.#rowsOf([docid])].filter((candidate) => candidate.hash.equals(hash));
    if (row === undefined) return undefined;
    const { text_id: textId, ...rest } = row;
    return { ...rest, textId, group: fileGroup(row.type, row.filename) };
  }

  #rowsOf(docids: readonly number[]): IterableIterator<Row> {
    return this.connection.text<Row>(
      `SELECT a.docid, a.number, a.filename, a.type, a.size, a.hash, a.text_id FROM attachments a
       WHERE a.docid IN (SELECT value FROM json_each(?)) AND ${this.#rowFilter}
       ORDER BY a.docid DESC, a.number`,
      [JSON.stringify(docids)],
    );
  }

  /** Reports whether a matching message at or before a position has this content. */
  #isEarlier(hash: Buffer, position: FilePosition, mayContinue: () => boolean): boolean {
    const carriers = this.#carriers(hash, mayContinue);
    const earlier = takeUpTo(carriers, position);
    if (!this.#isAll) return this.#newestAmong(earlier, mayContinue) !== undefined;
    const [first] = earlier;
    return first !== undefined;
  }

  #carriers(hash: Buffer, mayContinue: () => boolean): Iterable<Carrier> {
    const options = { meant: this.#meant, order: 'newest' } as const;
    return carriersOf(this.connection, hash, options, mayContinue);
  }

  /** Returns the newest matching message among these carriers, which are sorted newest first. */
  #newestAmong(carriers: Iterable<Carrier>, mayContinue: () => boolean): number | undefined {
    let among: number[] = [];
    for (const { docid } of carriers) {
      if (among.at(-1) === docid) continue;
      if (among.length === AMONG) {
        const found = this.#newestOf(among, mayContinue);
        if (found !== undefined || !mayContinue()) return found;
        among = [];
      }
      among.push(docid);
    }
    return this.#newestOf(among, mayContinue);
  }

  #newestOf(among: readonly number[], mayContinue: () => boolean): number | undefined {
    const oldest = among.at(-1);
    if (oldest === undefined) return undefined;
    if (this.#searches < MAX_SEARCHES) {
      this.#searches += 1;
      const [newest] = this.#query.walk({ among }, mayContinue);
      return newest;
    }
    this.#findDownTo(oldest, mayContinue);
    return among.find((docid) => this.#found.has(docid));
  }

  #findDownTo(docid: number, mayContinue: () => boolean): void {
    this.#walk ??= this.#query.walk({}, mayContinue);
    while (this.#last > docid) {
      const next = this.#walk.next();
      if (next.done === true) return;
      this.#last = next.value;
      this.#found.add(next.value);
    }
  }
}

function* takeUpTo(
  carriers: Iterable<Carrier>,
  position: FilePosition,
): Generator<Carrier, void, undefined> {
  for (const carrier of carriers) {
    if (carrier.docid < position.docid) return;
    if (isAt(carrier, position)) yield carrier;
  }
}

/** Reports whether an attachment is at or before a position. */
function isAt(row: FilePosition, { docid, number }: FilePosition): boolean {
  return row.docid > docid || (row.docid === docid && row.number <= number);
}

/** Takes the next items from a walk. `end` is the walk's result, or undefined if more items may follow. */
function take(
  docids: Generator<number, number | null, undefined>,
  limit: number,
): { readonly chunk: number[]; readonly end: number | null | undefined } {
  const chunk: number[] = [];
  while (chunk.length < limit) {
    const next = docids.next();
    if (next.done === true) return { chunk, end: next.value };
    chunk.push(next.value);
  }
  return { chunk, end: undefined };
}

interface HolderMessage {
  readonly id: string;
  readonly subject: string | null;
  readonly from: Address | null;
  /** When it was received, in milliseconds since the epoch. */
  readonly date: number | null;
  /** When it was deleted at the service, in milliseconds since the epoch. */
  readonly endedAt: number | null;
}

const MAX_HOLDERS_COUNTED = 1_000;

const MESSAGE = selectBy('messages', 'id, date, subject, sender_name, sender_address', 'docid');

function holderMessage(
  connection: Connection,
  docid: number,
  view: View,
): HolderMessage | undefined {
  const row = connection.get(MESSAGE, { docid });
  const [place] = shownPlaces(connection, docid, view);
  if (row === undefined || place === undefined) return undefined;
  return {
    id: connection.hex(row.id),
    subject: readableText(row.subject),
    from: displaySender(row),
    date: place.date ?? row.date,
    endedAt: place.ended_at,
  };
}

const FILENAME = selectBy('attachments', 'filename', 'docid, number');

/** Counts the messages in a view that contain this content. The count is a lower bound if time runs out. */
function countHolders(
  connection: Connection,
  hash: Buffer,
  view: View,
  mayContinue: () => boolean,
): HitCount {
  if (seen(view).length > 0) return countOf(walkHolders(connection, hash, view, 0, mayContinue));
  const [counts] = connection.text<{ messages: number; rows: number }>(
    `SELECT count(DISTINCT docid) AS messages, count(*) AS rows FROM (
       SELECT docid FROM attachments WHERE hash = ? LIMIT ${MAX_HOLDERS_COUNTED + 1})`,
    [hash],
  );
  const { messages = 0, rows = 0 } = counts ?? {};
  return rows > MAX_HOLDERS_COUNTED
    ? { count: Math.min(messages, MAX_HOLDERS_COUNTED), complete: false }
    : { count: messages, complete: true };
}

/** Returns the newest `limit` messages with this content, their total number, and the time of the first one. */
function holdersOf(
  connection: Connection,
  hash: Buffer,
  limit: number,
  view: View,
  mayContinue: () => boolean,
) {
  const found = walkHolders(connection, hash, view, limit, mayContinue);
  const newest = [...found.newest].flatMap(([docid, number]) => {
    const message = holderMessage(connection, docid, view);
    const filename = connection.get(FILENAME, { docid, number })?.filename ?? null;
    return message === undefined ? [] : [{ ...message, number, filename }];
  });
  const oldest = carriersOf(
    connection,
    hash,
    { meant: meantIn(view), order: 'oldest' },
    mayContinue,
  );
  const [first] = oldest;
  return {
    newest,
    messages: countOf(found),
    first:
      first === undefined ? null : (holderMessage(connection, first.docid, view)?.date ?? null),
  };
}

/** Returns the newest messages with this content, the first such attachment in each, and the total. */
function walkHolders(
  connection: Connection,
  hash: Buffer,
  view: View,
  limit: number,
  mayContinue: () => boolean,
) {
  const newest = new Map<number, number>();
  let messages = 0;
  let last: number | undefined;
  const carriers = carriersOf(
    connection,
    hash,
    { meant: meantIn(view), order: 'newest' },
    mayContinue,
  );
  for (let next = carriers.next(); ; next = carriers.next()) {
    if (next.done === true) return { newest, messages, complete: next.value };
    const { docid, number } = next.value;
    if (docid !== last) {
      if (messages === MAX_HOLDERS_COUNTED) break;
      messages += 1;
      last = docid;
    }
    // Numbers descend within a message, so its first attachment comes last.
    if (messages <= limit) newest.set(docid, number);
  }
  carriers.return(false);
  return { newest, messages, complete: false };
}

function countOf({ messages, complete }: ReturnType<typeof walkHolders>): HitCount {
  return { count: messages, complete };
}

function meantIn(view: View): string {
  return ['1', ...seen(view)].join(' AND ');
}

/** A distinct attachment, and the newest matching message that contains it. */
export interface ListedFile extends FilePosition {
  /** SHA-256 of its bytes, or a unique value for a truncated attachment. */
  readonly hash: BlobHash;
  readonly filename: string | null;
  readonly type: string;
  readonly size: number;
  readonly group: FileGroup;
  /** Null if it has no text. */
  readonly textId: number | null;
  /** True if the message is truncated before the end of the attachment. */
  readonly isCutOff: boolean;
  readonly message: HolderMessage;
  /** Includes messages that the query does not match. */
  readonly messages: HitCount;
}

export interface FilesPage {
  readonly files: readonly ListedFile[];
  /** Null at the end of the list. A page can be short if time ran out. */
  readonly next: FilePosition | null;
}

/** Attachments whose newest message was received in a given month. */
interface FilesOfMonth {
  readonly key: string;
  /** Start of the month in the list. */
  readonly from: FilePosition;
  readonly count: number;
}

/** Counts of distinct attachments; lower bounds unless `complete`. */
export interface FilesCount {
  /** All groups, even if the request selects one. */
  readonly groups: Readonly<Record<FileGroup, number>>;
  /** Newest first, for the requested group. The last count can be too low unless `complete`. */
  readonly months: readonly FilesOfMonth[];
  readonly complete: boolean;
}

export interface FileContent
  extends ListedFile,
    Pick<ReturnType<typeof holdersOf>, 'newest' | 'first'> {
  /** True if the query matches a message that contains it. */
  readonly isFound: boolean;
}

/** Each attachment counted takes about 100 bytes of memory. */
const MAX_COUNTED = 200_000;

/** Maximum number of attachments per message to look up in other messages. Each costs a query. */
const MAX_OF_MESSAGE = 200;

const OF_MESSAGE = selectBy(
  'attachments',
  'number, hash, text_id',
  'docid',
  `ORDER BY number LIMIT ${MAX_OF_MESSAGE}`,
);

/** Lists distinct attachments. Reveals nothing outside the request's time and the connection's scope. */
export function fileQueries(connection: Connection, search: SearchQueries) {
  const toListedFile = (
    found: FoundFile,
    view: View,
    mayContinue: () => boolean,
  ): ListedFile | undefined => {
    const message = holderMessage(connection, found.docid, view);
    if (message === undefined) return undefined;
    const messages = countHolders(connection, found.hash, view, mayContinue);
    const hash = connection.hex(found.hash);
    return { ...found, hash, isCutOff: endsBeforeAttachment(found), message, messages };
  };
  return {
    page: (
      {
        limit,
        after,
        ...request
      }: FilesRequest & { readonly limit: number; readonly after?: FilePosition | undefined },
      mayContinue: () => boolean,
    ): FilesPage =>
      connection.snapshot(() => {
        const view = createView(connection, request);
        const files: ListedFile[] = [];
        let reached = after ?? null;
        for (const found of new FoundFiles(connection, search, request).behind(
          after,
          mayContinue,
        )) {
          if ('reached' in found) reached = found.reached;
          else {
            // There are more, so the page ends after its last item.
            if (files.length >= limit) return { files, next: reached };
            reached = { docid: found.docid, number: found.number };
            const file = toListedFile(found, view, mayContinue);
            if (file !== undefined) files.push(file);
          }
          // This saves the next page from searching the same messages again.
          if (!mayContinue()) return { files, next: reached };
        }
        return { files, next: null };
      }),
    /** @param timeZone IANA time zone for the months; defaults to this machine's */
    sums: (
      { timeZone, ...request }: FilesRequest & { readonly timeZone?: string | undefined },
      mayContinue: () => boolean,
    ): FilesCount =>
      connection.snapshot(() => {
        const groups = new Map<FileGroup, number>();
        const months = new Months(timeZone);
        let complete = true;
        const { group, ...all } = request;
        const walk = new FoundFiles(connection, search, all);
        for (const found of walk.behind(undefined, mayContinue)) {
          if ('group' in found) {
            groups.set(found.group, (groups.get(found.group) ?? 0) + 1);
            if (group === undefined || group === found.group) months.add(found.docid);
          } else if (!mayContinue() || walk.met >= MAX_COUNTED) {
            complete = false;
            break;
          }
        }
        return { groups: allGroups(groups), months: months.all, complete };
      }),
    /** Returns content with up to `limit` messages. If time runs out, it can be missing or `isFound` can be false. */
    content: (
      request: FilesRequest,
      hash: BlobHash,
      limit: number,
      mayContinue: () => boolean,
    ): FileContent | undefined =>
      connection.snapshot(() => {
        const view = createView(connection, request);
        const bytes = Buffer.from(hash, 'hex');
        const holders = holdersOf(connection, bytes, limit, view, mayContinue);
        // Neither the result nor its duration may reveal the contents of other mailboxes.
        if (holders.messages.count === 0) return undefined;
        const { group: _, ...asked } = request;
        const inTexts: FilesRequest = { ...asked, inlinePictures: true };
        const all: FilesRequest = { ...inTexts, node: { kind: 'all', span: { start: 0, end: 0 } } };
        const newest = (among: FilesRequest) =>
          new FoundFiles(connection, search, among).newestWith(bytes, mayContinue);
        // Searches the listed attachments first, then inline images, then the whole view.
        const found = newest(asked) ?? newest(inTexts);
        const match = found ?? newest(all);
        const file = match === undefined ? undefined : toListedFile(match, view, mayContinue);
        return file === undefined
          ? undefined
          : { ...file, newest: holders.newest, first: holders.first, isFound: found !== undefined };
      }),
    /** Returns a message's first attachments, with the number of messages that contain each. */
    ofMessage: (request: Pick<CountRequest, 'asOf'>, docid: number, mayContinue: () => boolean) =>
      connection.snapshot(() => {
        const view = createView(connection, request);
        if (!isInScope(connection, docid)) return [];
        return connection.all(OF_MESSAGE, { docid }).map(({ number, hash, text_id: textId }) => ({
          number,
          hash: connection.hex(hash),
          textId,
          messages: countHolders(connection, hash, view, mayContinue),
        }));
      }),
    /** @throws `catalog-damaged` */
    text: (textId: number) =>
      hasText(connection, textId) ? knownText(connection, textId) : undefined,
  };
}

/** Reports whether a message in the scope has this text. */
function hasText(connection: Connection, textId: number): boolean {
  if (connection.scope === null) return true;
  const sql = `SELECT 1 FROM attachments a CROSS JOIN messages m ON m.docid = a.docid
    WHERE a.text_id = ? AND ${isVisible(connection.scope)}`;
  return connection.first<number>(sql, [BigInt(textId)]) !== undefined;
}

function allGroups(counts: ReadonlyMap<FileGroup, number>): Record<FileGroup, number> {
  const groups = { pdf: 0, pictures: 0, documents: 0, tables: 0, archives: 0, other: 0 };
  for (const group of FILE_GROUPS) groups[group] = counts.get(group) ?? 0;
  return groups;
}

class Months {
  readonly all: (FilesOfMonth & { count: number })[] = [];
  #low = Number.POSITIVE_INFINITY;

  constructor(private readonly timeZone: string | undefined) {}

  add(docid: number): void {
    const last = this.all.at(-1);
    if (last !== undefined && docid >= this.#low) {
      last.count += 1;
      return;
    }
    if (!hasDate(docid)) return;
    const { key, low, high } = enclosingPeriod('month', docid, this.timeZone);
    this.#low = low;
    this.all.push({ key: key.slice(0, 7), from: { docid: high - 1, number: 0 }, count: 1 });
  }
}
