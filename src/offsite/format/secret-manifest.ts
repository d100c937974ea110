import { isCount, isHash, isObject, parseJson } from '../../archive/format/json-shape.ts';
import { hasOnly } from './canonical.ts';

/** What a manifest shows to those who have a key. */
export interface SecretManifest {
  /** 16 hexadecimal digits. */
  readonly archiveId: string;
  /** The text of the archive's file FORMAT. */
  readonly format: string;
  /** The last commit in the copy. */
  readonly commit: {
    readonly number: number;
    readonly hash: string;
    /** Milliseconds since 1970. */
    readonly time: number;
  };
  /** Files of segments, from segment 1 on without a gap. */
  readonly segments: readonly { readonly name: string; readonly segment: number }[];
  /** Parts of the file of generation 1 of the next segment, from its first byte on without a gap. */
  readonly tail: readonly {
    readonly name: string;
    readonly segment: number;
    readonly from: number;
    /** Offset after the last byte. */
    readonly to: number;
  }[];
}

/** Objects of one copy: 8 TiB of segments. */
export const MOST_OBJECTS = 2 ** 17;
const MOST_FORMAT = 4096;

/** Returns the encrypted part of a manifest, or undefined if the bytes are none. */
export function readSecretManifest(bytes: Buffer): SecretManifest | undefined {
  const value = parseJson(bytes.toString('utf8'));
  return isSecretManifest(value) ? value : undefined;
}

/** True if both parts of a manifest are about the same commit and the same objects. */
export function agrees(
  { commit, segments, tail }: SecretManifest,
  clear: { readonly commit: number; readonly objects: readonly { readonly name: string }[] },
): boolean {
  const named = new Set([...segments, ...tail].map(({ name }) => name));
  return (
    commit.number === clear.commit &&
    named.size === segments.length + tail.length &&
    named.size === clear.objects.length &&
    clear.objects.every(({ name }) => named.has(name))
  );
}

function isSecretManifest(value: unknown): value is SecretManifest {
  if (!isObject(value)) return false;
  const { archiveId, format, commit, segments, tail } = value;
  return (
    hasOnly(value, ['archiveId', 'format', 'commit', 'segments', 'tail']) &&
    typeof archiveId === 'string' &&
    /^[0-9a-f]{16}$/.test(archiveId) &&
    typeof format === 'string' &&
    format.length <= MOST_FORMAT &&
    isObject(commit) &&
    hasOnly(commit, ['number', 'hash', 'time']) &&
    isCount(commit.number) &&
    isHash(commit.hash) &&
    isCount(commit.time) &&
    isRowOfSegments(segments) &&
    isTailOf(segments.length + 1, tail)
  );
}

function isRowOfSegments(value: unknown): value is SecretManifest['segments'] {
  return (
    Array.isArray(value) &&
    value.length <= MOST_OBJECTS &&
    value.every(
      (one, index) =>
        isObject(one) &&
        hasOnly(one, ['name', 'segment']) &&
        typeof one.name === 'string' &&
        one.segment === index + 1,
    )
  );
}

function isTailOf(segment: number, value: unknown): value is SecretManifest['tail'] {
  if (!Array.isArray(value) || value.length > MOST_OBJECTS) return false;
  let end = 0;
  for (const one of value) {
    const isNext =
      isObject(one) &&
      hasOnly(one, ['name', 'segment', 'from', 'to']) &&
      typeof one.name === 'string' &&
      one.segment === segment &&
      one.from === end &&
      isCount(one.to) &&
      one.to > end;
    if (!isNext) return false;
    end = Number(one.to);
  }
  return true;
}
