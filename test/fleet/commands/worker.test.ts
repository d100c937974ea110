import { readdirSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { mailkeep } from '../../cli/child.ts';
import { type Servers, startServers, withoutServers } from '../servers/scene.ts';
import type { Place } from './place.ts';
import { accountsOf, addAccounts, nodeOf, RunningWorker } from './running-worker.ts';

const skipped = withoutServers();

let servers: Servers;
let sandbox: Sandbox;
const places: Place[] = [];
const running: RunningWorker[] = [];

beforeAll(async () => {
  if (skipped) return;
  servers = await startServers();
}, 120_000);
beforeEach(async () => {
  if (!skipped) sandbox = await startSandbox({ seed: 1 });
});
afterEach(async () => {
  for (const worker of running.splice(0)) await worker.end('SIGKILL');
  for (const place of places.splice(0)) place.remove();
  await sandbox?.close();
});
afterAll(() => servers?.stop());

async function node(name: string, first?: Place): Promise<Place> {
  const place = await nodeOf(servers, name, first === undefined ? {} : { first });
  places.push(place);
  return place;
}

function worker(place: Place): RunningWorker {
  const started = new RunningWorker(place);
  running.push(started);
  return started;
}

describe.skipIf(skipped)('workers of a fleet', () => {
  test('mirror accounts, give them back, and take over those of a worker that was killed', async () => {
    const one = await node('one');
    const names = [...(await addAccounts(one, sandbox)).keys()];
    const first = worker(one);
    await first.said('archive opened', names.length);
    await first.said('run finished', names.length);
    const before = await accountsOf(one);
    expect(before.map(({ node, commits }) => [node, commits > 0])).toEqual(
      names.map(() => ['one', true]),
    );

    // Another node starts while the first one holds everything, and takes over when that is killed.
    const two = await node('two', one);
    const second = worker(two);
    await second.said('session begun');
    await first.end('SIGKILL');
    await two.registry.statement(
      'let a lease run out',
      sql`UPDATE worker SET lease_until = clock_timestamp() - interval '1 s' WHERE node = 'one'`,
    );
    await second.said('archive opened', names.length);
    await second.said('run finished', names.length);
    const after = await accountsOf(two);
    expect(after.map(({ node }) => node)).toEqual(names.map(() => 'two'));
    const isLost = ({ commits }: { commits: number }, at: number) =>
      commits < (before[at]?.commits ?? 0);
    expect(after.filter(isLost)).toEqual([]);

    expect(await second.end('SIGTERM')).toBe(0);
    const free = await accountsOf(two);
    expect(free.map(({ node }) => node)).toEqual(names.map(() => null));
    for (const { archive } of after) {
      const data = path.join(two.folder, 'cache', String(archive));
      const verified = await mailkeep(['verify', '--data', data]);
      expect([verified.stdout, verified.code]).toEqual([
        expect.stringContaining('as it was written'),
        0,
      ]);
    }
    expect(readdirSync(path.join(two.folder, 'cache')).length).toBe(names.length);
    expect(readdirSync(path.join(one.folder, 'cache')).length).toBe(names.length);
  }, 240_000);
});
