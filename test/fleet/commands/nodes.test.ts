import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readFleet } from '../../../src/registry/overview.ts';
import { endPurge } from '../../../src/registry/purges.ts';
import { endSession, renew } from '../../../src/registry/sessions.ts';
import { claimed, done, newArchive, newSession } from '../../registry/servers/fleet.ts';
import { Postgres, withoutPostgres } from '../../registry/servers/postgres.ts';
import { Place } from './place.ts';

const skipped = withoutPostgres();
let server: Postgres;
let place: Place;

beforeAll(async () => {
  if (!skipped) server = await Postgres.start();
});
beforeEach(async () => {
  if (!skipped) place = await Place.ready(server);
});
afterEach(() => place?.remove());
afterAll(() => server?.stop());

async function copies(): Promise<unknown> {
  const rows = sql<{ node: string }>`SELECT node FROM cache ORDER BY node, archive`;
  return (await place.registry.read('test', rows)).map(({ node }) => node);
}

describe.skipIf(skipped)('mailkeep fleet node remove', () => {
  test('explains itself first, and is refused while a worker of the node runs', async () => {
    const { registry } = place;
    const archive = await newArchive(registry, 'anna');
    const gone = await newSession(registry, 'node-3');
    await claimed(registry, gone, archive);
    await registry.statement(
      'test',
      sql`INSERT INTO purge (archive, purges, number, commits, records)
        VALUES (${archive}, 1, 1, '{1}', '[]')`,
    );
    const said = async (...args: readonly string[]) => {
      const { code, stderr } = await place.run(['node', 'remove', ...args]);
      return `${code}: ${stderr}`;
    };
    expect(await said('node-3', '--disk-destroyed')).toMatch(
      /^5: .*A worker of node-3 is running, so its disk is not destroyed\. Nothing was changed\./,
    );
    expect(await said('nod-3')).toContain('The fleet has no node nod-3.\nDid you mean "node-3"?');
    // The session ran out, and no worker has looked since.
    await registry.statement(
      'test',
      sql`UPDATE worker SET lease_until = clock_timestamp() - '1 s'::interval`,
    );
    expect(await said('node-3')).toBe(
      [
        '2: mailkeep: node-3 may have copies of 1 account on its disk, and 1 forget cannot end before they are wiped. Nothing was changed.',
        'If the disk still exists, start the node again: it wipes what is to be forgotten by itself. Only if the disk is destroyed, so that nobody can ever read it, add --disk-destroyed. What is on it is then counted as forgotten.',
        '',
      ].join('\n'),
    );
    expect(await copies()).toEqual(['node-3']);
  });

  test('lets forgets end, and is noted in the registry', async () => {
    const { registry } = place;
    const [anna, ben] = [await newArchive(registry, 'anna'), await newArchive(registry, 'ben')];
    const gone = await newSession(registry, 'node-3');
    await claimed(registry, gone, anna);
    await claimed(registry, gone, ben);
    done(await endSession(registry, gone));
    const session = await newSession(registry, 'node-1');
    const { lease } = await claimed(registry, session, anna);
    await registry.statement(
      'test',
      sql`INSERT INTO purge (archive, purges, number, commits, records)
        VALUES (${anna}, 1, 1, '{1}', '[]')`,
    );
    expect(await endPurge(registry, lease, 1)).toMatchObject({ outcome: 'fenced', by: 'bytes' });
    expect(await place.run(['node', 'remove', 'node-3', '--disk-destroyed'])).toEqual({
      code: 0,
      stdout:
        'Node node-3 is struck off. Its disk may have had copies of 2 accounts. The registry keeps a note of it.\n1 forget no longer waits for it.\n',
      stderr: '',
    });
    expect(await copies()).toEqual(['node-1']);
    done(await endPurge(registry, lease, 1));
    const noted = sql`SELECT node, archives FROM struck_node`;
    expect(await registry.read('test', noted)).toEqual([{ node: 'node-3', archives: 2 }]);
    expect(await place.json(['node', 'remove', 'node-3', '--disk-destroyed'])).toEqual([
      { node: 'node-3', archives: [], unfinishedForgets: 0 },
    ]);
  });
});

describe.skipIf(skipped)('mailkeep fleet drain', () => {
  test('lets the workers of a node, or of all, take nothing more', async () => {
    const { registry } = place;
    expect(await place.run(['drain'])).toEqual({
      ...{ code: 0, stdout: '', stderr: 'No worker is running.\n' },
    });
    const archive = await newArchive(registry, 'anna');
    const [first, second] = [await newSession(registry, 'n1'), await newSession(registry, 'n2')];
    await claimed(registry, first, archive);
    const draining = async () =>
      Promise.all(
        [first, second].map(async (session) => {
          const renewed = await renew(registry, session, 60_000);
          return renewed.outcome === 'committed' && renewed.draining;
        }),
      );
    expect(await place.run(['drain', '--node', 'n1'])).toEqual({
      code: 0,
      stdout: 'n1 takes nothing more and lets go of 1 account, each after its pass.\n',
      stderr: '',
    });
    expect(await draining()).toEqual([true, false]);
    expect(await place.json(['drain'])).toEqual(
      expect.arrayContaining([
        { node: 'n1', session: first, accounts: 1 },
        { node: 'n2', session: second, accounts: 0 },
      ]),
    );
    expect(await draining()).toEqual([true, true]);
    // A worker that begins later takes accounts again.
    const third = await newSession(registry, 'n1');
    expect(await renew(registry, third, 60_000)).toMatchObject({ draining: false });
    for (const session of [first, third]) done(await endSession(registry, session));
    expect(await place.run(['drain', '--node', 'n1'])).toMatchObject({
      ...{ code: 0, stderr: 'No worker is running on n1.\n' },
    });
    expect(await place.run(['drain', '--node', 'n9'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('The fleet has no node n9.'),
    });
    expect(await readFleet(registry)).toBeDefined();
  });
});
