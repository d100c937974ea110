import { DOCIDS_PER_SECOND, docidAt, isDated } from '../../mail/docid.ts';
import type { BlobHash } from '../../mail/words.ts';
import { localMoment, wallTime } from '../../search/dates.ts';
import { type KnownText, knownText } from '../attachment-texts.ts';
import type { Connection } from '../connection.ts';
import { isCutOff } from '../put-attachments.ts';
import { query } from '../query.ts';
import { type View, viewOf } from '../search/conditions.ts';
import type { CountRequest, HitCount, SearchQueries } from '../search/search.ts';
import { type FilePosition, type FilesRequest, type FoundFile, FoundFiles } from './found-files.ts';
import { FILE_GROUPS, type FileGroup } from './group-names.ts';
import {
  countHolders,
  type HolderMessage,
  type Holders,
  holderMessage,
  holdersOf,
} from './holders.ts';

/** A content of the list, with the newest message of the result that has it. */
export interface ListedFile extends FilePosition {
  /** SHA-256 of its bytes; of an attachment that is cut off, a value of its own. */
  readonly hash: BlobHash;
  readonly filename: string | null;
  readonly type: string;
  readonly size: number;
  readonly group: FileGroup;
  /** Its text; null where it has none to be read. */
  readonly textId: number | null;
  /** The message ends before the attachment does. */
  readonly isCutOff: boolean;
  readonly message: HolderMessage;
  /** Messages that have it, whether the query finds them or not. */
  readonly messages: HitCount;
}

export interface FilesPage {
  readonly files: readonly ListedFile[];
  /** Where the next page continues; null at the end. A page may be short of its limit where there was no more time. */
  readonly next: FilePosition | null;
}

/** Contents whose newest message was received in one month. */
export interface FilesOfMonth {
  /** `2026-03` */
  readonly key: string;
  /** Where its list begins. */
  readonly from: FilePosition;
  readonly count: number;
}

/** How many distinct contents a query's messages have; at least so many where counting was given up. */
export interface FilesSums {
  /** Of each group, also where the request names one. */
  readonly groups: Readonly<Record<FileGroup, number>>;
  /** Of the group that is asked for, the newest first; where counting was given up, the last is not complete. */
  readonly months: readonly FilesOfMonth[];
  readonly complete: boolean;
}

/** One content, with the messages that have it. */
export interface FileContent extends ListedFile, Pick<Holders, 'newest' | 'first'> {
  /** Whether the query finds a message that has it. */
  readonly isFound: boolean;
}

/** An attachment of a message, and in how many messages of a view it is. */
export interface SharedFile {
  readonly number: number;
  readonly hash: BlobHash;
  readonly textId: number | null;
  readonly messages: HitCount;
}

/** Attachments, each content once however many messages have it. What a request's query, moment and scope leave out is not there. */
export interface FileQueries {
  /** Lists contents in the order of the newest message that has them. */
  page(
    request: FilesRequest & { readonly limit: number; readonly after?: FilePosition | undefined },
    mayContinue: () => boolean,
  ): FilesPage;
  /** @param timeZone IANA name of the zone whose months are meant; absent: this machine's */
  sums(
    request: FilesRequest & { readonly timeZone?: string | undefined },
    mayContinue: () => boolean,
  ): FilesSums;
  /**
   * Returns a content that a message of the archive has; of the messages at most `limit`. Where there is no time, it may
   * be missing, or said not to be found by the query.
   */
  content(
    request: FilesRequest,
    hash: BlobHash,
    limit: number,
    mayContinue: () => boolean,
  ): FileContent | undefined;
  /** Returns the first attachments of a message, and in how many messages each is. */
  ofMessage(
    request: Pick<CountRequest, 'asOf' | 'scope'>,
    docid: number,
    mayContinue: () => boolean,
  ): SharedFile[];
  /** @throws `catalog-damaged` */
  text(textId: number): KnownText | undefined;
}

/** Contents that are counted: each takes some 100 bytes of memory meanwhile. */
const MOST_COUNTED = 200_000;

/** Attachments of one message that are looked for in others: each costs a query. */
const MOST_OF_MESSAGE = 200;

const OF_MESSAGE = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('attachments')
    .select(['number', 'hash', 'text_id'])
    .where('docid', '=', p.docid)
    .where('hash', 'is not', null)
    .orderBy('number')
    .limit((eb) => eb.lit(MOST_OF_MESSAGE)),
);

