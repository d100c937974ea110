import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { claimed, committedBatches, newSession } from '../../registry/servers/fleet.ts';
import { Exercised } from '../../surface/exercised.ts';
import { expectRecorded } from '../../surface/recorded.ts';
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
  const done = new Exercised();
  const run = async (of: string, args: readonly string[] = [], as = '') =>
    done.note(`fleet ${of}`, as, await place.json([...of.split(' '), ...args]));
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
  await run('account remove', ['anna']);
  expectRecorded('fleet-json', done.entries());
  expect(done.commands.size).toBeGreaterThan(0);
});
