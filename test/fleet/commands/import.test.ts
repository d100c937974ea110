import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { segmentPath } from '../../../src/archive/format.ts';
import { s3Store } from '../../../src/copies/s3-store.ts';
import { beginImport } from '../../../src/registry/imports.ts';
import { readArchive } from '../../../src/registry/reading.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { mailkeep } from '../../cli/child.ts';
import { targetAt } from '../../objects/servers/s3-server.ts';
import { signal } from '../../objects/store-contract.ts';
import { filesOf, localArchive } from '../servers/local-archive.ts';
import { type Servers, startServers, withoutServers } from '../servers/scene.ts';
import type { Place } from './place.ts';
import { accountsOf, nodeOf, RunningWorker } from './running-worker.ts';

const skipped = withoutServers();
let servers: Servers;
let sandbox: Sandbox;
let place: Place;
let worker: RunningWorker | undefined;

beforeAll(async () => {
  if (skipped) return;
  servers = await startServers();
  sandbox = await startSandbox({ seed: 1 });
  place = await nodeOf(servers, 'one');
}, 120_000);
afterEach(async () => {
  await worker?.end('SIGKILL');
  worker = undefined;
});
afterAll(async () => {
  place?.remove();
  await sandbox?.close();
  await servers?.stop();
});

/** Mirrors a mailbox of the sandbox to a folder, as a machine of its own does; returns its configuration and archive. */
async function mirrored(): Promise<{ config: string; data: string }> {
  const config = path.join(place.folder, 'local.json');
  const [mailbox] = sandbox.service.store.mailboxes.values();
  const account = {
    ...{ name: 'anna', baseUrl: sandbox.mailboxUrl, token: sandbox.tokens.mailbox },
    mailboxes: { include: [mailbox?.address ?? ''] },
  };
  const content = {
    ...{ accounts: [account], dataDir: 'data', minFreeBytes: 0 },
    rateLimit: { requestsPerMinute: 1_000_000, concurrency: 4 },
  };
  writeFileSync(config, JSON.stringify(content), { mode: 0o600 });
  const synced = await mailkeep(['sync', '--config', config, '--quiet']);
  expect([synced.stderr, synced.code]).toEqual(['', 0]);
  return { config, data: path.join(place.folder, 'data') };
}

/** What a search finds in an archive. */
async function messagesIn(data: string): Promise<string> {
  const found = await mailkeep(['list', '--data', data, '--json']);
  expect(found.code).toBe(0);
  return found.stdout;
}

/** Brings the sealed segments of the archive, as a holder does when something first reads them. */
async function fetchSealed(dir: string): Promise<void> {
  const objects = s3Store(targetAt(servers.gateway, 'fleet', { prefix: place.prefix }));
  try {
    const covers = (await readArchive(place.registry, 1))?.covers ?? [];
    for (const cover of covers.filter(({ generation }) => generation > 1)) {
      const pieces: Uint8Array[] = [];
      for await (const piece of objects.get(cover.key, { signal })) pieces.push(piece);
      writeFileSync(segmentPath(dir, cover), Buffer.concat(pieces));
    }
  } finally {
    await objects.close();
  }
}

describe.skipIf(skipped)('mailkeep fleet import', () => {
  test('brings an archive of a sync, with its account, which a worker continues', async () => {
    const { config, data } = await mirrored();
    const messages = await messagesIn(data);
    const before = filesOf(data);
    const line = ['import', '--data', data, '--account', 'anna', '--settings', config];
    const [imported] = await place.json([...line, '--tenant', 'acme']);
    expect(imported).toMatchObject({
      ...{ account: 'anna', tenant: 'acme', archive: 1, was: 'new', segments: 2 },
      ...{ kept: 0, catalog: true, memory: true },
    });
    expect(filesOf(data)).toEqual(before);
    const [listed] = await accountsOf(place);
    expect(listed).toMatchObject({ account: 'anna', state: 'active', node: null });
    const twice = await place.run(line);
    expect([twice.code, twice.stderr]).toEqual([
      2,
      expect.stringContaining('in the fleet already, as the account anna of the tenant acme.'),
    ]);

    worker = new RunningWorker(place);
    await worker.said('archive opened');
    await worker.said('run finished');
    expect(await worker.end('SIGTERM')).toBe(0);
    const cache = path.join(place.folder, 'cache', '1');
    expect(worker.lines.filter(({ msg }) => msg.includes('could not be used'))).toEqual([]);
    expect(await messagesIn(cache)).toBe(messages);
    await fetchSealed(cache);
    const verified = await mailkeep(['verify', '--data', cache]);
    expect([verified.stdout + verified.stderr, verified.code]).toEqual([
      expect.stringContaining('as it was written'),
      0,
    ]);
    // PostgreSQL has no replica.
    expect(await place.json(['check', '--read'], { code: 1 })).toMatchObject([
      { accounts: 1, damaged: 0, damage: [] },
    ]);
    rmSync(data, { recursive: true });
  }, 240_000);

  test('an import that is under way shows, cannot be paused, and is called off', async () => {
    const account = { tenant: 'acme', name: 'ben', logId: Buffer.alloc(8, 1), settings: {} };
    const begin = () =>
      beginImport(
        place.registry,
        { ...account, genesis: Buffer.alloc(32) },
        randomUUID(),
        () => [],
      );
    await begin();
    const list = await place.run(['account', 'list']);
    expect(list.stdout).toMatch(/^ben +acme +importing +-/m);
    const status = await place.run(['status']);
    expect(status.stdout).toContain('1 being imported');
    for (const act of ['pause', 'resume']) {
      const refused = await place.run(['account', act, 'ben']);
      expect([refused.code, refused.stderr]).toEqual([
        2,
        expect.stringContaining('is being imported. Nothing was changed.'),
      ]);
    }
    expect((await place.run(['check', 'ben'])).stderr).toContain('is being imported');
    const removed = await place.run(['account', 'remove', 'ben']);
    expect(removed.stdout).toBe(
      'The import of ben (tenant acme) was called off. Nothing of it is in the bucket; the archive that it came from is as it was.\n',
    );
    await begin();
    const abort = ['import', '--account', 'ben', '--tenant', 'acme', '--abort'];
    expect(await place.json(abort)).toEqual([
      { account: 'ben', tenant: 'acme', was: 'called off', objects: 0 },
    ]);
    const again = await place.run(abort);
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('No import')]);
  });

  test('is refused where there is no archive, and where the configuration has no such account', async () => {
    const data = path.join(place.folder, 'nothing');
    const none = await place.run(['import', '--data', data, '--account', 'cleo']);
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining(data)]);
    const local = await localArchive();
    const unknown = await place.run(['import', '--data', local, '--account', 'cleo']);
    rmSync(local, { recursive: true });
    expect([unknown.code, unknown.stderr]).toEqual([
      2,
      expect.stringMatching(/config\.json has no account cleo\. --settings names a file/),
    ]);
    expect((await accountsOf(place)).map(({ account }) => account)).toEqual(['anna']);
  });
});
