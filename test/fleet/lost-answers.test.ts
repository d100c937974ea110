import { type RawBuilder, sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { describeError } from '../../src/core/errors.ts';
import type { Registry } from '../../src/fleet/postgres.ts';
import { CuttingProxy } from './servers/cutting-proxy.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';

const ADD = sql<{ n: number }>`UPDATE counter SET n = n + 1 RETURNING n`;
/** Refused with 22003: the column has two bytes. */
const OVERFLOW = sql`UPDATE counter SET n = 40000`;

describe.skipIf(withoutPostgres())('a statement whose answer', () => {
  let server: Postgres;
  let proxy: CuttingProxy;
  let database: string;
  /** Through the proxy. */
  let registry: Registry;

  beforeAll(async () => {
    server = await Postgres.startOwn();
  });
  beforeEach(async () => {
    proxy = await CuttingProxy.start(server.socket);
    database = await server.create();
    registry = await server.open(database, { connections: 1 }, proxy.folder);
    await registry.statement('make a table', sql`CREATE TABLE counter AS SELECT 1::int2 AS n`);
  });
  afterEach(async () => {
    await registry?.close();
    await proxy?.stop();
  });
  afterAll(async () => {
    await server?.stop();
  });

  const failed = (query: RawBuilder<unknown>, by = registry): Promise<unknown> =>
    by.statement('count', query).then(
      () => new Error('it did not fail'),
      (error: unknown) => error,
    );
  const failedOfSeveral = (query: RawBuilder<unknown>, by = registry): Promise<unknown> =>
    by
      .transaction('count twice', async (tx) => {
        await query.execute(tx);
        await query.execute(tx);
      })
      .catch((error: unknown) => error);
  const count = async () => {
    const [row] = await registry.read('look', sql<{ n: number }>`SELECT n FROM counter`);
    return row?.n;
  };
  /** Keeps everyone else waiting. */
  const locked = async () => {
    const admin = await server.connect(database);
    await admin.query('BEGIN');
    await admin.query('SELECT 1 FROM counter FOR UPDATE');
    return admin;
  };

  test.each([
    ['after', 2],
    ['before', 1],
  ] as const)('is lost %s the server had it may have happened', async (how, n) => {
    proxy.cutNext('UPDATE counter', how);
    expect(await failed(ADD)).toMatchObject({
      ...{ code: 'outcome-unknown', facts: { transaction: 'count' } },
    });
    await proxy.answered();
    expect(await count()).toBe(n);
  });

  test('is lost before COMMIT did not happen', async () => {
    proxy.cutNext('UPDATE counter', 'after');
    expect(await failedOfSeveral(ADD)).toMatchObject({
      ...{ code: 'registry-unreachable', retryable: true },
    });
    await proxy.answered();
    expect(await count()).toBe(1);
  });

  test('is lost changed nothing if it only looks', async () => {
    proxy.cutNext('SELECT n', 'after');
    await expect(count()).rejects.toMatchObject({ code: 'registry-unreachable', retryable: true });
    proxy.cutNext('FROM pg_settings', 'after');
    const opened = server.open(database, {}, proxy.folder);
    await expect(opened).rejects.toMatchObject({ code: 'registry-unreachable' });
  });

  test('did not wait for replicas may not stay', async () => {
    const admin = await server.connect(database);
    const waits = `FROM pg_stat_activity WHERE wait_event = 'SyncRep'`;
    const set = async (text: string) => {
      await admin.query(`ALTER SYSTEM ${text}`);
      await admin.query('SELECT pg_reload_conf()');
    };
    await set("SET synchronous_standby_names = 'nowhere'");
    try {
      let error: unknown;
      // A server takes over settings when it comes to it.
      while (error === undefined) {
        let isOver = false;
        const act = registry.statement('count', ADD);
        const over = act.then(
          () => {
            isOver = true;
          },
          (thrown: unknown) => {
            isOver = true;
            error = thrown;
          },
        );
        while (!isOver) await admin.query(`SELECT pg_cancel_backend(pid) ${waits}`);
        await over;
      }
      expect(error).toMatchObject({ code: 'outcome-unknown', facts: { reason: 'replicas' } });
    } finally {
      await set('RESET synchronous_standby_names');
    }
    // The connection is not used again, and others work.
    expect(await count()).toBeGreaterThan(1);
  });

  test('comes from a server that ends the connection is unknown', async () => {
    const admin = await locked();
    const failing = failed(ADD);
    const [pid] = await server.waiting(database, 1);
    await admin.query('SELECT pg_terminate_backend($1)', [pid]);
    expect(await failing).toMatchObject({ code: 'outcome-unknown', facts: { reason: '57P01' } });
    await admin.query('COMMIT');
    expect(await count()).toBe(1);
  });

  test('does not come in time is unknown, unless the server has given up', async () => {
    const admin = await locked();
    const impatient = await server.open(database, { answerMs: 300, statementMs: 60_000 });
    expect(await failed(ADD, impatient)).toMatchObject({
      ...{ code: 'outcome-unknown', facts: { reason: 'no answer' } },
    });
    const hurried = await server.open(database, { statementMs: 100 });
    expect(await failed(ADD, hurried)).toMatchObject({
      ...{ code: 'registry-busy', retryable: true, facts: { condition: '57014' } },
    });
    await admin.query('COMMIT');
    expect(await hurried.statement('count', ADD)).toHaveLength(1);
  });

  test('is a refusal is certain in every language, and the connection is used again', async () => {
    proxy.translate();
    const process = () => registry.read('test', sql`SELECT pg_backend_pid() AS pid`);
    const before = await process();
    for (const act of [failed, failedOfSeveral]) {
      expect(await act(OVERFLOW)).toMatchObject({
        ...{ code: 'registry-refused', facts: { condition: '22003' } },
      });
      expect(await process()).toEqual(before);
    }
  });

  test('is a refusal after which the server ends the connection is not certain', async () => {
    proxy.endAfterError('22003');
    expect(await failed(OVERFLOW)).toMatchObject({
      ...{ code: 'outcome-unknown', facts: { reason: '22003' } },
    });
    expect(await count()).toBe(1);
  });

  test('quotes a row is reported without it', async () => {
    await registry.statement('add a rule', sql`ALTER TABLE counter ADD words text CHECK (n < 9)`);
    const error = await failed(sql`UPDATE counter SET n = 10, words = 'words of a mail'`);
    expect(error).toMatchObject({ code: 'registry-refused', facts: { condition: '23514' } });
    const shown = JSON.stringify([error, String(error), describeError(error)]);
    expect(shown).not.toContain('words of a mail');
    expect(error instanceof Error && error.cause).toBeUndefined();
  });
});
