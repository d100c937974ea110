import { sql } from 'kysely';
import {
  fence,
  type Lease,
  lockHeld,
  type Outcome,
  oneHeld,
  Refusal,
  refusable,
} from './outcomes.ts';
import type { Registry } from './postgres.ts';

export type ObjectKind = 'segment' | 'tail' | 'snapshot' | 'state' | 'manifest';

/** A multipart upload that was started and has no bytes yet. */
export interface BegunUpload {
  readonly name: string;
  readonly kind: ObjectKind;
  /** Assigned by the store. */
  readonly uploadId: string;
  /** Length, or 0 for a manifest: it is not known before its other objects are uploaded. */
  readonly bytes: number;
  /** Purges that had been carried out in the folder when its content was read. */
  readonly purges: number;
}

/**
 * Registers uploads before their first byte is sent, so that whatever may be in the bucket has a row by which it is
 * collected. Refused if a name was ever registered.
 */
export async function register(
  registry: Registry,
  lease: Lease,
  uploads: readonly BegunUpload[],
): Promise<Outcome> {
  return refusable(registry, 'register', async (tx) => {
    // A claim that is under way waits, or this statement waits and then finds another epoch.
    const { purges } = await lockHeld(tx, lease, 'SHARE');
    if (uploads.some((upload) => upload.purges > purges)) throw new Refusal('purges');
    const column = <T>(of: (upload: BegunUpload) => T) => uploads.map(of);
    const { rows } = await sql`
      INSERT INTO object (shard, epoch, name, kind, upload_id, bytes, purges)
      SELECT ${lease.shard}, ${lease.epoch}, * FROM unnest(
        ${column(({ name }) => name)}::text[], ${column(({ kind }) => kind)}::text[],
        ${column(({ uploadId }) => uploadId)}::text[], ${column(({ bytes }) => bytes)}::bigint[],
        ${column((upload) => upload.purges)}::int[])
      ON CONFLICT DO NOTHING RETURNING name`.execute(tx);
    if (rows.length < uploads.length) throw new Refusal('object');
    return {};
  });
}

export interface NewManifest {
  readonly name: string;
  readonly sha256: Buffer;
  readonly sequence: number;
  readonly commitNumber: number;
  /** Name of the manifest that it follows, or null. */
  readonly previous: string | null;
  /** All objects that it needs, without itself. */
  readonly names: readonly string[];
  /** Purges that had been carried out in the folder when it was planned. */
  readonly clean: number;
  readonly messages: number;
  readonly catalogBytes: number;
}

/**
 * Makes a manifest the current one of a shard. What it names becomes live, what it no longer names is condemned.
 *
 * Refused if it does not follow the current manifest, if an object that it names has been condemned, and if a snapshot
 * or a state digest is older than a purge that the manifest claims to be clean of.
 */
export async function ship(
  registry: Registry,
  lease: Lease,
  manifest: NewManifest,
): Promise<Outcome> {
  const { name, sha256, sequence, commitNumber, previous, clean, messages, catalogBytes } =
    manifest;
  const names = [name, ...manifest.names];
  const { shard } = lease;
  return refusable(registry, 'ship', async (tx) => {
    const moved = sql`
      UPDATE shard SET manifest = ${name}, manifest_sha256 = ${sha256}, sequence = ${sequence},
        commit_number = ${commitNumber}, clean = ${clean}, messages = ${messages},
        catalog_bytes = ${catalogBytes}, shipped_at = clock_timestamp()
      WHERE ${fence(lease)} AND manifest IS NOT DISTINCT FROM ${previous}
        AND sequence < ${sequence} AND clean <= ${clean} AND purges >= ${clean}
      RETURNING id`;
    await oneHeld(tx, lease, moved, 'manifest');
    await sql`UPDATE object SET state = 'live'
      WHERE shard = ${shard} AND name = ANY(${names}::text[]) AND state = 'uploading'`.execute(tx);
    const { rows: live } = await sql<{ isOld: boolean }>`
      SELECT kind IN ('snapshot', 'state') AND purges < ${clean} AS "isOld" FROM object
      WHERE shard = ${shard} AND name = ANY(${names}::text[]) AND state = 'live'`.execute(tx);
    if (live.length !== new Set(names).size) throw new Refusal('object');
    if (live.some(({ isOld }) => isOld)) throw new Refusal('purges');
    await sql`UPDATE object SET state = 'condemned', condemned_at = clock_timestamp()
      WHERE shard = ${shard} AND state = 'live' AND name <> ALL(${names}::text[])`.execute(tx);
    return {};
  });
}

/** Condemns uploads that nobody will finish. A ship that names one of them is refused. */
export async function abandon(registry: Registry, names: readonly string[]): Promise<number> {
  const rows = await registry.statement(
    'abandon uploads',
    sql`UPDATE object SET state = 'condemned', condemned_at = clock_timestamp()
      WHERE name = ANY(${[...names]}::text[]) AND state = 'uploading' RETURNING name`,
  );
  return rows.length;
}
