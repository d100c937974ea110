import type { Kysely } from 'kysely';
import * as registry0001 from './0001_registry.ts';
import * as operations0002 from './0002_operations.ts';
import * as webhooks0003 from './0003_webhooks.ts';
import * as importing0004 from './0004_importing.ts';
import * as forgets0005 from './0005_forgets.ts';

/** One step of the registry's tables in PostgreSQL. Steps only go forward. */
export interface FleetMigration {
  up(db: Kysely<unknown>): Promise<void>;
}

/**
 * Every step by name, in order, as a static map so that a bundle holds them. Each runs in a transaction together with the
 * row that records it.
 */
export const fleetMigrations: Readonly<Record<string, FleetMigration>> = {
  '0001_registry': registry0001,
  '0002_operations': operations0002,
  '0003_webhooks': webhooks0003,
  '0004_importing': importing0004,
  '0005_forgets': forgets0005,
};
