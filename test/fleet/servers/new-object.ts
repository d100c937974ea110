import { createHash } from 'node:crypto';
import { coverWith } from '../../../src/fleet/covering.ts';
import { type NewObject, uploadObject } from '../../../src/fleet/uploads.ts';
import type { Outcome } from '../../../src/registry/outcome.ts';
import { coverChunk, type Uploaded } from '../../../src/registry/uploads.ts';
import { inPieces } from '../../objects/store-contract.ts';
import type { Scene } from './scene.ts';

/** An object for the first segment's commits, with some bytes. */
export function chunkOf(scene: Scene, bytes: Buffer, purges = 0): NewObject {
  const [first, last] = scene.sample.segments[0] ?? [];
  if (first === undefined || last === undefined) throw new Error('there are no two commits');
  const range = { first: first.number, last: last.number };
  return {
    ...{ kind: 'chunk', length: bytes.length, purges },
    sha256: createHash('sha256').update(bytes).digest(),
    name: (epoch) => scene.names.chunk(1, range, epoch),
    bytes: () => inPieces(bytes, 1_000),
    metadata: { logId: scene.sample.logId, ...range, lastHash: last.hash },
  };
}

/** Lets an object cover the first segment's commits. */
export async function coverFirst(scene: Scene, uploaded: Uploaded): Promise<Outcome> {
  const { held } = scene;
  const { metadata } = chunkOf(scene, Buffer.alloc(1));
  const { first, last, lastHash } = metadata;
  const range = { first, last, lastHash, segment: 1, generation: 1, at: 64 };
  return coverWith(held, uploaded, (lease) => coverChunk(held.registry, lease, uploaded, range));
}

/** Uploads an object, and lets it cover the first segment's commits. */
export async function uploadAndCover(scene: Scene, object: NewObject): Promise<Outcome> {
  const result = await uploadObject(scene.uploading, object);
  return result.outcome === 'fenced' ? result : coverFirst(scene, result.uploaded);
}
