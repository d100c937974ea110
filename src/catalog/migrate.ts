import { Kysely, SqliteDialect } from 'kysely';
import { migrations } from '../../migrations/index.ts';
import { translate } from '../core/sqlite.ts';
import type { Connection } from './database.ts';

/**
 * Runs the migrations a database has not seen, each in a transaction of its own together with the version it
 * reaches: kysely's migrator does not wrap those of SQLite.
 *
 * @param from the database's version: the number of migrations it has seen
 * @throws `catalog-disk-full`, `catalog-io`, `catalog-busy`, `catalog-damaged`: what earlier migrations did stays
 */
export async function migrate(connection: Connection, from: number): Promise<void> {
  const { db } = connection;
  // Not destroyed: that would close the connection, which is ours.
  const kysely = new Kysely<unknown>({ dialect: new SqliteDialect({ database: db }) });
  const steps = Object.values(migrations);
  for (const [index, step] of steps.entries()) {
    if (index < from) continue;
    connection.guard(() => db.exec('BEGIN IMMEDIATE'));
    try {
      await step.up(kysely);
      db.pragma(`user_version = ${index + 1}`);
      db.exec('COMMIT');
    } catch (error) {
      if (db.inTransaction) db.exec('ROLLBACK');
      throw translate(error, connection.file) ?? error;
    }
  }
}
