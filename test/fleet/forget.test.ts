import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Extractor } from '../../src/mail/extraction.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { registryError } from '../../src/registry/errors.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { chosenDeaths, type Mortal } from './servers/mortal.ts';
import { Folders } from './servers/nodes.ts';
import { type Servers, startServers, withoutServers } from './servers/scene.ts';
import { Nodes, type NodesOf } from './servers/secret-nodes.ts';

const skipped = withoutServers();
const SEED = Number(process.env.MAILKEEP_SEED ?? Math.floor(Math.random() * 2 ** 31));
/** At how many acts of a forget a process is killed; `all` is every one, before it and after it. */
const KILLS = process.env.MAILKEEP_FORGET_KILLS ?? '6';
const folders = new Folders();
const of = (): NodesOf => ({ servers, folders, extractor });
let servers: Servers;
let extractor: Extractor;

beforeAll(async () => {
  if (skipped) return;
  servers = await startServers();
  extractor = openExtractorPool({ workers: 1, workerFile: await buildWorker() });
}, 120_000);
afterAll(async () => {
  await extractor?.close();
  await servers?.stop();
});
afterEach(() => folders.remove());

describe.skipIf(skipped)('a forget in a fleet', () => {
  test('ends when the words are in no row, object, snapshot or folder, and not before', async () => {
    const { nodes, opened } = await Nodes.make(of());
    const places = (await nodes.leaks()).map((leak) => leak.split(':')[0] ?? '');
    const kinds = places.map(
      (place) => /\/(s|c|catalog)\//.exec(place)?.[1] ?? place.replace(/_\d+$/, ''),
    );
    expect(new Set(kinds)).toEqual(
      new Set(['tail', 's', 'c', 'catalog', 'folder of old', 'folder of holder']),
    );
    await nodes.forget(opened);
    expect(await opened.purges.finish()).toEqual([1]);
    await nodes.finish(opened.purges);
    expect(await nodes.leaks()).toEqual([]);
    await nodes.expectWhole(await nodes.take('holder'));
  }, 120_000);

  test.each([
    ['happened', true],
    ['did not happen', false],
  ])(
    'whose decision got no answer is settled, if it %s',
    async (_, happens) => {
      const { nodes, opened } = await Nodes.make(of());
      await opened.writer.close();
      let isLost = false;
      const holder = await nodes.take(
        'holder',
        losing(async (ask) => {
          isLost = true;
          if (happens) await ask();
        }),
      );
      const { epoch } = holder.held.lease;
      const forgetting = nodes.forget(holder);
      if (happens) await forgetting;
      else await expect(forgetting).rejects.toMatchObject({ code: 'log-write-failed' });
      expect([isLost, holder.held.lease.epoch]).toEqual([true, epoch + 1]);
      expect(await holder.purges.finish()).toEqual(happens ? [1] : []);
      if (!happens) await nodes.forget(holder);
      expect(holder.held.head.purges).toBe(1);
      await nodes.finish(holder.purges);
      expect(await nodes.leaks()).toEqual([]);
      await nodes.expectWhole(await nodes.take('holder'));
    },
    120_000,
  );

  test('is finished by another node, wherever a process is killed', async () => {
    const unharmed = await Nodes.make(of());
    unharmed.process.doom();
    await unharmed.nodes.forget(unharmed.opened);
    const { acts } = unharmed.process;
    const deaths = chosenDeaths(acts, KILLS, SEED);
    console.log(`seed ${SEED}: ${deaths.length} kills in a forget of ${acts} acts`);
    expect(acts).toBeGreaterThan(15);
    for (const death of deaths) {
      const { nodes, opened, process } = await Nodes.make(of());
      process.doom(death);
      const what = `killed ${death.when} act ${death.act}`;
      await expect(nodes.forget(opened), what).rejects.toThrow();
      expect([what, process.isDead]).toEqual([what, true]);
      await opened.writer.close();
      const next = await nodes.take('next');
      if (next.held.head.purges === 0) await nodes.forget(next);
      await next.writer.close();
      await nodes.finish(next.purges);
      expect([what, await nodes.leaks()]).toEqual([what, []]);
      await nodes.expectWhole(await nodes.take('next'));
    }
  }, 1_800_000);
});

/** A process that gets no answer to its first decision of a purge. */
function losing(act: (ask: () => Promise<unknown>) => Promise<void>): Pick<Mortal, 'asked'> {
  let isLost = false;
  const lose = async (ask: () => Promise<unknown>, [transaction]: readonly unknown[]) => {
    if (isLost || transaction !== 'decide a purge') return ask();
    isLost = true;
    await act(ask);
    throw registryError('outcome-unknown', {
      ...{ registry: 'test', transaction: 'decide a purge', reason: 'cut' },
    });
  };
  return {
    asked: (target) =>
      new Proxy(target, {
        get: (of, name) => {
          const value: unknown = Reflect.get(of, name, of);
          if (typeof value !== 'function') return value;
          if (name !== 'transaction') return value.bind(of);
          return (...given: unknown[]) => lose(() => value.apply(of, given), given);
        },
      }),
  };
}
