import { createHmac, randomBytes } from 'node:crypto';

/** What an object contains. */
export type ObjectKind = 'segment' | 'tail' | 'manifest' | 'settings';

/** The object that describes a copy to people, below the prefix. */
export const COPY_NAME = 'mailkeep-copy';
/** Folders of objects, with the slash. */
export const FOLDERS = {
  data: 'data/',
  keys: 'keys/',
  manifests: 'manifests/',
  settings: 'settings/',
  signers: 'signers/',
} as const;

/** Returns that many random bytes. */
export type Random = (bytes: number) => Buffer;

/** A sealed or closed segment as it is copied once. */
export interface SegmentIdentity {
  readonly segment: number;
  /** Hash of the last commit in the segment. */
  readonly endHash: string;
  /** Of the records that were purged from it, or empty. */
  readonly purgedDigest: string;
}

/** A range of bytes of the open segment. */
export interface TailIdentity {
  readonly segment: number;
  /** Offset of the first byte in the file of generation 1. */
  readonly from: number;
  /** Offset after the last byte. */
  readonly to: number;
  /** Hash of the last commit in the range. */
  readonly endHash: string;
}

/** Returns the mark (32 hex digits) by which a writer recognises the object of a segment in a clear list. */
export function segmentMark(nameKey: Buffer, identity: SegmentIdentity): string {
  const { segment, endHash, purgedDigest } = identity;
  return mark(nameKey, ['segment', segment, endHash, purgedDigest]);
}

/** Returns the mark (32 hex digits) of an object that holds a part of the open segment. */
export function tailMark(nameKey: Buffer, { segment, from, to, endHash }: TailIdentity): string {
  return mark(nameKey, ['tail', segment, from, to, endHash]);
}

/** Returns the mark of a commit in the clear part of a manifest, which shows a writer whether it is on its chain. */
export function commitMark(
  nameKey: Buffer,
  { number, hash }: { readonly number: number; readonly hash: string },
): string {
  return mark(nameKey, ['commit', number, hash]);
}

/** Returns a new name for an object with a mark: every attempt to write it has a name of its own. */
export function objectName(ofMark: string, random: Random = randomBytes): string {
  return `${FOLDERS.data}${ofMark}${random(8).toString('hex')}`;
}

/** Returns the mark in the name of an object below `data/`, or undefined for any other name. */
export function markOfName(name: string): string | undefined {
  return /^data\/([0-9a-f]{32})[0-9a-f]{16}$/.exec(name)?.[1];
}

/** Returns a new name for a manifest of a commit; the order of names is that of commits. */
export function manifestName(commit: number, random: Random = randomBytes): string {
  const digits = String(commit).padStart(16, '0');
  return `${FOLDERS.manifests}${digits}-${random(16).toString('hex')}`;
}

/** Returns the commit in the name of a manifest, or undefined for any other name. */
export function commitOfName(name: string): number | undefined {
  const digits = /^manifests\/(\d{16})-[0-9a-f]{32}$/.exec(name)?.[1];
  const commit = Number(digits);
  return Number.isSafeInteger(commit) ? commit : undefined;
}

/** Folders of small objects that have a random name each: wrapped keys, later signers, settings. */
export type SmallFolder = 'keys' | 'signers' | 'settings';

/** Returns a new name for a small object. */
export function recipientName(
  folder: SmallFolder,
  random: Random = randomBytes,
): { readonly name: string; readonly id: string } {
  const id = random(16).toString('hex');
  return { name: `${FOLDERS[folder]}${id}`, id };
}

/** Returns the id in the name of a small object of a folder, or undefined for any other name. */
export function idOfName(folder: SmallFolder, name: string): string | undefined {
  const [, found, id] = /^(keys|signers|settings)\/([0-9a-f]{32})$/.exec(name) ?? [];
  return found === folder ? id : undefined;
}

/** HMAC-SHA256 cut to 16 bytes. Fields are hex, or numbers: a line end cannot be in one. */
function mark(nameKey: Buffer, fields: readonly (string | number)[]): string {
  const text = `mailkeep copy name 1\n${fields.join('\n')}\n`;
  return createHmac('sha256', nameKey).update(text, 'utf8').digest('hex').slice(0, 32);
}
