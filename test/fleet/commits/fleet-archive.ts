import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'vitest';
import { realFiles } from '../../../src/archive/file-system.ts';
import { genesisHash, SEGMENT_HEADER_BYTES, segmentPath } from '../../../src/archive/format.ts';
import type { Durability } from '../../../src/archive/hot-segment.ts';
import { openLogReader, scanLog } from '../../../src/archive/log-reader.ts';
import type { LogWriter } from '../../../src/archive/log-writer.ts';
import { openReplicaLog, writeMissingBytes } from '../../../src/archive/log-writer.ts';
import { hasCode } from '../../../src/core/errors.ts';
import type { ChunkContent, UploadChunk } from '../../../src/fleet/chunks.ts';
import { FleetDurability } from '../../../src/fleet/durability.ts';
import { HeldArchive } from '../../../src/fleet/held-archive.ts';
import type { Patience } from '../../../src/fleet/settling.ts';
import { addArchive, addTenant } from '../../../src/registry/fleet.ts';
import { claim } from '../../../src/registry/leases.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import { register } from '../../../src/registry/uploads.ts';
import { Positions } from '../../archive/positions.ts';
import { fill, sampleMail } from '../../archive/sample-log.ts';
import { type StoredLog, storedLog, supply } from './stored-log.ts';

/** What became of a commit, as its writer was told. */
export type Told = 'acknowledged' | 'failed' | 'fenced';

/** An archive of a fleet, and what its writers were told, kept apart from everything that is tested. */
export class FleetArchive {
  readonly objects = new Map<string, Buffer>();
  /** The hashes of commits by their numbers, and their bytes. */
  readonly acknowledged = new Map<number, string>();
  readonly failed = new Set<string>();
  readonly offered = new Map<string, Buffer>();
  #messages = 0;
  #uploads = 0;

  private constructor(
    /** The way to the registry that nothing goes wrong on. */
    public registry: Registry,
    readonly archive: number,
  ) {}

  static async add(registry: Registry, name: string): Promise<FleetArchive> {
    const tenant = await addTenant(registry, { name: 'tenant', weight: 1 });
    const logId = randomBytes(8);
    const genesis = Buffer.from(genesisHash(logId), 'hex');
    const archive = await addArchive(registry, { tenant, name, logId, genesis, settings: {} });
    if (archive === undefined) throw new Error('there is an archive of that name');
    return new FleetArchive(registry, archive);
  }

  stored(): Promise<StoredLog> {
    return storedLog(this.registry, this.archive, this.objects);
  }

  /** Numbers of messages that no commit has yet. */
  nextMessages(count: number): number[] {
    this.#messages += count;
    return Array.from({ length: count }, (_, at) => this.#messages - count + at);
  }

  /** Puts chunks into memory, registered like any upload. */
  uploadUnder(held: HeldArchive): UploadChunk {
    return async ({ kind, purges, bytes }: ChunkContent) => {
      this.#uploads += 1;
      const key = `c/${this.archive}/${this.#uploads}`;
      const upload = { key, kind, uploadId: key, purges };
      const outcome = await register(held.registry, held.lease, upload);
      if (outcome.outcome === 'fenced') return outcome;
      this.objects.set(key, bytes);
      const sha256 = createHash('sha256').update(bytes).digest();
      return { outcome: 'committed', uploaded: { key, bytes: bytes.length, sha256 } };
    };
  }

  /** What was acknowledged is stored in its place, with its bytes; what was said to have failed is not. */
  async expectTruth(): Promise<StoredLog> {
    const acknowledged = new Map(this.acknowledged);
    const log = await this.stored();
    const all = new Map(log.commits.map(({ number, hash }) => [number, hash]));
    for (const [number, hash] of acknowledged)
      expect([number, all.get(number)]).toEqual([number, hash]);
    for (const hash of all.values()) expect(this.failed.has(hash)).toBe(false);
    const offered = log.commits.map(({ hash }) => this.offered.get(hash) ?? Buffer.alloc(0));
    expect(Buffer.concat([...log.segments.values()]).equals(Buffer.concat(offered))).toBe(true);
    return log;
  }
}

/** A node that holds an archive, with its copy in a folder, and the writer of its claim. */
export class Node {
  readonly dir = mkdtempSync(path.join(tmpdir(), 'copy-'));
  /** The copy as a catalog knows it. */
  known = new Positions();
  #held: HeldArchive | undefined;
  #writer: LogWriter | undefined;
  #lastOffered = '';

