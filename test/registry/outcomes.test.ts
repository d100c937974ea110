import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { describeFacts, hasCode } from '../../src/core/errors.ts';
import { sweep } from '../../src/registry/collection.ts';
import { commit, decidePurge } from '../../src/registry/commits.ts';
import { claim, enterCache, resolve } from '../../src/registry/leases.ts';
import type { Head, Lease } from '../../src/registry/outcome.ts';
import {
  copiesToWipe,
  heldArchives,
  objectsToCollect,
  readArchive,
  readSecrets,
} from '../../src/registry/reading.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { register } from '../../src/registry/uploads.ts';
import { CuttingProxy } from './servers/cutting-proxy.ts';
import {
  AT_ONCE,
  batchAfter,
  claimed,
  done,
  expectWholeLog,
  headAfter,
  newArchive,
  newSession,
  sha256,
  upload,
} from './servers/fleet.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';
import { replicasAwaited } from './servers/replicas.ts';

const skipped = withoutPostgres();
let server: Postgres;
let proxy: CuttingProxy;
let database: string;
/** Through the proxy. */
let registry: Registry;
let archive: number;
let lease: Lease;
let head: Head;

beforeAll(async () => {
  if (!skipped) server = await Postgres.startOwn();
});
afterAll(async () => {
  await server?.stop();
});
beforeEach(async () => {
  if (skipped) return;
  proxy = await CuttingProxy.start(server.socket);
  database = await server.create();
  registry = await server.open(database, {}, proxy.folder);
  archive = await newArchive(registry, 'anna');
  ({ lease, head } = await claimed(registry, await newSession(registry, 'a'), archive));
});
afterEach(async () => {
  await registry?.close();
  await proxy?.stop();
});

async function thrownBy(act: Promise<unknown>): Promise<unknown> {
  return act.then(
    (result) => new Error(`it did not fail: ${JSON.stringify(result)}`),
    (error: unknown) => error,
  );
}

