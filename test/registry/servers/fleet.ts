import { createHash, randomBytes, randomUUID } from 'node:crypto';
import type { Client } from 'pg';
import { expect } from 'vitest';
import type { TailBatch } from '../../../src/registry/commits.ts';
import { commit } from '../../../src/registry/commits.ts';
import { addArchive, addTenant } from '../../../src/registry/fleet.ts';
import { claim } from '../../../src/registry/leases.ts';
import type { ObjectKind } from '../../../src/registry/objects.ts';
import type { Head, Lease, Outcome } from '../../../src/registry/outcome.ts';
import { readArchive } from '../../../src/registry/reading.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import { beginSession } from '../../../src/registry/sessions.ts';
import { register, type Uploaded } from '../../../src/registry/uploads.ts';

export const GENESIS = Buffer.alloc(32, 7);
const LONG_MS = 3_600_000;
/** A collector that waits for nothing. */
export const AT_ONCE = { graceMs: 0, settleMs: 0 };

/** What was committed. @throws Error if it was refused */
export function done<Done extends object>(outcome: Outcome<Done>): Done {
  if (outcome.outcome === 'fenced') throw new Error(`refused by ${outcome.by}`);
  return outcome;
}

export function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Begins a session that lives as long as the test. */
export async function newSession(
  registry: Registry,
  node: string,
  leaseMs = LONG_MS,
  address = `${node}.example:8443`,
): Promise<string> {
  const session = randomUUID();
  const facts = { session, node, address, egress: '192.0.2.1', program: 1, capacity: 10 };
  done(await beginSession(registry, facts, leaseMs));
  return session;
}

/** Adds an archive without commits to a tenant of the same name. */
export async function newArchive(registry: Registry, name: string): Promise<number> {
  const tenant = await addTenant(registry, { name: 'tenant', weight: 1 });
  const logId = randomBytes(16);
  const archive = await addArchive(registry, {
    tenant,
    name,
    logId,
    genesis: GENESIS,
    settings: { mailboxes: ['all'] },
  });
  if (archive === undefined) throw new Error('there is an archive of that name');
  return archive;
}

/** Claims one archive. */
export async function claimed(
  registry: Registry,
  session: string,
  archive: number,
): Promise<{ lease: Lease; head: Head; entry: string }> {
  const options = { session, most: 1, catalogVersion: 1, archive };
  const [first] = done(await claim(registry, options)).claimed;
  if (first === undefined) throw new Error('the archive cannot be claimed');
  const { head, entry } = first;
  return { lease: { archive, epoch: head.epoch, session }, head, entry };
}

/** A batch that follows a head; another text makes other bytes and another hash. */
export function batchAfter(head: Head, text = `batch ${head.headNumber + 1}`): TailBatch {
  const bytes = Buffer.from(text);
  return {
    number: head.headNumber + 1,
    previousHash: head.headHash,
    hash: sha256(text),
    time: 1_767_225_600_000,
    segment: head.hotSegment,
    at: head.hotOffset,
    firstOrdinal: head.hotOrdinal,
    records: 2,
    rawBytes: 3 * bytes.length,
    codec: 1,
    bytes,
  };
}

/** The head after a batch. */
export function headAfter(head: Head, batch: TailBatch): Head {
  return {
    ...head,
    headNumber: batch.number,
    headHash: batch.hash,
    headTime: batch.time,
    hotOffset: batch.at + batch.rawBytes,
    hotOrdinal: batch.firstOrdinal + batch.records + 1,
  };
}

/** Commits batches one after another, and returns the head. */
export async function committedBatches(
  registry: Registry,
  lease: Lease,
  head: Head,
  count: number,
): Promise<Head> {
  let last = head;
  for (let made = 0; made < count; made += 1) {
    const batch = batchAfter(last);
    done(await commit(registry, lease, batch));
    last = headAfter(last, batch);
  }
  return last;
}

/** Registers an upload, and returns it as one that was read back. */
export async function upload(
  registry: Registry,
  lease: Lease,
  kind: ObjectKind,
  key: string,
  purges = 0,
): Promise<Uploaded> {
  done(await register(registry, lease, { key, kind, uploadId: `upload of ${key}`, purges }));
  return { key, bytes: 1_000, sha256: sha256(key) };
}

const TABLES = `SELECT relname AS name FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
  AND relnamespace = 'public'::regnamespace ORDER BY relname`;

/** All rows of a database: to compare them, and to bring them back. */
export class Rows {
  private constructor(
    private readonly client: Client,
    private readonly tables: readonly string[],
  ) {}

  /** Keeps the rows as they are now, in a schema of their own. */
  static async keep(client: Client): Promise<Rows> {
    // What a crash of this server takes back is of no interest.
    await client.query('SET synchronous_commit = off');
    const { rows } = await client.query<{ name: string }>(TABLES);
    const tables = rows.map(({ name }) => name);
    const copies = tables.map((name) => `CREATE TABLE kept.${name} AS TABLE public.${name}`);
    await client.query(['CREATE SCHEMA kept', ...copies].join(';'));
    return new Rows(client, tables);
  }

  /** Every row of every table, as text. */
  async all(): Promise<readonly string[]> {
    const each = this.tables.map((name) => `SELECT '${name} ' || t::text AS row FROM ${name} t`);
    const { rows } = await this.client.query<{ row: string }>(
      `${each.join(' UNION ALL ')} ORDER BY 1`,
    );
    return rows.map(({ row }) => row);
  }

  /** Brings back the rows that were kept. */
  async restore(): Promise<void> {
    const fill = this.tables.map(
      (name) => `INSERT INTO ${name} OVERRIDING SYSTEM VALUE SELECT * FROM kept.${name}`,
    );
    await this.client.query(
      [
        'BEGIN',
        // References are checked row by row otherwise, in an order that tables do not have.
        "SET LOCAL session_replication_role = 'replica'",
        ...this.tables.map((name) => `DELETE FROM ${name}`),
        ...fill,
        'COMMIT',
      ].join(';'),
    );
  }
}

/** Every commit up to the head is stored once, in the tail or by an object, and they follow one another. */
export async function expectWholeLog(registry: Registry, archive: number): Promise<void> {
  const stored = await readArchive(registry, archive);
  if (stored === undefined) throw new Error('there is no such archive');
  const ranges = [
    ...stored.covers.map(({ first, last, lastHash }) => ({ first, last, lastHash })),
    ...stored.tail.map(({ number, hash }) => ({ first: number, last: number, lastHash: hash })),
  ].toSorted((a, b) => a.first - b.first);
  let next = 1;
  for (const { first, last } of ranges) {
    expect(first).toBe(next);
    next = last + 1;
  }
  expect(next - 1).toBe(stored.head.headNumber);
  expect(ranges.at(-1)?.lastHash ?? GENESIS).toEqual(stored.head.headHash);
}
