import { hash, randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { archiveError } from '../../src/archive/errors.ts';
import type { SegmentStore } from '../../src/archive/segment-files.ts';
import { FleetForgets, wantedOf } from '../../src/fleet/forgets.ts';
import type { Extractor } from '../../src/mail/extraction.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { forgetsOf, waitingForgets } from '../../src/registry/forget-reading.ts';
import { askForget } from '../../src/registry/forgets.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { signal } from '../objects/store-contract.ts';
import { done } from '../registry/servers/fleet.ts';
import { chosenDeaths, Mortal } from './servers/mortal.ts';
import { Folders } from './servers/nodes.ts';
import { type Servers, startServers, withoutServers } from './servers/scene.ts';
import { Nodes, type NodesOf, SECRETS } from './servers/secret-nodes.ts';

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

/** Nobody holds the archive any more; somebody asks for its secrets to be forgotten. */
async function asked(wanted: readonly object[] = WANTED) {
  const { nodes, opened } = await Nodes.make(of());
  await opened.writer.close();
  const { registry } = nodes.fleet;
  const { archive } = opened.held.lease;
  const id = randomUUID();
  done(await askForget(registry, { id, archive, node: 'elsewhere', wanted }));
  const state = async () => (await forgetsOf(registry, archive, { id }))[0];
  const waiting = async () => (await waitingForgets(registry, archive)).length;
  return { nodes, archive, id, state, waiting };
}

const WANTED = wantedOf(SECRETS.map((raw) => hash('sha256', raw)));

describe.skipIf(skipped)('what somebody asked to be forgotten', () => {
  test('is carried out by who opens the archive next, and counts as ended when the words are nowhere', async () => {
    const { nodes, archive, state } = await asked();
    expect(await state()).toMatchObject({ isSettled: false, messages: SECRETS.length });
    const next = await nodes.take('next');
    expect(next.unforgotten).toBe(0);
    expect(await state()).toMatchObject({ isSettled: true, purge: 1 });
    await nodes.finish(next.purges);
    expect(await state()).toMatchObject({ isSettled: true, purge: null });
    expect(await nodes.leaks()).toEqual([]);

    // Asked once more, nothing is left of it: no other purge is decided.
    const { registry } = nodes.fleet;
    const again = { id: randomUUID(), archive, node: 'elsewhere', wanted: WANTED };
    done(await askForget(registry, again));
    await next.writer.close();
    const later = await nodes.take('next');
    expect(later.held.head.purges).toBe(1);
    const [newest] = await forgetsOf(registry, archive, { most: 1 });
    expect(newest).toMatchObject({ id: again.id, isSettled: true, purge: null });
    await nodes.expectWhole(later);
  }, 120_000);

  test('is finished by another node, wherever the process that begins it is killed', async () => {
    const counted = await asked();
    const unharmed = new Mortal();
    const held = await counted.nodes.claim('holder', unharmed);
    unharmed.doom();
    await counted.nodes.open('holder', held, unharmed);
    const deaths = chosenDeaths(unharmed.acts, KILLS, SEED);
    console.log(`seed ${SEED}: ${deaths.length} kills in ${unharmed.acts} acts`);
    expect(unharmed.acts).toBeGreaterThan(15);
    for (const death of deaths) {
      const { nodes, state, waiting } = await asked();
      const process = new Mortal();
      const holder = await nodes.claim('holder', process);
      process.doom(death);
      const what = `killed ${death.when} act ${death.act}`;
      // Cut off from the store alone, it opens the archive, and leaves the request to others.
      const opened = await nodes.open('holder', holder, process).catch(() => undefined);
      expect([what, process.isDead]).toEqual([what, true]);
      await opened?.writer.close();
      const next = await nodes.take('next');
      expect([what, await waiting(), next.held.head.purges]).toEqual([what, 0, 1]);
      await next.writer.close();
      await nodes.finish(next.purges);
      expect([what, await nodes.leaks()]).toEqual([what, []]);
      expect([what, (await state())?.purge]).toEqual([what, null]);
      await nodes.expectWhole(await nodes.take('next'));
    }
  }, 1_800_000);

  test('waits while it cannot be found out what there is of it, and mail does not', async () => {
    const { nodes, archive, waiting } = await asked([{ message: hash('sha256', 'never seen') }]);
    const next = await nodes.take('next');
    const { registry } = nodes.fleet;
    done(await askForget(registry, { id: randomUUID(), archive, node: 'b', wanted: WANTED }));
    const away: SegmentStore = {
      present: () => false,
      fetch: () => Promise.reject(archiveError('log-fenced', { commit: null, reason: 'refused' })),
      publish: () => Promise.reject(new Error('nothing is sealed')),
    };
    const said: string[] = [];
    const forgets = new FleetForgets(next.held);
    const left = await forgets.decide(
      { ...next.writer, segments: away },
      { signal, onUnforgotten: ({ code }) => said.push(code) },
    );
    expect([left, said, await waiting(), next.held.head.purges]).toEqual([1, ['log-fenced'], 1, 0]);
    await nodes.fleet.write(next.writer, 1);
  }, 120_000);

  test.each([[[{ message: 'no hash' }]], [[{ message: hash('sha256', 'a'), place: { uid: 1 } }]]])(
    'waits if it is not what is written there, and nothing else waits for it',
    async (wanted) => {
      const { nodes, waiting } = await asked(wanted);
      const next = await nodes.take('next');
      expect(next.unforgotten).toBe(1);
      expect(nodes.said).toContain('forget-damaged');
      expect([await waiting(), next.held.head.purges]).toEqual([1, 0]);
      await nodes.fleet.write(next.writer, 1);
    },
    120_000,
  );

  test('of messages that the archive does not have, nothing is decided', async () => {
    const { nodes, state } = await asked([{ message: hash('sha256', 'never seen') }]);
    const next = await nodes.take('next');
    expect(next.held.head.purges).toBe(0);
    expect(await state()).toMatchObject({ isSettled: true, purge: null });
  }, 120_000);
});
