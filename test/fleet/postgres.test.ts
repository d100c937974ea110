import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { describeError, describeFacts } from '../../src/core/errors.ts';
import { openRegistry } from '../../src/fleet/postgres.ts';
import { registryTarget } from '../../src/fleet/postgres-target.ts';
import { createFleet } from '../../src/fleet/schema.ts';
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

const FLEET = { id: 'aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa', bucket: 'mail' };

test('what is advised can be done', () => {
  const registry = 'postgresql://m@db:5432/fleet';
  const unsafe = (setting: string) =>
    describeFacts('registry-unsafe', { registry, setting, found: 'off' });
  expect(unsafe('fsync').hint).toContain('postgresql.conf');
  expect(unsafe('synchronous_commit').hint).toContain('for the database and the user');
  const older = (found: string | null) =>
    describeFacts('registry-schema-older', { registry, found, needed: '2' });
  expect(older(null).hint).toContain('names the database');
  expect(older('1').hint).toContain('other machines');
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
    await registry.statement('make a table', sql`CREATE TABLE tenant (name text PRIMARY KEY)`);
    const error: unknown = await registry
      .statement('add a tenant', sql`INSERT INTO tenant VALUES (${name})`)
      .catch((thrown: unknown) => thrown);
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
    await expect(createFleet(other, FLEET)).rejects.toMatchObject({
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
      fleet = await createFleet(registry, FLEET).catch(() => undefined);
    }
    expect(fleet).toMatchObject(FLEET);
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
