import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { CommittedBatch } from '../../src/archive/format.ts';
import { keyFile, readLocalKey } from '../../src/copies/local-key.ts';
import { findManifests } from '../../src/copies/manifests.ts';
import { createCopy, prepareCopy } from '../../src/copies/recipients.ts';
import { ensureBucket, s3Store } from '../../src/copies/s3-store.ts';
import { type Seeded, seeded } from '../bench/seeded.ts';
import { start } from '../cli/child.ts';
import type { HttpFault } from '../objects/servers/http-faults.ts';
import { HttpProxy } from '../objects/servers/http-proxy.ts';
import { startRadosgw, withoutRadosgw } from '../objects/servers/radosgw.ts';
import { type S3Server, targetAt } from '../objects/servers/s3-server.ts';
import { objectsAt } from './copy-life.ts';
import { message, ProgramArchive, s3Environment } from './copy-program.ts';
import { batchesIn, broughtBack, signal } from './sample-copy.ts';

/** More by hand. */
const SEEDS = Number(process.env.MAILKEEP_COPIES ?? 2);
const FIRST = Number(process.env.MAILKEEP_SEED ?? 1);
const KILLS_OF_A_SEED = 4;
/** Requests of a copy, about. */
const REQUESTS = 18;
const BUCKET = 'kills';
const skipped = withoutRadosgw();

/** A moment in the life of an archive: its folder then, and everything in its log. */
interface Stage {
  readonly dir: string;
  readonly batches: readonly CommittedBatch[];
}

let server: S3Server;
let top: string;
const stages: Stage[] = [];

beforeAll(async () => {
  if (skipped) return;
  server = await startRadosgw();
  await ensureBucket(targetAt(server, BUCKET), signal);
  top = mkdtempSync(path.join(tmpdir(), 'offsite-'));
  const archive = new ProgramArchive();
  const keep = async (): Promise<void> => {
    const dir = path.join(top, `stage-${stages.length}`);
    cpSync(archive.data, dir, { recursive: true });
    stages.push({ dir, batches: await batchesIn(dir) });
  };
  await archive.import([message(1, 'walrus'), message(2, 'giraffe')]);
  await keep();
  await archive.import([message(3, 'ocelot', seeded('ocelot').bytes(9_000_000))]);
  await archive.closeSegment();
  await keep();
  await archive.import([message(4, 'heron')]);
  await keep();
  const { stdout } = await archive.ended(['search', 'walrus']);
  const { id } = JSON.parse(stdout.split('\n')[0] ?? '') as { id: string };
  await archive.run('forget', id, '--yes');
  await keep();
  await archive.closeSegment();
  await archive.import([message(5, 'badger')]);
  await keep();
  rmSync(archive.folder, { recursive: true });
}, 120_000);

afterAll(async () => {
  await server?.stop();
  if (top !== undefined) rmSync(top, { recursive: true });
});

/** The stage in which a message is forgotten. */
const PURGE = 3;

/** Gives an archive the log and the catalog of a stage. What it knows of its copies stays. */
function become(data: string, { dir }: Stage): void {
  const isOfStage = (name: string) => name === 'log' || name.startsWith('catalog');
  for (const name of readdirSync(data).filter(isOfStage)) {
    rmSync(path.join(data, name), { recursive: true });
  }
  for (const name of readdirSync(dir).filter(isOfStage)) {
    cpSync(path.join(dir, name), path.join(data, name), { recursive: true });
  }
}

/** One of what a network and a server do to requests, without those that time-outs would have to end. */
function networkFault(random: Seeded): HttpFault | undefined {
  switch (random.below(30)) {
    case 0:
      return { do: 'answer', status: 500, code: 'InternalError' };
    case 1:
      return { do: 'answer', status: 503, code: 'SlowDown' };
    case 2:
      return { do: 'answer-late', status: 500, code: 'InternalError' };
    case 3:
      return { do: 'cut-before' };
    case 4:
      return { do: 'cut-within' };
    case 5:
      return { do: 'lose-answer' };
    case 6:
      return { do: 'cut-answer', part: random.next() };
    case 7:
      return { do: 'slow-answer', ms: random.below(200) };
    default:
      return undefined;
  }
}

