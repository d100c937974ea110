import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { TRANSACTIONS } from '../../src/registry/transactions.ts';
import { sourceFiles } from '../architecture/source-tree.ts';
import { Rows } from './servers/fleet.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';
import { leaseOf, newScene, type Scene, type Transaction } from './zombies/scene.ts';
import { UNFENCED, ZOMBIES } from './zombies/table.ts';

const skipped = withoutPostgres();
let server: Postgres;
let scene: Scene;
let rows: Rows;
/** Most that are refused leave the scene as it was. */
let isChanged = false;

beforeAll(async () => {
  if (skipped) return;
  server = await Postgres.start();
  const database = await server.create();
  scene = await newScene(await server.open(database));
  rows = await Rows.keep(await server.connect(database));
});
beforeEach(async () => {
  if (isChanged) await rows.restore();
  isChanged = false;
});
afterAll(async () => {
  await server?.stop();
});

const names = Object.keys(TRANSACTIONS) as Transaction[];

test('every transaction has zombies, or a reason why it has none', () => {
  const without = names.filter((name) => ZOMBIES[name].length === 0);
  expect(without.toSorted()).toEqual(Object.keys(UNFENCED).toSorted());
});

test('every function of the registry that writes is in the list of transactions', () => {
  const room = sourceFiles(['src']).filter(({ file }) => file.startsWith('src/registry/'));
  const readers = [
    'reading.ts',
    'webhook-reading.ts',
    'forget-reading.ts',
    'hints.ts',
    'listening.ts',
    'account-named.ts',
    'overview.ts',
    'upkeep.ts',
    'status.ts',
    'numbers.ts',
    'schema.ts',
    'registry.ts',
    'outcome.ts',
    'tail-part.ts',
  ];
  const writing = room
    .filter(({ file }) => !readers.some((name) => file.endsWith(`/${name}`)))
    .flatMap(({ text }) =>
      [...text.matchAll(/^export async function (\w+)\(\s*registry: Registry/gm)].map(
        ([, name = '']) => name,
      ),
    )
    // It only counts.
    .filter((name) => name !== 'purgeRemaining');
  expect(writing.toSorted()).toEqual([...names].toSorted());
});

describe.skipIf(skipped)('a transaction of a zombie', () => {
  const table = names.flatMap((name) => ZOMBIES[name].map((zombie) => ({ name, ...zombie })));

  test.each(table)('$name: $zombie is refused and changes nothing', async (row) => {
    isChanged = row.ready !== undefined || row.before !== undefined;
    await row.ready?.(scene);
    await row.before?.(scene);
    const before = await rows.all();
    expect(await row.send(scene)).toMatchObject({ outcome: 'fenced', by: row.by });
    expect(await rows.all()).toEqual(before);
  });

  test.each(names.filter((name) => ZOMBIES[name].length > 0))(
    '%s happens where nothing stands against it, and changes something',
    async (name) => {
      const [first] = ZOMBIES[name];
      isChanged = true;
      await first?.ready?.(scene);
      const before = await rows.all();
      expect(await scene.send[name](leaseOf(scene, name))).toMatchObject({ outcome: 'committed' });
      expect(await rows.all()).not.toEqual(before);
    },
  );
});
