import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { deflate, inflate } from 'node:zlib';
import { sql } from 'kysely';
import { z } from 'zod';
import { parseJson } from '../archive/format.ts';
import { objectError } from '../copies/errors.ts';
import { bytesAsStream } from '../copies/format/manifest.ts';
import { open, seal } from '../copies/format/sealed-object.ts';
import type { ObjectStore } from '../copies/object-store.ts';
import { fleetError } from './errors.ts';
import type { FleetKeys } from './keys.ts';
import { shardKeys } from './keys.ts';
import type { Registry } from './postgres.ts';
import { createFleet, type FleetRow, skipNumbers } from './schema.ts';

/**
 * Tables that are exported, in the order in which they are restored. Tokens are not: a revocation since the export would be
 * undone. The others say what a new registry learns anyway.
 */
const TABLES = ['shard', 'account', 'secret', 'purge', 'folder'] as const;
const FOLDER = 'registry/';
const VERSION = 1;
/** Older exports are deleted. */
const KEPT = 24;
/** No shard has this number: its keys are those of exports. */
const NO_SHARD = 0;

const content = z.object({
  mailkeep: z.literal('fleet registry'),
  format: z.literal(VERSION),
  version: z.number(),
  tables: z.record(z.enum(TABLES), z.array(z.unknown())),
});

/** Identifies what is worth an export: accounts with their secrets, purges, and folders. */
export async function registryMark(registry: Registry): Promise<string> {
  const [row] = await registry.read<{ mark: string }>(
    'look for changes to export',
    sql`SELECT concat_ws('/', (SELECT max(version) FROM account), (SELECT count(*) FROM purge),
      (SELECT count(*) FROM purge WHERE ended_at IS NULL),
      (SELECT md5(string_agg(nonce::text, '' ORDER BY account, purpose)) FROM secret),
      (SELECT md5(string_agg(concat_ws(' ', shard, node, entry), ',' ORDER BY shard, node))
        FROM folder)) AS mark`,
  );
  return row?.mark ?? '';
}

/** Stores an encrypted copy of the registry in the bucket. */
export async function exportRegistry(
  registry: Registry,
  fleet: FleetRow,
  keys: FleetKeys,
  store: ObjectStore,
  signal: AbortSignal,
): Promise<void> {
  const exported = await registry.transaction(
    'export the registry',
    async (tx) => {
      const { rows } = await sql<{ version: number }>`SELECT version FROM fleet`.execute(tx);
      const tables: Record<string, unknown> = {};
      for (const table of TABLES) {
        const { rows: all } = await sql<{ all: string }>`
          SELECT coalesce(json_agg(t), '[]')::text AS all FROM ${sql.table(table)} t`.execute(tx);
        tables[table] = parseJson(all[0]?.all ?? '[]');
      }
      return { mailkeep: 'fleet registry', format: VERSION, version: rows[0]?.version, tables };
    },
    'repeatable read',
  );
  const plain = await promisify(deflate)(Buffer.from(JSON.stringify(exported), 'utf8'));
  const folder = `${FOLDER}${fleet.id}/`;
  const older: string[] = [];
  for await (const { name } of store.list(folder, signal)) older.push(name);
  // A registry that was restored has a lower version than before, and its exports are the last ones still.
  const highest = Math.max(exported.version ?? 0, ...older.map((name) => numberOf(name) + 1));
  const number = String(highest).padStart(16, '0');
  const name = `${folder}${number}-${randomBytes(16).toString('hex')}`;
  const { key } = shardKeys(keys, fleet.id, NO_SHARD, fleet.bucket);
  const sealed = seal(key.sealing, { kind: 'state', name }, plain.length, bytesAsStream(plain));
  await store.put(name, sealed.length, sealed.bytes, { signal });
  for (const one of older.toSorted().slice(0, 1 - KEPT)) await store.delete(one, signal);
}

/**
 * Makes a registry from the last export in the bucket, in a database without tables. Its shards then have to be recovered.
 *
 * @throws fleet-registry-used; object-missing if the bucket has no export; copy-key-unknown and other errors of a damaged export
 */
export async function importRegistry(
  registry: Registry,
  keys: FleetKeys,
  store: ObjectStore,
  signal: AbortSignal,
): Promise<FleetRow & { readonly accounts: number }> {
  let last = '';
  for await (const { name } of store.list(FOLDER, signal)) {
    if (numberOf(name) > numberOf(last)) last = name;
  }
  if (last === '') throw objectError('object-missing', { store: store.label, name: FOLDER });
  const id = last.slice(FOLDER.length, last.lastIndexOf('/'));
  const { key } = shardKeys(keys, id, NO_SHARD, store.label);
  const about = { kind: 'state', name: last } as const;
  const packed = await buffer(open(key.opening, about, store.get(last, { signal })));
  const text = (await promisify(inflate)(packed)).toString('utf8');
  const { data } = content.safeParse(parseJson(text));
  if (data === undefined) throw objectError('object-damaged', { store: store.label, name: last });
  const fleet = { id, bucket: store.label };
  await createFleet(registry, fleet);
  await registry.transaction('import the registry', async (tx) => {
    const { rows: there } = await sql`SELECT 1 FROM shard LIMIT 1`.execute(tx);
    if (there.length > 0) throw fleetError('fleet-registry-used', { registry: registry.label });
    await sql`UPDATE fleet SET version = greatest(version, ${data.version}) + 1`.execute(tx);
    for (const table of TABLES) {
      const rows = JSON.stringify(data.tables[table] ?? []);
      await sql`INSERT INTO ${sql.table(table)} OVERRIDING SYSTEM VALUE
        SELECT * FROM json_populate_recordset(NULL::${sql.table(table)}, ${rows}::json)`.execute(
        tx,
      );
    }
    // Nobody holds a shard, and nobody claims one before it was compared with the bucket.
    await sql`UPDATE shard SET holder = NULL, timeline = ''`.execute(tx);
    await skipNumbers(tx, true);
  });
  return { ...fleet, accounts: data.tables.account?.length ?? 0 };
}

/** The number in a name, -1 for other names. */
function numberOf(name: string): number {
  return Number(/^registry\/[0-9a-f-]{36}\/(\d{16})-/.exec(name)?.[1] ?? -1);
}
