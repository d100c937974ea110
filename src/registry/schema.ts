import { sql } from 'kysely';
import { fleetMigrations } from '../../migrations/fleet/index.ts';
import { registryError } from './errors.ts';
import type { Registry, Tx } from './registry.ts';

/** The version of this program as fleets count it: raised when workers of two versions cannot work in one fleet. */
export const PROGRAM = 1;

/** Any number that no other program takes for its own lock: the letters "mkfl". */
const MIGRATION_LOCK = 0x6d_6b_66_6c;

/**
 * Brings the tables to the newest step that this program knows. One process at a time does so; others wait. All steps are
 * one transaction with the rows that record them.
 *
 * @returns the steps that were carried out
 * @throws registry-schema-newer: nothing was changed
 */
export async function migrateRegistry(registry: Registry): Promise<readonly string[]> {
  return registry.transaction('migrate', async (tx) => {
    await sql`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`.execute(tx);
    await sql`CREATE TABLE IF NOT EXISTS schema_step (
      name text PRIMARY KEY, done_at timestamptz NOT NULL DEFAULT clock_timestamp())`.execute(tx);
    const done = await stepsDone(tx);
    refuseNewer(registry, done);
    const missing = Object.entries(fleetMigrations).filter(([name]) => !done.includes(name));
    for (const [name, step] of missing) {
      await step.up(tx);
      await sql`INSERT INTO schema_step (name) VALUES (${name})`.execute(tx);
    }
    return missing.map(([name]) => name);
  });
}

/**
 * Checks that the tables are what this program works with, and that the fleet takes programs of its version.
 *
 * @throws registry-schema-newer, registry-schema-older, registry-program-old
 */
export async function checkSchema(registry: Registry): Promise<void> {
  const { label } = registry;
  const oldest = await registry.transaction(
    'check schema',
    async (tx) => {
      const [table] = (
        await sql<{ found: string | null }>`SELECT to_regclass('schema_step') AS found`.execute(tx)
      ).rows;
      const done = table?.found === null ? [] : await stepsDone(tx);
      refuseNewer(registry, done);
      const missing = Object.keys(fleetMigrations).find((name) => !done.includes(name));
      if (missing !== undefined) {
        const found = done.at(-1) ?? null;
        throw registryError('registry-schema-older', { registry: label, found, needed: missing });
      }
      const [fleet] = (
        await sql<{ min_program: number }>`SELECT min_program FROM fleet`.execute(tx)
      ).rows;
      return fleet?.min_program ?? PROGRAM;
    },
    'repeatable read',
  );
  if (oldest > PROGRAM) {
    throw registryError('registry-program-old', { registry: label, own: PROGRAM, needed: oldest });
  }
}

async function stepsDone(tx: Tx): Promise<readonly string[]> {
  const { rows } = await sql<{ name: string }>`SELECT name FROM schema_step ORDER BY name`.execute(
    tx,
  );
  return rows.map(({ name }) => name);
}

function refuseNewer({ label }: Registry, done: readonly string[]): void {
  const known = Object.keys(fleetMigrations);
  const found = done.findLast((name) => !known.includes(name));
  if (found === undefined) return;
  throw registryError('registry-schema-newer', {
    registry: label,
    found,
    known: known.at(-1) ?? '',
  });
}
