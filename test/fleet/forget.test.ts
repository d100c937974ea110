import { hash } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { inflateSync } from 'node:zlib';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/files/real-files.ts';
import { logFolder, segmentPath } from '../../src/archive/format/layout.ts';
import type { Writer } from '../../src/engine/archive/writer.ts';
import { finishPurge } from '../../src/engine/purge.ts';
import { registryError } from '../../src/errors/registry.ts';
import { COLLECTOR_LIMITS, collectRound } from '../../src/fleet/collector.ts';
import type { HeldArchive } from '../../src/fleet/held-archive.ts';
import { storeMemory } from '../../src/fleet/memory.ts';
import { type OpenedArchive, openHeld } from '../../src/fleet/open-held.ts';
import type { FleetPurges } from '../../src/fleet/purges.ts';
import { wipeCopies } from '../../src/fleet/wiping.ts';
import { indexPending } from '../../src/indexer/indexer.ts';
import type { Extractor } from '../../src/mime/extractor.ts';
import { openExtractorPool } from '../../src/mime/extractor-pool.ts';
import { journalPurge } from '../../src/retention/carry-out.ts';
import { purgedFact } from '../../src/retention/plan-prune.ts';
import { surveyPurge } from '../../src/retention/survey.ts';
import { permutation, seeded } from '../bench/seeded.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { signal } from '../objects/store-contract.ts';
import { everything, inFilesAndLog } from '../retention/everything.ts';
import { secret, WORDS } from '../retention/secret-mail.ts';
import { type Death, Mortal } from './servers/mortal.ts';
import { Fleet, Folders } from './servers/nodes.ts';
import { type Servers, startServers, withoutServers } from './servers/scene.ts';

const skipped = withoutServers();
const SEED = Number(process.env.MAILKEEP_SEED ?? Math.floor(Math.random() * 2 ** 31));
/** At how many acts of a forget a process is killed; `all` is every one, before it and after it. */
const KILLS = process.env.MAILKEEP_FORGET_KILLS ?? '6';
const AT_ONCE = {
  ...COLLECTOR_LIMITS,
  settleMs: 0,
  unreplicatedMs: 0,
  failoverMs: 0,
  abandonedMs: 0,
};
const REGISTRY = ['statement', 'read', 'transaction'] as const;
const OBJECTS = [
  'beginUpload',
  'sendParts',
  'completeUpload',
  'giveUpUpload',
  'get',
  'head',
] as const;

const folders = new Folders();
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

/** The same words in messages that differ, so that each place of an archive has one. */
const SECRETS = [1, 2, 3, 4].map((n) =>
  Buffer.from(secret.toString('latin1').replace('<wizzlefrom', `<${n}.wizzlefrom`), 'latin1'),
);

/** An archive that a node has taken. */
type Taken = OpenedArchive & { readonly held: HeldArchive };

/** An archive on several nodes, each with a folder that stays when its process ends. */
class Nodes {
  readonly #folders = new Map<string, string>();
  readonly said: string[] = [];

  private constructor(readonly fleet: Fleet) {}

  /** Secrets are in a sealed segment, a chunk of a closed one, a chunk of the hot one and the tail; in a snapshot, and in a copy of another node. */
  static async make(): Promise<{ nodes: Nodes; opened: Taken; process: Mortal }> {
    const fleet = await Fleet.make(servers);
    const nodes = new Nodes(fleet);
    const old = await nodes.take('old');
    await nodes.#write(old.writer, 0);
    await old.writer.log.rollIfLarger(1);
    await fleet.seal(old.writer);
    await nodes.#write(old.writer, 1);
    await fleet.chunk(old.held, 2);
    await old.writer.close();
    const process = new Mortal();
    const opened = await nodes.take('holder', process);
    const { writer, held } = opened;
    await fleet.write(writer, 1);
    await writer.log.rollIfLarger(1);
    await nodes.#write(writer, 2);
    await fleet.chunk(held, 3);
    await fleet.snapshot(held, writer);
    await nodes.#write(writer, 3);
    await storeMemory(held, writer);
    return { nodes, opened, process };
  }

  folderOf(node: string): string {
    const folder = this.#folders.get(node) ?? folders.make();
    this.#folders.set(node, folder);
    return folder;
  }

  /** @param process asks for whatever this node does from its claim on */
  async take(node: string, process: Pick<Mortal, 'asked'> = new Mortal()): Promise<Taken> {
    const { fleet } = this;
    const registry = process.asked(fleet.registry, [...REGISTRY]);
    const held = await fleet.claimed(node, registry);
    const opened = await openHeld({
      ...{ held, names: fleet.names, dir: this.folderOf(node), codec: 'zstd', signal },
      objects: process.asked(fleet.objects, [...OBJECTS]),
      patience: { forMs: 0, now: () => 0, wait: () => Promise.resolve() },
      now: Date.now,
      report: ({ event }) => this.said.push(event),
    });
    return { ...opened, held };
  }