describe.skipIf(skipped)('a commit whose answer is lost', () => {
  test('happened: the connection was cut after the server had it', async () => {
    const batch = batchAfter(head);
    proxy.cutNext('INSERT INTO tail', 'after');
    const error = await thrownBy(commit(registry, lease, batch));
    expect(error).toMatchObject({ code: 'outcome-unknown', facts: { transaction: 'commit' } });
    await proxy.answered();
    const { head: found } = done(await resolve(registry, lease));
    expect(found).toEqual({ ...headAfter(head, batch), epoch: 2 });
    await expectWholeLog(registry, archive);
  });

  test('did not happen: the request was lost', async () => {
    proxy.cutNext('INSERT INTO tail', 'before');
    const error = await thrownBy(commit(registry, lease, batchAfter(head)));
    expect(error).toMatchObject({ code: 'outcome-unknown' });
    expect(done(await resolve(registry, lease)).head).toEqual({ ...head, epoch: 2 });
  });

  test('never happens any more: the request arrives after it was resolved', async () => {
    proxy.cutNext('INSERT INTO tail', 'held');
    const error = await thrownBy(commit(registry, lease, batchAfter(head)));
    expect(error).toMatchObject({ code: 'outcome-unknown' });
    // A look at the head alone would say the same, and be wrong a moment later.
    const { head: resolved } = done(await resolve(registry, lease));
    expect(resolved).toEqual({ ...head, epoch: 2 });
    await proxy.deliver();
    expect((await readArchive(registry, archive))?.head).toEqual(resolved);
    await expectWholeLog(registry, archive);
  });

  test.each(['after', 'before'] as const)(
    'of several statements, cut %s the server had COMMIT',
    async (how) => {
      const batch = batchAfter(head);
      // As the protocol ends a text, so that no column is meant.
      proxy.cutNext('commit\0', how);
      const purge = { commits: [1], records: [] };
      const error = await thrownBy(decidePurge(registry, lease, batch, purge));
      expect(error).toMatchObject({ code: 'outcome-unknown' });
      await proxy.answered();
      const { head: found } = done(await resolve(registry, lease));
      const isThere = how === 'after';
      expect([found.headNumber, found.purges]).toEqual(isThere ? [1, 1] : [0, 0]);
      expect((await readArchive(registry, archive))?.purges).toHaveLength(isThere ? 1 : 0);
    },
  );

  test('of several statements, cut before COMMIT: nothing was changed', async () => {
    proxy.cutNext('INSERT INTO purge', 'after');
    const purge = { commits: [1], records: [] };
    const error = await thrownBy(decidePurge(registry, lease, batchAfter(head), purge));
    expect(error).toMatchObject({ code: 'registry-unreachable', retryable: true });
    await proxy.answered();
    expect(done(await resolve(registry, lease)).head).toEqual({ ...head, epoch: 2 });
  });

  test('resolving can be cut as well: a second time it is refused, as the lease is another', async () => {
    proxy.cutNext('SET epoch', 'after');
    const error = await thrownBy(resolve(registry, lease));
    expect(error).toMatchObject({ code: 'outcome-unknown', facts: { transaction: 'resolve' } });
    await proxy.answered();
    expect(await resolve(registry, lease)).toMatchObject({ by: 'lease', head: { epoch: 2 } });
  });

  test('the wait for replicas is canceled: it is there, and may not stay', async () => {
    const admin = await server.connect(database);
    await admin.query("ALTER SYSTEM SET synchronous_standby_names = 'nowhere'");
    await admin.query('SELECT pg_reload_conf()');
    try {
      await replicasAwaited(server, database, admin);
      const batch = batchAfter(head);
      const failing = thrownBy(commit(registry, lease, batch));
      const [pid] = await server.waiting(database, 1, 'SyncRep');
      await admin.query('SELECT pg_cancel_backend($1)', [pid]);
      expect(await failing).toMatchObject({
        code: 'outcome-unknown',
        facts: { transaction: 'commit', reason: 'replicas' },
      });
      expect((await readArchive(registry, archive))?.head).toEqual(headAfter(head, batch));
    } finally {
      await admin.query('ALTER SYSTEM RESET synchronous_standby_names');
      await admin.query('SELECT pg_reload_conf()');
    }
    // The connection is not used again, and others work.
    expect(done(await resolve(registry, lease)).head.headNumber).toBe(1);
  });

  test('the server ends the connection while it waits for a lock: nobody knows', async () => {
    const admin = await server.connect(database);
    await admin.query('BEGIN');
    await admin.query('SELECT 1 FROM archive FOR UPDATE');
    const failing = thrownBy(commit(registry, lease, batchAfter(head)));
    const [pid] = await server.waiting(database, 1);
    await admin.query('SELECT pg_terminate_backend($1)', [pid]);
    const error = await failing;
    await admin.query('COMMIT');
    expect(error).toMatchObject({ code: 'outcome-unknown', facts: { reason: '57P01' } });
    expect(done(await resolve(registry, lease)).head).toEqual({ ...head, epoch: 2 });
  });

  test('nobody answers in time: the connection is given up, and the outcome is unknown', async () => {
    const impatient = await server.open(database, { answerMs: 300, statementMs: 60_000 });
    const admin = await server.connect(database);
    await admin.query('BEGIN');
    await admin.query('SELECT 1 FROM archive FOR UPDATE');
    const error = await thrownBy(commit(impatient, lease, batchAfter(head)));
    expect(error).toMatchObject({ code: 'outcome-unknown', facts: { reason: 'no answer' } });
    await admin.query('COMMIT');
    const { head: found } = done(await resolve(registry, lease));
    expect([0, 1]).toContain(found.headNumber);
    await expectWholeLog(registry, archive);
  });

  test('a statement that the server gives up was refused for certain', async () => {
    const hurried = await server.open(database, { statementMs: 100 });
    const admin = await server.connect(database);
    await admin.query('BEGIN');
    await admin.query('SELECT 1 FROM archive FOR UPDATE');
    const error = await thrownBy(commit(hurried, lease, batchAfter(head)));
    await admin.query('COMMIT');
    expect(error).toMatchObject({
      code: 'registry-busy',
      retryable: true,
      facts: { condition: '57014' },
    });
    done(await commit(hurried, lease, batchAfter(head)));
  });

  test('a refusal is certain in every language of the server, and the connection is used again', async () => {
    proxy.translate();
    const refused = await server.open(database, { connections: 1 }, proxy.folder);
    const process = () =>
      refused.statement('test', sql`SELECT pg_backend_pid() AS pid`).then(([row]) => row);
    const before = await process();
    const batch = { ...batchAfter(head), codec: 40_000 };
    expect(await thrownBy(commit(refused, lease, batch))).toMatchObject({
      code: 'registry-refused',
      facts: { condition: '22003' },
    });
    expect(await process()).toEqual(before);
    const purge = { commits: [1], records: [] };
    expect(await thrownBy(decidePurge(refused, lease, batch, purge))).toMatchObject({
      code: 'registry-refused',
    });
    expect(await process()).toEqual(before);
  });

  test('a refusal after which the server ends the connection is not certain', async () => {
    proxy.endAfterError('22003');
    const batch = { ...batchAfter(head), codec: 40_000 };
    expect(await thrownBy(commit(registry, lease, batch))).toMatchObject({
      code: 'outcome-unknown',
      facts: { reason: '22003' },
    });
    expect(done(await resolve(registry, lease)).head).toEqual({ ...head, epoch: 2 });
  });

  test.each(['after', 'held'] as const)(
    'was a claim (%s): the session finds what it holds',
    async (how) => {
      const { session } = lease;
      const other = await newArchive(registry, 'berta');
      const options = { session, most: 5, catalogVersion: 1 };
      proxy.cutNext('commit\0', how);
      const error = await thrownBy(claim(registry, options));
      expect(error).toMatchObject({ code: 'outcome-unknown', facts: { transaction: 'claim' } });
      if (how === 'held') {
        // The claim has not arrived: the look that comes too early finds nothing new.
        expect((await heldArchives(registry, session)).map((held) => held.archive)).toEqual([
          archive,
        ]);
        await proxy.deliver();
      }
      await proxy.answered();
      const known = new Set([archive]);
      const found = (await heldArchives(registry, session)).filter(
        (held) => !known.has(held.archive),
      );
      expect(found).toMatchObject([{ archive: other, epoch: 1, holder: session }]);
      const lost = { archive: other, epoch: 1, session };
      const { head: resolved } = done(await resolve(registry, lost));
      const taken = { ...lost, epoch: resolved.epoch };
      done(await enterCache(registry, taken));
      done(await commit(registry, taken, batchAfter(resolved)));
    },
  );

  test('changes nothing if it was that of a look: no outcome is unknown', async () => {
    const looks: [string, () => Promise<unknown>][] = [
      ['FROM pg_settings', () => server.open(database, {}, proxy.folder)],
      ['FROM secret', () => readSecrets(registry, archive)],
      ['FROM cache c', () => copiesToWipe(registry, 'a')],
      ['FROM object', () => objectsToCollect(registry, AT_ONCE, 1)],
    ];
    for (const [text, look] of looks) {
      proxy.cutNext(text, 'after');
      expect([text, await thrownBy(look())]).toMatchObject([
        text,
        { code: 'registry-unreachable', retryable: true },
      ]);
      await proxy.answered();
    }
  });

  test('leaves a refusal certain if it was that of the look at why', async () => {
    const stale = { ...batchAfter(head), previousHash: sha256('fork') };
    proxy.cutNext('SELECT id AS archive', 'after');
    expect(await commit(registry, lease, stale)).toEqual({ outcome: 'fenced', by: 'head' });
    await proxy.answered();
    await upload(registry, lease, 'chunk', 'c/used');
    proxy.cutNext('SELECT id AS archive', 'after');
    const again = { key: 'c/used', kind: 'chunk', uploadId: 'u', purges: 0 } as const;
    expect(await register(registry, lease, again)).toEqual({ outcome: 'fenced', by: 'object' });
    await proxy.answered();
    proxy.cutNext('SELECT state', 'after');
    expect(await sweep(registry, 'c/used')).toEqual({ outcome: 'fenced', by: 'object' });
  });

  test('what is reported names no row and no byte of mail', async () => {
    const secret = 'secret words of a mail';
    const batch = { ...batchAfter(head, secret), time: Number.MAX_SAFE_INTEGER, codec: 40_000 };
    const error = await thrownBy(commit(registry, lease, batch));
    expect(error).toMatchObject({ code: 'registry-refused', facts: { condition: '22003' } });
    const written = JSON.stringify([error, String(error)]);
    expect(written).not.toContain('secret');
    expect(written).not.toContain('40000');
    if (hasCode(error, 'registry-refused')) {
      expect(describeFacts(error.code, error.facts).message).toContain('refused "commit"');
      expect(error.cause).toBeUndefined();
    }
  });
});
