import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { fleetMigrations } from '../../migrations/fleet/index.ts';
import { describeError, describeFacts } from '../../src/core/errors.ts';
import { addTenant, initFleet } from '../../src/registry/fleet.ts';
import { openRegistry } from '../../src/registry/registry.ts';
import { checkSchema, migrateRegistry } from '../../src/registry/schema.ts';
import { registryTarget } from '../../src/registry/target.ts';
import { makeCertificate } from '../imap/certificate.ts';
import { absent } from '../peers/programs.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';
import { tlsFront } from './servers/tls-front.ts';

const skipped = withoutPostgres();
let server: Postgres;

beforeAll(async () => {
  if (!skipped) server = await Postgres.startOwn();
});
afterAll(async () => {
  await server?.stop();
});

const STEPS = Object.keys(fleetMigrations);
const FLEET = {
  ...{ id: 'aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa', bucket: 'mail' },
  ...{ archiveFormat: 1, catalogVersion: 1 },
};

describe.skipIf(skipped)('the tables of a fleet', () => {
  test('are made once, also by several processes at the same time', async () => {
    const database = await server.create({ empty: true });
    const several = await Promise.all([1, 2, 3].map(() => server.open(database)));
    const [first] = several;
    if (first === undefined) throw new Error('no registry');
    await expect(checkSchema(first)).rejects.toMatchObject({
      code: 'registry-schema-older',
      facts: { found: null, needed: STEPS[0] },
    });
    const carried = await Promise.all(several.map((registry) => migrateRegistry(registry)));
    expect(carried.flat()).toEqual(STEPS);
    expect(carried.filter((steps) => steps.length > 0)).toHaveLength(1);
    await checkSchema(first);
  });

  test('of a newer program are refused, and left as they are', async () => {
    const database = await server.create();
    const registry = await server.open(database);
    const admin = await server.connect(database);
    await admin.query(`INSERT INTO schema_step (name) VALUES ('9999_later')`);
    const newer = {
      code: 'registry-schema-newer',
      facts: { found: '9999_later', known: STEPS.at(-1) },
    };
    await expect(migrateRegistry(registry)).rejects.toMatchObject(newer);
    await expect(checkSchema(registry)).rejects.toMatchObject(newer);
    const { rows } = await admin.query(`SELECT name FROM schema_step ORDER BY name`);
    expect(rows).toEqual([...STEPS, '9999_later'].map((name) => ({ name })));
  });

  test('may ask for a newer program', async () => {
    const database = await server.create();
    const registry = await server.open(database);
    await initFleet(registry, FLEET);
    await checkSchema(registry);
    const admin = await server.connect(database);
    await admin.query('UPDATE fleet SET min_program = 1000');
    await expect(checkSchema(registry)).rejects.toMatchObject({
      code: 'registry-program-old',
      facts: { needed: 1000 },
    });
  });

  test('keep the bytes of tails out of the compression of the server', async () => {
    const admin = await server.connect(await server.create());
    const { rows } = await admin.query(
      `SELECT count(*)::int AS count, count(*) FILTER (WHERE attstorage = 'e')::int AS external
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE a.attname = 'bytes' AND c.relname ~ '^tail'`,
    );
    expect(rows).toEqual([{ count: 17, external: 17 }]);
  });
});

test('what is advised can be done', () => {
  const registry = 'postgresql://m@db:5432/fleet';
  const unsafe = (setting: string) =>
    describeFacts('registry-unsafe', { registry, setting, found: 'off' });
  expect(unsafe('fsync').hint).toContain('postgresql.conf');
  expect(unsafe('synchronous_commit').hint).toContain('for the database and the user');
  const older = (found: string | null) =>
    describeFacts('registry-schema-older', { registry, found, needed: '0002' });
  expect(older(null).hint).toContain('names the database');
  expect(older('0001').hint).toContain('Upgrade the tables');
  const refused = { registry, transaction: 'commit', condition: '22003', constraint: null };
  expect(describeFacts('registry-refused', refused).hint).toContain('report it');
});

