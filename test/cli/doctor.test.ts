import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { findFileSystem } from '../../src/archive/file-system.ts';
import { acquireLock } from '../../src/archive/lock.ts';
import { clockSkew } from '../../src/cli/commands/doctor.ts';
import { type Hooked, hooked } from '../sandbox/webhooks/hooked.ts';
import { mailkeep, type Workplace, workplace } from './child.ts';
import { bothSurfaces } from './platform-config.ts';

const ADA = 'ada@example.org';
const answer = z.object({
  ok: z.boolean(),
  checks: z.array(
    z.object({
      name: z.string(),
      about: z.string().nullable(),
      state: z.enum(['ok', 'warning', 'failed', 'skipped']),
      message: z.string(),
      remedy: z.string().nullable(),
    }),
  ),
});

let here: Hooked;
beforeAll(async () => {
  here = await hooked();
});
afterAll(() => here.close());

async function doctor(place: Workplace, env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await mailkeep(['doctor', '--json', '--config', place.config], {
    env,
  });
  const { ok, checks } = answer.parse(JSON.parse(stdout));
  return { code, stderr, ok, states: checks.map(({ name, state }) => `${name} ${state}`), checks };
}

test('what is in order is said in a line each, and nothing is changed', async () => {
  const place = workplace(here.served.sandbox);
  const { code, ok, states, stderr } = await doctor(place);
  expect([code, ok, stderr]).toEqual([0, true, '']);
  expect(states).toEqual([
    'config ok',
    'file-system ok',
    'free-space ok',
    'write ok',
    'lock skipped',
    'token ok',
    'service ok',
    'clock ok',
    'webhook skipped',
  ]);
  const { stdout } = await mailkeep(['doctor', '--config', place.config]);
  expect(stdout.trimEnd().split('\n')).toHaveLength(9);
  // Without a bound there is none to report.
  expect(stdout).toMatch(/^ok {6}free-space: \S+ \wB are free\.$/m);
  expect(stdout).not.toContain(here.served.sandbox.tokens.mailbox);
});

test('a wrong configuration is exit 2, and the archive is looked at all the same', async () => {
  const place = workplace(here.served.sandbox);
  writeFileSync(place.config, '{"accounts": []}');
  const { code, states } = await doctor(place);
  expect([code, states[0]]).toEqual([2, 'config failed']);
  expect(states).toContain('file-system ok');
});

test('a token that is refused is exit 6, one that is missing is exit 2', async () => {
  const place = workplace(here.served.sandbox);
  writeFileSync(path.join(place.folder, 'token'), 'wrong');
  const refused = await doctor(place);
  expect([refused.code, refused.states.includes('service failed')]).toEqual([6, true]);
  rmSync(path.join(place.folder, 'token'));
  const missing = await doctor(place);
  expect([missing.code, missing.states.at(-1)]).toEqual([2, 'token failed']);
  const { stdout } = await mailkeep(['doctor', '--config', place.config]);
  expect(stdout).toMatch(
    /^FAILED {2}token \(main\): There is no token: .* does not exist\. Put the token there, /m,
  );
  expect(missing.checks.at(-1)?.remedy).toEqual(expect.any(String));
});

test('a service that is not there is exit 1', async () => {
  const { tokens } = here.served.sandbox;
  const place = workplace({ mailboxUrl: 'http://127.0.0.1:9', tokens });
  const { code, states } = await doctor(place);
  expect([code, states.includes('service failed')]).toEqual([1, true]);
});

test('a disk without enough room, and an archive that somebody writes to', async () => {
  const place = workplace(here.served.sandbox, (config) => ({ ...config, minFreeBytes: 2 ** 52 }));
  mkdirSync(place.data);
  writeFileSync(path.join(place.data, 'FORMAT'), 'mailkeep archive 1\n');
  const lock = acquireLock(place.data);
  const { code, checks, states } = await doctor(place);
  lock.release();
  expect([code, states.includes('free-space failed')]).toEqual([1, true]);
  expect(checks.find(({ name }) => name === 'lock')?.message).toContain('Another process');
});

test('a webhook that is paused is named, with the command that mends it', async () => {
  const place = bothSurfaces(here.served.sandbox);
  const receiver = await here.receiver();
  const args = ['--mailbox', ADA, '--url', receiver.url, '--config', place.config];
  const create = await mailkeep(['webhooks', 'create', ...args, '--json']);
  const { id } = z.object({ id: z.string() }).parse(JSON.parse(create.stdout));
  expect((await doctor(place)).states).toContain('webhook ok');
  await mailkeep(['webhooks', 'pause', id, '--config', place.config]);
  const { code, checks } = await doctor(place);
  expect(code).toBe(1);
  expect(checks).toContainEqual({
    name: 'webhook',
    about: id,
    state: 'failed',
    message: expect.stringContaining('paused'),
    remedy: expect.stringContaining(`webhooks resume ${id}`),
  });
});

test('a clock that is off is a warning', async () => {
  const server = createServer((_, response) => {
    response.setHeader('date', new Date(Date.now() - 3_600_000).toUTCString());
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({
        data: { orderResourceId: 'OR1', mailboxes: [{ resourceId: 'AC1', address: ADA }] },
      }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const { tokens } = here.served.sandbox;
  const { code, checks } = await doctor(
    workplace({ mailboxUrl: `http://127.0.0.1:${port}`, tokens }),
  );
  await new Promise((resolve) => server.close(resolve));
  expect(code).toBe(0);
  expect(checks).toContainEqual({
    name: 'clock',
    about: 'main',
    state: 'warning',
    message: expect.stringMatching(
      /^This machine's clock is (59 min \d+ s|1 h) ahead of the service's\.$/,
    ),
    remedy: expect.stringContaining('timedatectl'),
  });
});

test('the way of the answer, and the half second the header lacks, are no skew', () => {
  expect(clockSkew({ theirs: 10_000, before: 10_900, after: 12_000 })).toBe(0);
  expect(clockSkew({ theirs: 10_000, before: 9_000, after: 10_500 })).toBe(0);
  expect(clockSkew({ theirs: 10_000, before: 80_000, after: 81_000 })).toBe(69_000);
  expect(clockSkew({ theirs: 90_000, before: 10_000, after: 20_000 })).toBe(-70_000);
});

describe('the file system of a folder', () => {
  const table = [
    '21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw',
    '40 21 0:50 / /mnt/nas rw - nfs4 nas:/mail rw',
    '41 40 8:2 / /mnt/nas/local rw master:2 - xfs /dev/sdb1 rw',
    '42 21 0:51 / /media/with\\040blank rw - fuse.sshfs me@host: rw',
    '43 21 0:52 / /over rw - cifs //a/b rw',
    '44 43 8:3 / /over rw - btrfs /dev/sdc1 rw',
  ].join('\n');
  test.each([
    ['/srv/mail', 'ext4', false],
    ['/mnt/nas', 'nfs4', true],
    ['/mnt/nas/mail', 'nfs4', true],
    ['/mnt/nasty', 'ext4', false],
    ['/mnt/nas/local/mail', 'xfs', false],
    ['/media/with blank/mail', 'fuse.sshfs', true],
    ['/over/mail', 'btrfs', false],
  ])('%s is on %s', (folder, type, network) => {
    expect(findFileSystem(table, folder)).toMatchObject({ type, network });
  });
});

test('an unreadable table says nothing', () => {
  expect(findFileSystem('', mkdtempSync(path.join(tmpdir(), 'mailkeep-fs-')))).toBeNull();
});
