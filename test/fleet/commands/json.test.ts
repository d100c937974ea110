import { afterAll, beforeAll, expect, test } from 'vitest';
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
  expectRecorded('fleet-json', done.entries());
  expect(done.commands.size).toBeGreaterThan(0);
});