describe.skipIf(skipped)('a connection', () => {
  test('to no server, no database, or as nobody is refused with what was wrong', async () => {
    const nowhere = server.target('made', '/nowhere');
    await expect(openRegistry(nowhere)).rejects.toMatchObject({
      code: 'registry-unreachable',
      facts: { reason: 'ENOENT' },
    });
    await expect(openRegistry(server.target('missing'))).rejects.toMatchObject({
      code: 'registry-no-database',
    });
    await expect(openRegistry({ ...server.target('made'), user: 'nobody' })).rejects.toMatchObject({
      code: 'registry-access-denied',
      facts: { condition: '28000' },
    });
  });

  test.each([
    ['synchronous_commit', 'off'],
    ['synchronous_commit', 'local'],
  ])('to a database with %s = %s is refused', async (setting, found) => {
    const database = await server.create();
    const admin = await server.connect(database);
    await admin.query(`ALTER DATABASE ${database} SET ${setting} = ${found}`);
    await expect(openRegistry(server.target(database))).rejects.toMatchObject({
      code: 'registry-unsafe',
      facts: { setting, found },
    });
  });

  test('reports a limit of the server as what no other try changes', async () => {
    const registry = await server.open(await server.create());
    // Too long for an index, also after it was compressed.
    const name = randomBytes(16_384).toString('hex');
    const error: unknown = await addTenant(registry, { name, weight: 1 }).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({
      code: 'registry-limit',
      retryable: false,
      facts: { transaction: 'add a tenant', condition: '54000' },
    });
    expect(describeError(error)).not.toContain('Make room');
  });

  test('lets what only reads fail without an unknown outcome', async () => {
    const database = await server.create();
    const registry = await server.open(database);
    const admin = await server.connect(database);
    await admin.query(`ALTER DATABASE ${database} SET default_transaction_read_only = on`);
    const other = await server.open(database);
    await expect(initFleet(other, FLEET)).rejects.toMatchObject({
      code: 'registry-read-only',
      retryable: true,
    });
    // Connections from before, which the server ends, are replaced.
    await admin.query(
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()',
    );
    await admin.query(`ALTER DATABASE ${database} RESET default_transaction_read_only`);
    let fleet: unknown;
    // The pool may not have heard of it: then nothing happened, and it can be tried again.
    while (fleet === undefined) {
      fleet = await initFleet(registry, FLEET).catch(() => undefined);
    }
    expect(fleet).toEqual(FLEET);
  });

  test('takes a password from the environment, and no error has it', async () => {
    const admin = await server.connect('made');
    await admin.query(`CREATE ROLE locked LOGIN PASSWORD 'the right one'`);
    const target = (env: Record<string, string>) =>
      registryTarget(`postgresql:///made?host=${server.socketFolder}&user=locked`, env);
    const registry = await openRegistry(target({ PGPASSWORD: 'the right one' }));
    expect(registry.label).not.toContain('right');
    await registry.close();
    for (const env of [{ PGPASSWORD: 'never shown' }, {}]) {
      const error: unknown = await openRegistry(target(env)).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({
        code: 'registry-access-denied',
        facts: { condition: '28P01' },
      });
      expect(JSON.stringify([error, String(error), describeError(error)])).not.toContain('never');
    }
  });
});

describe.skipIf(skipped || absent('openssl'))('a connection over TLS', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'registry-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each(['localhost', '127.0.0.1'])('to %s is verified', async (host) => {
    const certificate = makeCertificate(folder);
    const front = await tlsFront(server.socket, certificate);
    onTestFinished(() => front.stop());
    const address = `postgresql://fleet@${host}:${front.port}/made?sslmode=verify-full`;
    const trusting = registryTarget(`${address}&sslrootcert=${certificate.file}`, {});
    const registry = await openRegistry(trusting);
    await checkSchema(registry);
    await registry.close();
    await expect(openRegistry(registryTarget(address, {}))).rejects.toMatchObject({
      code: 'registry-certificate',
      facts: { reason: 'DEPTH_ZERO_SELF_SIGNED_CERT' },
    });
  });

  test('with a certificate of another name is refused', async () => {
    const certificate = makeCertificate(folder, ['DNS:db.example']);
    const front = await tlsFront(server.socket, certificate);
    onTestFinished(() => front.stop());
    const address = `postgresql://fleet@localhost:${front.port}/made?sslmode=verify-full`;
    const target = registryTarget(`${address}&sslrootcert=${certificate.file}`, {});
    await expect(openRegistry(target)).rejects.toMatchObject({
      code: 'registry-certificate',
      facts: { reason: 'ERR_TLS_CERT_ALTNAME_INVALID' },
    });
  });
});
