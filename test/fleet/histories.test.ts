import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { scanLog } from '../../src/archive/log-reader.ts';
import { sealSegment } from '../../src/archive/seal.ts';
import { listSegments } from '../../src/archive/segment-files.ts';
import { MailkeepError } from '../../src/core/errors.ts';
import type { HeldArchive } from '../../src/fleet/held-archive.ts';
import type { FleetStore } from '../../src/fleet/segments.ts';
import { DIR } from '../archive/sample-log.ts';
import type { SimulatedDisk } from '../archive/simulated-disk.ts';
import { type Seeded, seeded } from '../bench/seeded.ts';
import { randomHttpFault } from '../objects/servers/http-faults.ts';
import type { Cut } from '../registry/servers/cutting-proxy.ts';
import { expectWholeLog } from '../registry/servers/fleet.ts';
import { Scene, type Servers, startServers, withoutServers } from './servers/scene.ts';

const skipped = withoutServers();
/** More by hand. */
const SEEDS = Number(process.env.MAILKEEP_FLEET_SEEDS ?? '8');
const FIRST = Number(process.env.MAILKEEP_SEED ?? '1');
const SEGMENTS = 4;
const ROUNDS = 20;
const CUT = ['INSERT INTO object', 'commit\0', "SET state = 'condemned'"];
const HOW: readonly Cut[] = ['after', 'before'];
/** What an act may fail with while requests get lost and archives are taken over. */
const EXPECTED =
  /^(?:seal-refused|log-fenced|segment-elsewhere|object-missing|object-damaged|outcome-unknown|store-|registry-)/;

let servers: Servers;

beforeAll(async () => {
  if (!skipped) servers = await startServers();
});
afterAll(async () => {
  await servers?.stop();
});

interface Worker {
  readonly disk: SimulatedDisk;
  readonly store: FleetStore;
  /** One segment is sealed at a time. */
  sealing: Promise<void>;
}

/** Several holders of one archive, each of which may be a former one that does not know. */
class History {
  readonly #workers: Worker[] = [];
  readonly failures = new Map<string, number>();

  constructor(
    private readonly scene: Scene,
    private readonly random: Seeded,
  ) {}

  async join(held: HeldArchive): Promise<Worker> {
    const disk = this.scene.sample.disk.afterKill();
    const store = await this.scene.store({ held, disk });
    const worker: Worker = { disk, store, sealing: Promise.resolve() };
    this.#workers.push(worker);
    return worker;
  }

  /** Does something at random, and returns when it has ended. */
  async act(): Promise<void> {
    const { random, scene } = this;
    const worker = this.#workers[random.below(this.#workers.length)];
    const segment = 1 + random.below(SEGMENTS - 1);
    const draw = random.below(10);
    if (draw < 2) {
      const text = CUT[random.below(CUT.length)] ?? '';
      scene.sql.cutNext(text, HOW[random.below(HOW.length)] ?? 'after');
    } else if (draw < 3) {
      await scene.collector.sweep();
    } else if (draw < 5 && worker !== undefined) {
      await this.#mayFail(() => worker.store.fetch([segment]));
    } else if (worker !== undefined) {
      await this.#mayFail(() => publish(worker, segment, draw > 7));
    }
  }

  async #mayFail(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof MailkeepError) || !EXPECTED.test(error.code)) throw error;
      this.failures.set(error.code, (this.failures.get(error.code) ?? 0) + 1);
    }
  }
}

/** Seals a segment unless that was done, or once more, and publishes it. */
async function publish(worker: Worker, segment: number, again = false): Promise<void> {
  const { disk, store } = worker;
  if (!store.present(segment)) await store.fetch([segment]);
  const newest = () => listSegments(disk.files, DIR).get(segment)?.[0] ?? 1;
  worker.sealing = worker.sealing.then(async () => {
    if (newest() > 1 && !again) return;
    await sealSegment({ dir: DIR, segment, files: disk.files });
  });
  await worker.sealing;
  await store.publish({ segment, generation: newest() });
}

describe.skipIf(skipped)('with faults at both servers', () => {
  test.each(Array.from({ length: SEEDS }, (_, i) => FIRST + i))(
    'every segment ends in one object, and garbage in none: seed %i',
    async (seed) => {
      const scene = await Scene.make(servers, SEGMENTS);
      onTestFinished(() => scene.stop());
      const random = seeded('fleet objects', seed);
      const history = new History(scene, random);
      await history.join(scene.held);
      const faults = seeded('faults of fleet objects', seed);
      let inARow = 0;
      scene.http.faultFor = () => {
        const fault = inARow < 4 ? randomHttpFault(faults) : undefined;
        inARow = fault === undefined ? 0 : inARow + 1;
        return fault;
      };
      let holder = scene.held;
      for (let round = 0; round < ROUNDS; round += 1) {
        await Promise.all([history.act(), history.act(), history.act()]);
        if (random.below(4) > 0) continue;
        holder = await scene.takenOver(`node-${round}`, holder);
        await history.join(holder);
      }
      scene.http.faultFor = () => undefined;
      holder = await scene.takenOver('last', holder);
      const last = await history.join(holder);
      for (let segment = 1; segment < SEGMENTS; segment += 1) await publish(last, segment);
      await expectWholeLog(scene.direct.registry, scene.archive);
      expect((await scene.stored()).covers.map(({ segment }) => segment)).toEqual([1, 2, 3]);
      // A request to begin an upload that is late has nobody who knows of it.
      await scene.expectCollected('any');
      const hashes: string[] = [];
      const { disk, store: segments } = last;
      for await (const event of scanLog({ dir: DIR, files: disk.files, segments })) {
        if (event.what === 'batch' && event.sound) hashes.push(event.batch.commit.hash);
      }
      const written = scene.sample.segments.flat().map(({ hash }) => hash.toString('hex'));
      expect(hashes).toEqual(written);
      const states = (await scene.states()).length;
      console.info(
        `seed ${seed}: ${states} uploads, ${JSON.stringify(Object.fromEntries(history.failures))}`,
      );
    },
  );
});
