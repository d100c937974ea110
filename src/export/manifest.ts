import { createHash } from 'node:crypto';
import { isCount, isHash, isObject, parseJson } from '../archive/format/json-shape.ts';

export const EXPORT_FORMATS = ['eml', 'zip', 'mbox', 'maildir'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/** Next to the exported folders, and the last entry of a zip. */
export const MANIFEST_NAME = 'mailkeep-export.json';
/** Stands next to the manifest while an export is running, and after one that was interrupted. */
export const UNFINISHED_NAME = 'mailkeep-export.unfinished.json';

export const MANIFEST_VERSION = 'export 1';

/** What the export is of. Nothing in it depends on the clock or the machine: the same state gives the same bytes. */
export interface ManifestHead {
  readonly mailkeep: typeof MANIFEST_VERSION;
  readonly format: ExportFormat;
  /** The commit that the archive had reached. */
  readonly commit: { readonly number: number; readonly hash: string };
  /** The commit as of which the export is, and its time; null for the present. */
  readonly asOf: { readonly number: number; readonly time: string } | null;
  readonly selection: {
    readonly query: string | null;
    /** How many messages were named by their ids, where they were. */
    readonly ids?: number;
    /** One name as text, several as a list; null for all. */
    readonly mailbox: string | readonly string[] | null;
    readonly folder: string | readonly string[] | null;
    readonly deleted: boolean;
    /** Present where messages that were deleted everywhere are exported along with the others. */
    readonly withDeleted?: true;
  };
}

/** One exported place. */
export interface ManifestEntry {
  /** Relative to the export, parted by `/`: the message's file, or the mbox it is in. */
  readonly path: string;
  /** The message's id: the SHA-256 of its source. */
  readonly sha256: string;
  /** Bytes of the source. */
  readonly size: number;
  /** The address. */
  readonly mailbox: string;
  readonly host: string;
  readonly resourceId: string;
  readonly folder: string;
  /** What separates the levels of `folder`; absent in manifests of earlier versions. */
  readonly delimiter?: string;
  /** What the folder is for, such as `\\Sent`; absent where it has no special use. */
  readonly specialUse?: string;
  /** Where other folders had this path before: how many. */
  readonly namesake?: number;
  readonly generation: number;
  readonly uid: number;
  readonly flags: readonly string[];
  readonly date: string | null;
  readonly firstSeen: string | null;
  readonly endedAt: string | null;
  /** In an mbox: where the message is, behind its "From " line. */
  readonly inMbox?: InMbox;
}

export interface InMbox {
  readonly offset: number;
  /** Bytes in the mbox, the empty line behind it left out. */
  readonly length: number;
  /** Bytes of header lines put before the source (Status and its like). */
  readonly added: number;
  /** True when the source has no line end at its end, and one was put there. */
  readonly lineEndAdded: boolean;
}

/** Any other file of the export: an mbox, a sidecar. */
export interface ManifestFile {
  readonly path: string;
  readonly sha256: string;
  readonly size: number;
}

/** A place that the export should have and has not. */
export interface MissingPlace {
  readonly id: string | null;
  readonly mailbox: string;
  readonly folder: string;
  /** As in an entry. */
  readonly namesake?: number;
  readonly generation: number;
  readonly uid: number;
  readonly reason: 'quarantined' | 'damaged' | 'purged';
}

export interface ManifestParts {
  readonly head: ManifestHead;
  readonly entries: Iterable<ManifestEntry>;
  readonly files: Iterable<ManifestFile>;
  readonly missing: Iterable<MissingPlace>;
}

/**
 * A manifest as text, in pieces: one JSON object, an item a line, so that one of any size can be read line by line.
 * Its last field is the SHA-256 of every byte before the line that it stands in.
 */
export function* manifestText({ head, entries, files, missing }: ManifestParts) {
  const digest = createHash('sha256');
  let text = `${JSON.stringify(head).slice(0, -1)},\n`;
  const flush = function* (): Generator<string> {
    digest.update(text);
    yield text;
    text = '';
  };
  const lists: readonly (readonly [string, Iterable<unknown>])[] = [
    ['entries', entries],
    ['files', files],
    ['missing', missing],
  ];
  for (const [name, items] of lists) {
    text += `"${name}":[`;
    let first = true;
    for (const item of items) {
      text += `${first ? '' : ','}\n${JSON.stringify(item)}`;
      first = false;
      if (text.length > 65_536) yield* flush();
    }
    text += '\n],\n';
  }
  yield* flush();
  yield `"sha256":"${digest.digest('hex')}"}\n`;
}

export type ManifestEvent =
  | { readonly what: 'head'; readonly head: ManifestHead }
  | { readonly what: 'entry'; readonly entry: ManifestEntry }
  | { readonly what: 'file'; readonly file: ManifestFile }
  | { readonly what: 'missing'; readonly place: MissingPlace };

/** The manifest is not what was written. */
export class ManifestDamaged extends Error {}

/** A list that a line may be in, from its first line to its last. */
const EVENT_OF = { entries: 'entry', files: 'file', missing: 'missing' } as const;

/**
 * Reads a manifest back, line by line. Its content is proven only when it ends without an error: its last line
 * has the hash of all others.
 *
 * @throws ManifestDamaged
 */
export async function* readManifest(
  lines: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<ManifestEvent, void, undefined> {
  const digest = createHash('sha256');
  let list: keyof typeof EVENT_OF | undefined;
  let headRead = false;
  for await (const line of lines) {
    const seal = /^"sha256":"([0-9a-f]{64})"\}$/.exec(line)?.[1];
    if (seal !== undefined) {
      if (seal !== digest.digest('hex')) throw new ManifestDamaged('the hash differs');
      return;
    }
    digest.update(`${line}\n`);
    if (!headRead) {
      headRead = true;
      yield { what: 'head', head: headOf(line) };
      continue;
    }
    const opened = /^"(entries|files|missing)":\[$/.exec(line)?.[1];
    if (opened === 'entries' || opened === 'files' || opened === 'missing') list = opened;
    else if (line === '],') list = undefined;
    else if (list !== undefined) yield itemOf(list, line);
    else throw new ManifestDamaged('a line that is none');
  }
  throw new ManifestDamaged('it ends early');
}

function headOf(line: string): ManifestHead {
  const head = parseJson(`${line.replace(/,$/, '')}}`);
  if (!isHead(head)) throw new ManifestDamaged('a head that is none');
  if (head.mailkeep !== MANIFEST_VERSION) throw new ManifestDamaged('another version');
  return head;
}

function itemOf(list: keyof typeof EVENT_OF, line: string): ManifestEvent {
  const item = parseJson(line.replace(/,$/, ''));
  if (list === 'entries' && isEntry(item)) return { what: 'entry', entry: item };
  if (list === 'files' && isFile(item)) return { what: 'file', file: item };
  if (list === 'missing' && isMissing(item)) return { what: 'missing', place: item };
  throw new ManifestDamaged(`an item that is none of ${list}`);
}

/*
 * A manifest is proven by a hash that anybody can compute: its lines may be forged. Fields that are shown, stored in a
 * database or used for reading are therefore checked for their types.
 */

type Fields = Readonly<Record<string, unknown>>;

function isHead(value: unknown): value is ManifestHead {
  if (!isObject(value)) return false;
  const { format, commit, asOf, selection } = value;
  return (
    EXPORT_FORMATS.some((known) => known === format) &&
    isObject(commit) &&
    isCount(commit.number) &&
    // Empty before the first commit.
    (isHash(commit.hash) || commit.hash === '') &&
    (asOf === null || (isObject(asOf) && isCount(asOf.number) && isMoment(asOf.time))) &&
    isObject(selection)
  );
}

function isEntry(value: unknown): value is ManifestEntry {
  if (!isObject(value)) return false;
  const { host, resourceId, delimiter, specialUse, flags, date, firstSeen, endedAt, inMbox } =
    value;
  return (
    isFile(value) &&
    isPlace(value) &&
    typeof host === 'string' &&
    typeof resourceId === 'string' &&
    [delimiter, specialUse].every((text) => text === undefined || typeof text === 'string') &&
    Array.isArray(flags) &&
    flags.every((flag) => typeof flag === 'string') &&
    [date, firstSeen, endedAt].every((time) => time === null || isMoment(time)) &&
    (inMbox === undefined || isInMbox(inMbox))
  );
}

function isFile(value: unknown): value is ManifestFile {
  return (
    isObject(value) &&
    typeof value.path === 'string' &&
    isHash(value.sha256) &&
    isCount(value.size) &&
    isInside(value.path)
  );
}

function isMissing(value: unknown): value is MissingPlace {
  return isObject(value) && isPlace(value) && (value.id === null || isHash(value.id));
}

function isPlace({ mailbox, folder, namesake, generation, uid }: Fields): boolean {
  return (
    typeof mailbox === 'string' &&
    typeof folder === 'string' &&
    (namesake === undefined || isCount(namesake)) &&
    isCount(generation) &&
    isCount(uid)
  );
}

function isInMbox(value: unknown): value is InMbox {
  if (!isObject(value)) return false;
  const { offset, length, added, lineEndAdded } = value;
  return [offset, length, added].every(isCount) && typeof lineEndAdded === 'boolean';
}

function isMoment(value: unknown): boolean {
  return typeof value === 'string' && !Number.isNaN(Date.parse(value));
}

/** Returns whether a path stays inside its folder: a foreign manifest must not lead out of it. */
function isInside(path: string): boolean {
  return !path
    .split('/')
    .some((level) => /^(?:\.{0,2}|.*[\\\0:].*)$/s.test(level.replace(/:2,[A-Za-z]*$/, '')));
}
