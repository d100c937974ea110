import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { registryTarget } from '../../src/fleet/postgres-target.ts';

const PASSWORD = 'never%20shown';

test('an address is completed from the environment, and its password is in no label', () => {
  expect(registryTarget(`postgresql://mailkeep:${PASSWORD}@localhost:6432/fleet`, {})).toEqual({
    label: 'postgresql://mailkeep@localhost:6432/fleet',
    ...{ host: 'localhost', port: 6432, user: 'mailkeep', database: 'fleet' },
    ...{ password: 'never shown', tls: undefined },
  });
  const env = { PGHOST: '127.0.0.1', PGPORT: '7000', PGUSER: 'u', PGPASSWORD: 'p' };
  expect(registryTarget('postgresql://', env)).toMatchObject({
    label: 'postgresql://u@127.0.0.1:7000/u',
    password: 'p',
  });
  expect(registryTarget('postgresql:///fleet?host=/run/postgresql&user=m', {})).toMatchObject({
    label: 'postgresql:///fleet?host=/run/postgresql&port=5432&user=m',
    ...{ host: '/run/postgresql', port: 5432, tls: undefined },
  });
  expect(registryTarget('postgresql://m:a%2Fb%23c%3Fd%40@localhost/a%40b', {})).toMatchObject({
    ...{ label: 'postgresql://m@localhost:5432/a%40b', password: 'a/b#c?d@', database: 'a@b' },
  });
  expect(registryTarget('postgres://m@[::1]/fleet', {})).toMatchObject({
    ...{ label: 'postgresql://m@[::1]:5432/fleet', host: '::1', tls: undefined },
  });
});

test('a connection that leaves this machine is encrypted and verified', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'registry-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const ca = path.join(folder, 'ca.pem');
  writeFileSync(ca, 'a certificate');
  const none = { ca: undefined, cert: undefined, key: undefined };
  const tls = (parameters: string, host = 'db.example') =>
    registryTarget(`postgresql://m@${host}/fleet${parameters}`, {}).tls;
  expect(tls('')).toEqual(none);
  expect(tls('?sslmode=verify-full')).toEqual(none);
  expect(tls(`?sslrootcert=${ca}`)).toEqual({ ...none, ca: 'a certificate' });
  expect(tls('?sslmode=verify-full', 'localhost')).toEqual(none);
  expect(tls('?sslmode=disable', 'localhost')).toBeUndefined();
});

test.each([
  ['mysql://m@db/fleet', 'begin with postgresql://'],
  [`m:${PASSWORD}@db`, 'begin with postgresql://'],
  ['postgresql://db.example/fleet', 'names no user'],
  [`postgresql://m:${PASSWORD}@db.example/fleet?sslmode=disable`, 'not for db.example'],
  [`postgresql://m:${PASSWORD}@db.example/fleet?sslmode=prefer`, 'verify-full'],
  [`postgresql://m:${PASSWORD}@/fleet`, 'no valid address'],
  [`postgresql:m:${PASSWORD}@db`, 'begin with postgresql://'],
  [`postgresql:///m:${PASSWORD}@db`, 'no valid address'],
  [`postgresql://m:${PASSWORD}@db:99999/fleet`, 'no valid address'],
  [`postgresql://m:${PASSWORD}/w@db/fleet`, 'write / as %2F'],
  [`postgresql://m:1/${PASSWORD}@db/fleet`, '%2F'],
  [`postgresql://m:1/${PASSWORD}@db`, '%2F'],
  [`postgresql://m:1#${PASSWORD}@db/fleet`, '%23'],
  [`postgresql://m:1?${PASSWORD}@db/fleet`, '%3F'],
  [`postgresql://m:1?user=${PASSWORD}@db/fleet`, '%3F'],
  [`postgresql://m:1?host=${PASSWORD}@db/fleet&sslmode=disable`, '%3F'],
  ['postgresql://m@db/fleet#', 'no valid address'],
  ['postgresql://m@db/fleet/other', 'no valid address'],
  [`postgresql:///fleet?host=/run&user=m&sslmode=verify-full`, 'has no TLS'],
  [`postgresql://m:${PASSWORD}@db.example/fleet?password=${PASSWORD}`, 'parameters'],
  [`postgresql://m:${PASSWORD}@db.example:0/fleet`, 'port'],
  [`postgresql://m:%ZZ${PASSWORD}@db.example/fleet`, 'escape'],
  [`postgresql://m:${PASSWORD}@db.example/fleet?sslrootcert=/nowhere/ca`, 'ENOENT'],
])('%s is refused, and what is reported has no password', (address, problem) => {
  let thrown: unknown;
  try {
    registryTarget(address, address.includes('//m:1') ? { PGUSER: 'm' } : {});
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toMatchObject({ code: 'registry-setting-invalid' });
  expect(String(thrown)).toContain(problem);
  expect(JSON.stringify([thrown, String(thrown)])).not.toMatch(/never/);
});
