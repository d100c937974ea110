import { hash } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { inflateSync } from 'node:zlib';
import { sql } from 'kysely';
import { realFiles } from '../../../src/archive/file-system.ts';
import { logFolder, segmentPath } from '../../../src/archive/format.ts';
import { indexPending } from '../../../src/catalog/indexer.ts';
import type { Writer } from '../../../src/catalog/open-writer.ts';
import { COLLECTOR_LIMITS, collectRound } from '../../../src/fleet/collector.ts';
import type { HeldArchive } from '../../../src/fleet/held-archive.ts';
import { storeMemory } from '../../../src/fleet/memory.ts';
import { type OpenedArchive, openHeld } from '../../../src/fleet/open-held.ts';
import type { FleetPurges } from '../../../src/fleet/purges.ts';
import { wipeCopies } from '../../../src/fleet/wiping.ts';
import type { Extractor } from '../../../src/mail/extraction.ts';
import { findPurgedRecords } from '../../../src/verify/find-purged.ts';
import { journalPurge, purgedFact } from '../../../src/verify/prune.ts';
import { finishPurge } from '../../../src/verify/purge.ts';
import { signal } from '../../objects/store-contract.ts';
import { everything, inFilesAndLog } from '../../retention/everything.ts';
import { secret, WORDS } from '../../retention/secret-mail.ts';
import { Mortal } from './mortal.ts';
import { Fleet, type Folders } from './nodes.ts';
import type { Servers } from './scene.ts';

/** A collector that waits for nothing. */
export const AT_ONCE = {
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

/** The same words in messages that differ, so that each place of an archive has one. */
export const SECRETS = [1, 2, 3, 4].map((n) =>
  Buffer.from(secret.toString('latin1').replace('<wizzlefrom', `<${n}.wizzlefrom`), 'latin1'),
);

/** An archive that a node has taken. */
export type Taken = OpenedArchive & { readonly held: HeldArchive };

/** What the nodes of a test are made with. */
export interface NodesOf {
  readonly servers: Servers;
  readonly folders: Folders;
  readonly extractor: Extractor;
}

/** An archive on several nodes, each with a folder that stays when its process ends. */
export class Nodes {
  readonly #folders = new Map<string, string>();
  readonly said: string[] = [];

  private constructor(
    readonly fleet: Fleet,
    private readonly of: NodesOf,
  ) {}

  /** Secrets are in a sealed segment, a chunk of a closed one, a chunk of the hot one and the tail; in a snapshot, and in a copy of another node. */
  static async make(of: NodesOf): Promise<{ nodes: Nodes; opened: Taken; process: Mortal }> {
    const fleet = await Fleet.make(of.servers);
    const nodes = new Nodes(fleet, of);
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
    const folder = this.#folders.get(node) ?? this.of.folders.make();
    this.#folders.set(node, folder);
    return folder;
  }

  /** @param process asks for whatever this node does from its claim on */
  async take(node: string, process: Pick<Mortal, 'asked'> = new Mortal()): Promise<Taken> {
    return this.open(node, await this.claim(node, process), process);
  }

  async claim(node: string, process: Pick<Mortal, 'asked'>): Promise<HeldArchive> {
    return this.fleet.claimed(node, process.asked(this.fleet.registry, [...REGISTRY]));
  }

  async open(node: string, held: HeldArchive, process: Pick<Mortal, 'asked'>): Promise<Taken> {
    const { fleet } = this;
    const opened = await openHeld({
      ...{ held, names: fleet.names, dir: this.folderOf(node), codec: 'zstd', signal },
      objects: process.asked(fleet.objects, [...OBJECTS]),
      patience: { forMs: 0, now: () => 0, wait: () => Promise.resolve() },
      now: Date.now,
      report: ({ event }) => this.said.push(event),
      onUnforgotten: ({ code }) => this.said.push(code),
    });
    return { ...opened, held };
  }

  async #write(writer: Writer, number: number): Promise<void> {
    const raw = SECRETS[number];
    if (raw === undefined) throw new Error('there are no more');
    await this.fleet.write(writer, 1);
    await this.fleet.commit(writer, [raw], 900 + number);
    const { catalog, sources } = writer;
    const { extractor } = this.of;
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
    for (const [name, bytes] of await this.fleet.objectsThere()) {
      look(name, unpacked(name, bytes, this.of.folders));
    }
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
    const survey = await findPurgedRecords(realFiles, dataDir, wanted, signal, segments);
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
function unpacked(name: string, bytes: Buffer, folders: Folders): string {
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