/** Runs a copy through the faulty proxy; ends the process at one of its requests, if it has that many. */
async function copied(
  proxy: HttpProxy,
  data: string,
  to: string,
  random: Seeded,
  killAt: number,
): Promise<number | null> {
  const env = s3Environment(server, proxy.port);
  const { child, ended } = start(['copy', '--to', to, '--data', data, '--json'], { env });
  const kill = () => child.kill('SIGKILL');
  const isAfter = random.below(2) === 0;
  let [requests, faults] = [0, 0];
  let last = '';
  proxy.faultFor = (method, at) => {
    requests += 1;
    if (requests === killAt) {
      if (isAfter) last = `${method} ${at}`;
      else {
        kill();
        // Whether the request still arrives is left to the system.
        return random.below(2) === 0 ? { do: 'cut-before' } : undefined;
      }
    }
    const fault = faults < 3 ? networkFault(random) : undefined;
    faults = fault === undefined ? 0 : faults + 1;
    return fault;
  };
  proxy.onExchange = ({ method, path: at }) => {
    if (`${method} ${at}` === last) kill();
  };
  const { code, signal: by, stderr } = await ended;
  if (by === null && code !== 0) throw new Error(`copy: ${code} ${stderr}`);
  return code;
}

describe.skipIf(skipped)('the program is killed while it copies', () => {
  test.each(Array.from({ length: SEEDS }, (_, i) => FIRST + i))(
    'the newest manifest leads to a complete archive: seed %i',
    async (seed) => {
      const random = seeded('s3-kills', seed);
      const proxy = await HttpProxy.start(server.port);
      const work = path.join(top, `seed-${seed}`);
      const data = path.join(work, 'data');
      mkdirSync(work);
      const prefix = `seed-${seed}`;
      const to = `s3://${BUCKET}/${prefix}`;
      const store = s3Store(targetAt(server, BUCKET, { prefix }));
      onTestFinished(async () => {
        await store.close();
        await proxy.stop();
        rmSync(work, { recursive: true });
      });
      const [first] = stages;
      if (first === undefined) throw new Error('there is no archive');
      cpSync(first.dir, data, { recursive: true });
      const prepared = await prepareCopy(data);
      const copyId = await createCopy({
        ...{ dataDir: data, store, to, prepared, passphrase: undefined, age: [] },
        ...{ writeOnly: false, signal, now: Date.now },
      });
      const key = readLocalKey(keyFile(data, copyId));
      let [at, reached] = [0, 0];
      let heldForgotten = false;
      /** Brings back what is there, and compares it with the original as it was at that commit. */
      const check = async (name: string): Promise<number> => {
        const back = await broughtBack({ work, store, key }, name);
        if (back === undefined) return 0;
        expect(back.lost).toEqual([]);
        const batches = JSON.stringify(await batchesIn(back.dir));
        const same = stages
          .slice(0, at + 1)
          .some((stage) => JSON.stringify(stage.batches.slice(0, back.number)) === batches);
        expect(same).toBe(true);
        rmSync(back.dir, { recursive: true });
        return back.number;
      };
      for (let step = 0; step <= KILLS_OF_A_SEED; step += 1) {
        const isLast = step === KILLS_OF_A_SEED;
        at = isLast ? stages.length - 1 : Math.min(at + random.below(3), stages.length - 1);
        const stage = stages[at] ?? first;
        become(data, stage);
        const killAt = isLast ? 0 : 1 + random.below(REQUESTS);
        const code = await copied(proxy, data, to, random, killAt);
        const number = await check(`back-${step}`);
        expect(number).toBeGreaterThanOrEqual(reached);
        reached = number;
        if (code === 0) expect(number).toBe(stage.batches.length);
        if (at < PURGE && reached > 0) heldForgotten = true;
      }
      expect(reached).toBe(stages.at(-1)?.batches.length);
      if (!heldForgotten) return;
      const { newest, listed } = await findManifests(store, key, signal);
      expect(listed).toHaveLength(1);
      const named = newest?.clear.objects.map(({ name }) => name);
      expect(await objectsAt(server, BUCKET, prefix, 'data')).toEqual(named);
    },
    300_000,
  );
});