  async #write(writer: Writer, number: number): Promise<void> {
    const raw = SECRETS[number];
    if (raw === undefined) throw new Error('there are no more');
    await this.fleet.write(writer, 1);
    await this.fleet.commit(writer, [raw], 900 + number);
    const { catalog, sources } = writer;
    await indexPending({ store: catalog.index, sources, extractor, signal });
  }

  /** Every place that has one of the words, and which. */
  async leaks(): Promise<string[]> {
    const found: string[] = [];
    const look = (where: string, text: string): void => {
      const lower = text.toLowerCase();
      const words = Object.values(WORDS).filter((word) => lower.includes(word));
      if (words.length > 0) found.push(`${where}: ${words.join(', ')}`);
    };
    for (const [table, values] of await this.#tables()) {
      for (const value of values) look(table, value);
    }
    for (const [name, bytes] of await this.fleet.objectsThere()) look(name, unpacked(name, bytes));
    for (const [node, folder] of this.#folders) look(`folder of ${node}`, inFolder(folder));
    return found;
  }

  /** Every value of every table, as it is and unpacked. */
  async #tables(): Promise<ReadonlyMap<string, readonly string[]>> {
    const { registry } = this.fleet;
    const names = await registry.read<{ name: string }>(
      'look for tables',
      sql`SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'`,
    );
    const tables = new Map<string, string[]>();
    for (const { name } of names) {
      const rows = await registry.read<Record<string, unknown>>(
        'look at a table',
        sql`SELECT * FROM ${sql.table(name)}`,
      );
      const values = rows.flatMap((row) => Object.values(row));
      const texts = values.map((value) =>
        Buffer.isBuffer(value)
          ? `${value.toString('latin1')}${inflatedText(value)}`
          : `${JSON.stringify(value)}`,
      );
      tables.set(name, texts);
    }
    return tables;
  }

  /** Forgets the secrets, up to the moment that nothing is left to do on this node. */
  async forget({ writer }: OpenedArchive): Promise<void> {
    const { dataDir, log, catalog, segments } = writer;
    const ids = SECRETS.map((raw) => hash('sha256', raw));
    const wanted = { messages: new Set(ids), quarantined: new Map() };
    const survey = await surveyPurge(realFiles, dataDir, wanted, signal, segments);
    const facts = ids.map((id) =>
      purgedFact(id, 'forgotten', catalog.ended.placesOf(catalog.messages.docidOf(id) ?? 0)),
    );
    catalog.foldBatch(await journalPurge(realFiles, dataDir, log, facts, survey, writer));
    await finishPurge({ signal, report: () => {} }, writer);
  }

  /** What was acknowledged is there without the secrets, and can be written on. */
  async expectWhole({ held, writer }: Taken): Promise<void> {
    const gone = new Set(SECRETS.map((raw) => hash('sha256', raw)));
    const { fleet } = this;
    fleet.commits.push(held.head.headHash.toString('hex'));
    fleet.messages.splice(
      0,
      fleet.messages.length,
      ...fleet.messages.filter((id) => !gone.has(id)),
    );
    await fleet.expectWhole(held, writer);
  }

  /** What other nodes and the collector do, over and over, until the purge has ended. */
  async finish(purges: FleetPurges): Promise<void> {
    const { registry, objects } = this.fleet;
    for (let rounds = 0; (await purges.finish()).length > 0; rounds += 1) {
      if (rounds === 6) throw new Error('the purge does not end');
      for (const [node, folder] of this.#folders) await wipeCopies(registry, node, () => folder);
      await collectRound(registry, objects, signal, AT_ONCE);
    }
  }
}

function inflatedText(bytes: Buffer): string {
  try {
    return inflateSync(bytes).toString('latin1');
  } catch {
    return '';
  }
}

/** The text of an object, and of what is packed in it. */
function unpacked(name: string, bytes: Buffer): string {
  const plain = bytes.toString('latin1');
  const [, segment, generation] = /\/s\/(\d+)\.(\d+)\//.exec(name) ?? [];
  const dir = folders.make();
  mkdirSync(logFolder(dir), { recursive: true });
  if (segment !== undefined) {
    const file = { segment: Number(segment), generation: Number(generation) };
    writeFileSync(segmentPath(dir, file), bytes);
    return `${plain}${inFilesAndLog(dir)}`;
  }
  if (!name.includes('/catalog/')) return `${plain}${inflatedText(bytes)}`;
  writeFileSync(path.join(dir, 'catalog.sqlite'), inflateSync(bytes));
  return `${plain}${everything(dir)}`;
}

/** The text of all files of a folder, and of what is packed in them. */
function inFolder(dir: string): string {
  if (!existsSync(logFolder(dir))) return '';
  return existsSync(path.join(dir, 'catalog.sqlite')) ? everything(dir) : inFilesAndLog(dir);
}

describe.skipIf(skipped)('a forget in a fleet', () => {
  test('ends when the words are in no row, object, snapshot or folder, and not before', async () => {
    const { nodes, opened } = await Nodes.make();
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
      const { nodes, opened } = await Nodes.make();
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
    const unharmed = await Nodes.make();
    unharmed.process.doom();
    await unharmed.nodes.forget(unharmed.opened);
    const { acts } = unharmed.process;
    const deaths = chosenDeaths(acts);
    console.log(`seed ${SEED}: ${deaths.length} kills in a forget of ${acts} acts`);
    expect(acts).toBeGreaterThan(15);
    for (const death of deaths) {
      const { nodes, opened, process } = await Nodes.make();
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

/** Every act, before it and after it, or some of them. */
function chosenDeaths(acts: number): readonly Death[] {
  const all = Array.from({ length: acts }, (_, at) => at + 1).flatMap((act): Death[] => [
    { act, when: 'before' },
    { act, when: 'after' },
  ]);
  if (KILLS === 'all') return all;
  const random = seeded('kills', SEED);
  return permutation(all.length, random)
    .slice(0, Number(KILLS))
    .flatMap((at) => all[at] ?? []);
}
