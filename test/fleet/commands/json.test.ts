import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { beginImport } from '../../../src/registry/imports.ts';
import { endSession } from '../../../src/registry/sessions.ts';
import {
  claimed,
  committedBatches,
  done,
  newSession,
  upload,
} from '../../registry/servers/fleet.ts';
import { Exercised } from '../../surface/exercised.ts';
import { expectRecorded } from '../../surface/recorded.ts';
import { localArchive } from '../servers/local-archive.ts';
import { type Servers, startServers, withoutServers } from '../servers/scene.ts';
import { Place } from './place.ts';

const skipped = withoutServers();
let servers: Servers;
let place: Place;

beforeAll(async () => {
  if (skipped) return;
  servers = await startServers();
  place = await Place.make(servers.postgres, { empty: true, server: servers.gateway });
});
afterAll(async () => {
  place?.remove();
  await servers?.stop();
});

test.skipIf(skipped)('the JSON of every command is as recorded', async () => {
  const exercised = new Exercised();
  const run = async (of: string, args: readonly string[] = [], as = '', code = 0) =>
    exercised.note(`fleet ${of}`, as, await place.json([...of.split(' '), ...args], { code }));
  await run('init');
  await run('init');
  const settings = { baseUrl: 'https://mail.example', token: 'hush' };
  writeFileSync(path.join(place.folder, 'anna.json'), JSON.stringify(settings));
  await run('account add', ['anna', '--settings', 'anna.json']);
  await run('account list');
  const session = await newSession(place.registry, 'node-1');
  const { lease, head } = await claimed(place.registry, session, 1);
  await committedBatches(place.registry, lease, head, 1);
  await run('account list');
  await run('account pause', ['anna']);
  await run('account resume', ['anna']);
  const purge = sql`INSERT INTO purge (archive, purges, number, commits, records)
    VALUES (1, 1, 1, '{1}', '[]')`;
  await place.registry.statement('test', purge);
  await place.registry.statement('test', sql`UPDATE archive SET tail_since = clock_timestamp()`);
  await upload(place.registry, lease, 'chunk', 'key');
  await run('status', [], '', 1);
  // The bytes of its one commit are none.
  await run('check', [], '', 3);
  await run('account remove', ['anna']);
  await run('drain');
  done(await endSession(place.registry, session));
  await run('node remove', ['node-1', '--disk-destroyed']);
  await run('status', [], '', 1);
  await run('key rotate', ['--new', 'k2']);
  const lost = sql`UPDATE secret SET key_id = 'lost'`;
  await place.registry.statement('test', lost);
  await run('key rotate', [], '', 2);
  const dir = await localArchive();
  try {
    await run('import', ['--data', dir, '--account', 'carl', '--settings', 'anna.json']);
  } finally {
    rmSync(dir, { recursive: true });
  }
  const log = { logId: Buffer.alloc(8), genesis: Buffer.alloc(32) };
  const dora = { tenant: 'default', name: 'dora', settings: {}, ...log };
  done(await beginImport(place.registry, dora, randomUUID(), () => []));
  await run('import', ['--account', 'dora', '--abort'], 'abort');
  expectRecorded('fleet-json', exercised.entries());
  expect(exercised.commands.size).toBe(12);
});
