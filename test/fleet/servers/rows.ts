import type { Client } from 'pg';

const TABLES = `SELECT relname AS name FROM pg_class WHERE relkind = 'r'
  AND relnamespace = 'public'::regnamespace ORDER BY relname`;

/** All rows of a database: to compare them, and to bring them back. */
export class Rows {
  private constructor(
    private readonly client: Client,
    private readonly tables: readonly string[],
  ) {}

  /** Keeps the rows as they are now, in a schema of their own. */
  static async keep(client: Client): Promise<Rows> {
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
        // References would be checked row by row, in an order that tables do not have.
        "SET LOCAL session_replication_role = 'replica'",
        ...this.tables.map((name) => `DELETE FROM ${name}`),
        ...fill,
        'COMMIT',
      ].join(';'),
    );
  }
}