export function fileQueries(connection: Connection, search: SearchQueries): FileQueries {
  const listed = (
    found: FoundFile,
    view: View,
    mayContinue: () => boolean,
  ): ListedFile | undefined => {
    const message = holderMessage(connection, found.docid, view);
    if (message === undefined) return undefined;
    const messages = countHolders(connection, found.hash, view, mayContinue);
    const hash = connection.hex(found.hash);
    return { ...found, hash, isCutOff: isCutOff(found), message, messages };
  };
  return {
    page: ({ limit, after, ...request }, mayContinue) =>
      connection.snapshot(() => {
        const view = viewOf(connection, request);
        const files: ListedFile[] = [];
        let reached = after ?? null;
        for (const found of new FoundFiles(connection, search, request).behind(
          after,
          mayContinue,
        )) {
          if ('reached' in found) reached = found.reached;
          else {
            // There is more: the page ends behind what it has.
            if (files.length >= limit) return { files, next: reached };
            reached = { docid: found.docid, number: found.number };
            const file = listed(found, view, mayContinue);
            if (file !== undefined) files.push(file);
          }
          // What was looked through in vain is not looked through again.
          if (!mayContinue()) return { files, next: reached };
        }
        return { files, next: null };
      }),
    sums: ({ timeZone, ...request }, mayContinue) =>
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
          } else if (!mayContinue() || walk.met >= MOST_COUNTED) {
            complete = false;
            break;
          }
        }
        return { groups: allGroups(groups), months: months.all, complete };
      }),
    content: (request, hash, limit, mayContinue) =>
      connection.snapshot(() => {
        const view = viewOf(connection, request);
        const bytes = Buffer.from(hash, 'hex');
        const holders = holdersOf(connection, bytes, limit, view, mayContinue);
        // Whoever asks learns of what others have neither by the answer nor by the time it takes.
        if (holders.messages.count === 0) return undefined;
        const { group: _, ...asked } = request;
        const inTexts: FilesRequest = { ...asked, inlinePictures: true };
        const all: FilesRequest = { ...inTexts, node: { kind: 'all', span: { start: 0, end: 0 } } };
        const newest = (among: FilesRequest) =>
          new FoundFiles(connection, search, among).newestWith(bytes, mayContinue);
        // As the list has it; else where it stands in a text; else where the query does not find it.
        const found = newest(asked) ?? newest(inTexts);
        const shown = found ?? newest(all);
        const file = shown === undefined ? undefined : listed(shown, view, mayContinue);
        return file === undefined
          ? undefined
          : { ...file, newest: holders.newest, first: holders.first, isFound: found !== undefined };
      }),
    ofMessage: (request, docid, mayContinue) =>
      connection.snapshot(() => {
        const view = viewOf(connection, request);
        return connection.all(OF_MESSAGE, { docid }).flatMap(({ number, hash, text_id: textId }) =>
          hash === null
            ? []
            : [
                {
                  number,
                  hash: connection.hex(hash),
                  textId,
                  messages: countHolders(connection, hash, view, mayContinue),
                },
              ],
        );
      }),
    text: (textId) => knownText(connection, textId),
  };
}

function allGroups(counted: ReadonlyMap<FileGroup, number>): Record<FileGroup, number> {
  const groups = { pdf: 0, pictures: 0, documents: 0, tables: 0, archives: 0, other: 0 };
  for (const group of FILE_GROUPS) groups[group] = counted.get(group) ?? 0;
  return groups;
}

/** Counts docids that come newest first by the months of a zone. */
class Months {
  readonly all: (FilesOfMonth & { count: number })[] = [];
  /** The first docid of the month that is counted. */
  #low = Number.POSITIVE_INFINITY;

  constructor(private readonly timeZone: string | undefined) {}

  add(docid: number): void {
    const last = this.all.at(-1);
    if (last !== undefined && docid >= this.#low) {
      last.count += 1;
      return;
    }
    if (!isDated(docid)) return;
    const time = Math.floor(docid / DOCIDS_PER_SECOND) * 1000;
    const { year, month } = wallTime(time, this.timeZone);
    const next = month === 12 ? { year: year + 1, month: 1 } : { year, month: month + 1 };
    this.#low = docidAt(localMoment({ year, month, day: 1 }, this.timeZone));
    this.all.push({
      key: `${String(year).padStart(4, '0')}-${String(month).padStart(2, '0')}`,
      from: { docid: docidAt(localMoment({ ...next, day: 1 }, this.timeZone)) - 1, number: 0 },
      count: 1,
    });
  }
}