  constructor(
    /** The way to the registry on which requests get lost. */
    readonly registry: Registry,
    private readonly archive: FleetArchive,
    private readonly patience: Patience,
  ) {}

  get held(): HeldArchive {
    if (this.#held === undefined) throw new Error('this node holds nothing');
    return this.#held;
  }

  get writer(): LogWriter {
    if (this.#writer === undefined) throw new Error('this node has not opened its copy');
    return this.#writer;
  }

  /** Claims the archive for a session and opens the copy; false if it cannot be claimed. */
  async take(session: string): Promise<boolean> {
    const { archive, registry } = this.archive;
    const outcome = await claim(registry, { session, most: 1, catalogVersion: 1, archive });
    const claimed = outcome.outcome === 'committed' ? outcome.claimed[0] : undefined;
    if (claimed === undefined) return false;
    this.#held = new HeldArchive(this.registry, session, claimed);
    await this.open();
    return true;
  }

  /** Opens the copy at the end of the log, and supplies what it lacks. */
  async open(segmentBytes = 6_000): Promise<void> {
    await this.close();
    const log = await this.archive.stored();
    const durability = this.#recorded(new FleetDurability(this.held, this.patience));
    const options = { dir: this.dir, now: () => 1_770_000_000_000, end: log.end, durability };
    for (;;) {
      const opened = await openReplicaLog({ ...options, segmentBytes });
      if (opened.is === 'open') {
        this.#writer = opened.log;
        break;
      }
      for (const missing of opened.missing)
        await writeMissingBytes(options, missing, supply(log, missing));
    }
    await this.#expectCopy(log);
  }

  async close(): Promise<void> {
    await this.#writer?.close();
    this.#writer = undefined;
  }

  async remove(): Promise<void> {
    await this.close();
    rmSync(this.dir, { recursive: true });
  }

  /** Commits some messages, and notes what the writer was told. */
  async commit(count = 2): Promise<Told> {
    const numbers = this.archive.nextMessages(count);
    const raws = numbers.map((n) => sampleMail(n));
    return this.#told(fill(this.writer.newBatch(), raws, this.known, (numbers[0] ?? 0) + 1));
  }

  async #told(batch: ReturnType<LogWriter['newBatch']>): Promise<Told> {
    const { acknowledged, failed } = this.archive;
    this.#lastOffered = '';
    try {
      const committed = await this.writer.commit(batch);
      this.known.fold(committed);
      const { number, hash } = committed.commit;
      expect(acknowledged.get(number)).toBeUndefined();
      acknowledged.set(number, hash);
      return 'acknowledged';
    } catch (error) {
      if (hasCode(error, 'log-fenced')) return 'fenced';
      if (!hasCode(error, 'log-write-failed')) throw error;
      if (this.#lastOffered !== '') failed.add(this.#lastOffered);
      return 'failed';
    }
  }

  #recorded(durability: Durability): Durability {
    return {
      append: (bytes, committed, place) => {
        this.#lastOffered = committed.hash;
        this.archive.offered.set(committed.hash, Buffer.from(bytes));
        return durability.append(bytes, committed, place);
      },
      roll: (next) => durability.roll(next),
    };
  }

  /** The copy is the log, byte for byte, and all of its messages can be read. */
  async #expectCopy({ segments, commits }: StoredLog): Promise<void> {
    const { dir } = this;
    for (const [segment, bytes] of segments) {
      const local = readFileSync(segmentPath(dir, { segment, generation: 1 }));
      expect(local.subarray(SEGMENT_HEADER_BYTES).equals(bytes)).toBe(true);
    }
    const known = new Positions();
    for await (const event of scanLog({ dir, files: realFiles, after: undefined })) {
      if (event.what === 'damage') throw new Error(`damage: ${JSON.stringify(event.damage)}`);
      if (event.what === 'batch') known.fold(event.batch);
    }
    expect(known.batches.map(({ commit }) => commit.hash)).toEqual(commits.map(({ hash }) => hash));
    const reader = openLogReader({ dir, files: realFiles, locator: known });
    for (const id of known.messages.keys()) reader.readMessage(id);
    reader.close();
    this.known = known;
  }
}

/** A clock that advances when somebody waits, by as much. */
export function patienceOf(forMs: number, onWait: () => Promise<void> = async () => {}): Patience {
  let now = 0;
  return {
    forMs,
    now: () => now,
    wait: async (ms) => {
      now += ms;
      await onWait();
    },
  };
}
