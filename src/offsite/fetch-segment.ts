import { writeAll } from '../archive/files/file-layer.ts';
import { realFiles } from '../archive/files/real-files.ts';
import { decodeSegmentHeader, SEGMENT_HEADER_BYTES } from '../archive/format/headers.ts';
import { type SegmentFile, segmentPath } from '../archive/format/layout.ts';
import { publish } from '../archive/write/hot-segment.ts';
import { logDamaged } from '../errors/archive.ts';
import { copiesError } from '../errors/copies.ts';
import type { ObjectStore } from '../objects/store.ts';
import type { SegmentProver } from '../verify/segment-threads.ts';
import { ChosenVersions } from './chosen-versions.ts';
import type { OpeningKey } from './format/header.ts';
import { open } from './format/open.ts';
import type { SecretManifest } from './format/secret-manifest.ts';
import { listedBytes } from './listed-bytes.ts';
import type { ObjectEntry } from './plan-copy.ts';

/** Where segments come from, and what they are checked with. */
export interface SegmentSource {
  readonly store: ObjectStore;
  readonly key: OpeningKey;
  readonly manifest: SecretManifest;
  /** What the clear part of the manifest lists, by name. */
  readonly objects: ReadonlyMap<string, ObjectEntry>;
  readonly prover: SegmentProver;
  readonly signal: AbortSignal;
  /** Where an object is damaged or missing, and the store keeps versions: take one that is as it should be. */
  readonly takesVersions?: boolean;
}

/** A segment of a copy, and the objects that its file consists of. */
export interface CopiedSegment {
  readonly segment: number;
  readonly pieces: readonly {
    readonly kind: 'segment' | 'tail';
    readonly name: string;
    /** Where its bytes begin in the file. */
    readonly from: number;
  }[];
}

/** Returns the segments of a manifest in their order; the objects of the tail are one. */
export function copiedSegments({ segments, tail }: SecretManifest): CopiedSegment[] {
  const copied: CopiedSegment[] = segments.map(({ segment, name }) => ({
    segment,
    pieces: [{ kind: 'segment', name, from: 0 }],
  }));
  const [first] = tail;
  if (first !== undefined) {
    const pieces = [...tail]
      .sort((a, b) => a.from - b.from)
      .map(({ name, from }) => ({ kind: 'tail' as const, name, from }));
    copied.push({ segment: first.segment, pieces });
  }
  return copied.sort((a, b) => a.segment - b.segment);
}

/**
 * Writes the file of a segment into the log of a folder: under a temporary name, until it has been read completely.
 *
 * @returns the file and its bytes
 * @throws log-damaged, copy-object-damaged, object-missing; `disk-full` and its like
 */
export async function fetchSegment(
  source: SegmentSource,
  to: string,
  copied: CopiedSegment,
): Promise<FetchedSegment> {
  const versions = new ChosenVersions(source.store, source.signal);
  for (;;) {
    try {
      return await fetchWith(source, to, copied, versions);
    } catch (error) {
      if (source.takesVersions !== true || !(await versions.another(error))) throw error;
    }
  }
}

interface FetchedSegment {
  readonly name: SegmentFile;
  readonly bytes: number;
}

async function fetchWith(
  source: SegmentSource,
  to: string,
  copied: CopiedSegment,
  versions: ChosenVersions,
): Promise<FetchedSegment> {
  const bytes = joined(source, copied, versions)[Symbol.asyncIterator]();
  try {
    const beginning = await atLeast(bytes, SEGMENT_HEADER_BYTES);
    const name = nameIn(beginning, source.manifest, copied);
    if (name === undefined) throw notTheSegment(to, copied);
    const path = segmentPath(to, name);
    const length = await publish(realFiles, path, beginning.length, {
      write: async (target) => {
        let at = 0;
        for await (const piece of rest(beginning, bytes)) {
          await writeAll(target, piece, at);
          at += piece.length;
        }
        return at;
      },
      check: (path) => source.prover.intact({ ...name, path, sealed: name.generation > 1 }),
    });
    return { name, bytes: length };
  } finally {
    await bytes.return?.();
  }
}

/** The bytes of a segment's file, from all objects that have a part of it. */
async function* joined(
  { store, key, objects, signal }: SegmentSource,
  copied: CopiedSegment,
  versions: ChosenVersions,
) {
  let at = 0;
  for (const { kind, name, from } of copied.pieces) {
    const entry = objects.get(name);
    if (from !== at || entry === undefined) {
      throw copiesError('offsite-gap', { to: store.label, name, from: at });
    }
    const sealed = listedBytes(store, entry, signal, versions.of(name));
    for await (const piece of open(key, { kind, name }, sealed)) {
      at += piece.length;
      yield piece;
    }
  }
}

async function atLeast(bytes: AsyncIterator<Buffer>, length: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let size = 0;
  while (size < length) {
    const next = await bytes.next();
    if (next.done === true) break;
    // The reader uses its buffer again.
    pieces.push(Buffer.from(next.value));
    size += next.value.length;
  }
  return Buffer.concat(pieces);
}

async function* rest(beginning: Buffer, bytes: AsyncIterator<Buffer>): AsyncIterable<Buffer> {
  yield beginning;
  for (let next = await bytes.next(); next.done !== true; next = await bytes.next()) {
    yield next.value;
  }
}

/** The name that a segment's header gives to its file; undefined where it is of another segment or archive. */
function nameIn(
  beginning: Buffer,
  { archiveId }: SecretManifest,
  { segment, pieces }: CopiedSegment,
): SegmentFile | undefined {
  const header = decodeSegmentHeader(beginning.subarray(0, SEGMENT_HEADER_BYTES));
  const isPlain = header?.generation === 1;
  if (header?.segment !== segment || header.archiveId.toString('hex') !== archiveId)
    return undefined;
  if (pieces[0]?.kind === 'tail' && !isPlain) return undefined;
  return { segment, generation: header.generation };
}

function notTheSegment(to: string, { segment }: CopiedSegment) {
  const file = segmentPath(to, { segment, generation: 1 });
  return logDamaged({ file, segment, offset: 0, reason: 'segment-header' });
}
