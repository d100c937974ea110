import { createHash } from 'node:crypto';
import { isCount, isHash, isObject, parseJson } from '../archive/format/json-shape.ts';
import {
  EXPORT_FORMATS,
  type InMbox,
  MANIFEST_VERSION,
  type ManifestEntry,
  type ManifestFile,
  type ManifestHead,
  type MissingPlace,
} from './manifest.ts';

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
