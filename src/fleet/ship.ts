import { hash, sign } from 'node:crypto';
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdtempSync,
  rmSync,
  statSync,
} from 'node:fs';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createDeflate, deflate } from 'node:zlib';
import { CATALOG_VERSION, catalogFile, openForReading, snapshotInto } from '../catalog/database.ts';
import { type CatalogHead, catalogHead } from '../catalog/fold.ts';
import { readCatalogHead } from '../catalog/implied.ts';
import { selectBy } from '../catalog/query.ts';
import {
  bytesAsStream,
  type ClearManifest,
  commitMark,
  decodeManifest,
  encodeManifest,
  FOLDERS,
  fleetManifestName,
  markOfName,
  objectName,
  type SecretManifest,
  snapshotMark,
  stateMark,
} from '../copies/format/manifest.ts';
import { seal } from '../copies/format/sealed-object.ts';
import {
  type CopyScan,
  type ObjectEntry,
  planCopy,
  SegmentMoved,
  scanArchive,
  storePiece,
} from '../copies/upload-copy.ts';
import { hasCode } from '../core/errors.ts';
import { openExistingState } from '../core/state.ts';
import type { SegmentProver } from '../verify/check-segment.ts';
import { shippedState } from './claims.ts';
import type { ShardKeys } from './keys.ts';
import { type ObjectKind, ship } from './objects.ts';
import { committed, type Outcome, ShardLost } from './outcomes.ts';
import { distrustShards } from './recover.ts';
import { type UploadTarget, uploadObject } from './uploads.ts';

/** Start of the names of folders with a copy of the catalog. */
export const SNAPSHOT = 'snapshot-';
const deflated = promisify(deflate);

/** A manifest, opened. */
export interface ShippedManifest {
  readonly clear: ClearManifest;
  readonly secret: SecretManifest;
}

interface ShipperOptions extends Omit<UploadTarget, 'signal'> {
  readonly dir: string;
  readonly keys: ShardKeys;
  readonly node: string;
  readonly prover: SegmentProver;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** The current manifest, as of the claim. */
  readonly shipped: ShippedManifest | undefined;
  /** Purges that have been carried out in the folder; fewer while a folder waits for its merge. */
  readonly done: () => number;
  /** Purges that have been decided. */
  readonly purges: () => number;
  /** Called once a manifest is known to be shipped. */
  readonly onShipped: (manifest: ShippedManifest) => Promise<void>;
}

/** `again`: something came between, and nothing was shipped. */
export type ShipResult = 'shipped' | 'nothing' | 'again';

/**
 * Ships a shard: uploads what is new in its folder, and makes a manifest of everything the current one. Its daemon
 * continues to write meanwhile.
 */
export class Shipper {
  readonly #options: ShipperOptions;
  #current: ShippedManifest | undefined;
  /** Complete uploads that no shipped manifest names, by mark. */
  readonly #unnamed = new Map<string, ObjectEntry>();
  /** Manifests that were sent and may be current, by name. */
  readonly #sent = new Map<string, ShippedManifest>();
  /** Objects of the current manifest that the bucket has lost. */
  readonly #missing = new Set<string>();
  /** Each attempt gets a higher number, so that a recovery finds the last one. */
  #sequence: number;

  constructor(options: ShipperOptions) {
    this.#options = options;
    this.#current = options.shipped;
    this.#sequence = options.shipped?.clear.sequence ?? -1;
  }

  get current(): ShippedManifest | undefined {
    return this.#current;
  }

  /** Returns whether the folder has commits or finished purges that are not shipped. */
  isBehind(): boolean {
    const { dir, done } = this.#options;
    const commit = this.#current?.clear.commit ?? 0;
    const isCleaner = done() > (this.#current?.secret.fleet?.clean ?? 0);
    return isCleaner || this.#missing.size > 0 || (readCatalogHead(dir)?.number ?? 0) > commit;
  }

  /**
   * Looks which objects of the current manifest the bucket has lost. The next ship uploads them again.
   *
   * @returns their number
   * @throws errors of the store
   */
  async findMissing(signal: AbortSignal): Promise<number> {
    const lengths = new Map<string, number>();
    for await (const { name, length } of this.#options.store.list(FOLDERS.data, signal)) {
      lengths.set(name, length);
    }
    this.#missing.clear();
    for (const { name, length } of this.#current?.clear.objects ?? []) {
      if (lengths.get(name) !== length) this.#missing.add(name);
    }
    return this.#missing.size;
  }

  /**
   * Ships once. Call it again after any error but `ShardLost`.
   *
   * @param withSnapshot also uploads a snapshot of the catalog
   * @throws ShardLost; errors of the archive, the store and the registry
   */
  async ship(signal: AbortSignal, withSnapshot = false): Promise<ShipResult> {
    const { dir, keys, done, purges, node, lease, now } = this.#options;
    // Read first: all content that is read from the folder after this is at least that clean.
    const clean = done();
    const head = readCatalogHead(dir);
    if (head === undefined || head.number === 0) return 'nothing';
    const scan = upTo(scanArchive(dir, head.number), head.number);
    if (scan === undefined) return 'again';
    const known = this.#known();
    const plan = planCopy(scan, known, keys.key.nameKey);
    const upload = { clean, signal, known };
    const entries = new Map<string, ObjectEntry>();
    try {
      for (const piece of [...plan.segments, ...plan.tail]) {
        entries.set(piece.mark, piece.there ?? (await this.#store(piece, upload)));
      }
    } catch (error) {
      if (error instanceof SegmentMoved) return 'again';
      throw error;
    }
    const snapshot = await this.#snapshot(upload, withSnapshot);
    const state = await this.#state(upload);
    const nameOf = (mark: string) => entries.get(mark)?.name ?? '';
    const objects = [...entries.values(), snapshot?.entry, state].filter(
      (entry) => entry !== undefined,
    );
    this.#sequence += 1;
    const secret: SecretManifest = {
      ...{ archiveId: scan.archiveId, format: scan.format, commit: scan.commit },
      segments: plan.segments.map(({ mark, what: { segment } }) => ({
        name: nameOf(mark),
        segment,
      })),
      tail: plan.tail.map(({ mark, what: { segment, from, to } }) => ({
        ...{ name: nameOf(mark), segment, from, to },
      })),
      fleet: {
        ...{ clean, purges: purges(), node },
        ...(snapshot === undefined ? {} : { snapshot: snapshot.facts }),
        ...(state === undefined ? {} : { state: { name: state.name } }),
      },
    };
    const name = fleetManifestName(scan.commit.number, lease.epoch, this.#sequence);
    const bytes = await encodeManifest(
      {
        ...{ sequence: this.#sequence, time: now(), epoch: lease.epoch, objects, secret },
        previous: this.#current?.clear.sha256 ?? null,
        chain: commitMark(keys.key.nameKey, scan.commit),
      },
      name,
      { sealing: keys.key.sealing, sign: (text) => sign(null, text, keys.signingKey) },
    );
    const manifest = { clear: decodeManifest(bytes, name, keys.key), secret };
    await this.#upload(
      { name, kind: 'manifest', length: bytes.length },
      bytesAsStream(bytes),
      upload,
    );
    return await this.#send(manifest, clean);
  }

  /** Objects that the next manifest may name again, by mark. */
  #known(): ReadonlyMap<string, ObjectEntry> {
    const entries =
      this.#current?.clear.objects.filter(({ name }) => !this.#missing.has(name)) ?? [];
    return new Map([
      ...entries.map((entry) => [markOfName(entry.name) ?? '', entry] as const),
      ...this.#unnamed,
    ]);
  }

  async #store(piece: Parameters<typeof storePiece>[1], upload: Upload): Promise<ObjectEntry> {
    const { dir, keys, prover } = this.#options;
    const entry = await storePiece({ dir, key: keys.key, prover }, piece, (sealed) =>
      this.#upload(sealed, sealed.bytes, upload),
    );
    this.#unnamed.set(piece.mark, entry);
    return entry;
  }

  async #upload(
    { name, kind, length }: { name: string; kind: ObjectKind; length: number },
    bytes: AsyncIterable<Uint8Array>,
    { clean, signal }: Upload,
  ): Promise<void> {
    const { registry, lease, store } = this.#options;
    await uploadObject(
      { registry, lease, store, signal },
      { name, kind, length, bytes, purges: clean },
    );
  }

  /** Uploads content that a mark identifies, unless it is there. */
  async #content(kind: 'snapshot' | 'state', mark: string, upload: Upload, file: string | Buffer) {
    const there = upload.known.get(mark);
    if (there !== undefined) return there;
    const about = { kind, name: objectName(mark) };
    const [length, plain] =
      typeof file === 'string'
        ? [statSync(file).size, createReadStream(file)]
        : [file.length, bytesAsStream(file)];
    const sealed = seal(this.#options.keys.key.sealing, about, length, plain);
    await this.#upload({ ...about, length: sealed.length }, sealed.bytes, upload);
    const entry = { name: about.name, length: sealed.length, sha256: sealed.sha256() };
    this.#unnamed.set(mark, entry);
    return entry;
  }

  /** What a new holder need not learn again: coverage, proofs, pending deletions, limits. */
  async #state(upload: Upload): Promise<ObjectEntry | undefined> {
    const state = openExistingState(this.#options.dir);
    if (state === undefined) return undefined;
    try {
      const bytes = state.travelling();
      // The digest is of the whole folder, so one from before a purge is not named again.
      const digest = hash('sha256', Buffer.concat([bytes, Buffer.from(String(upload.clean))]));
      const mark = stateMark(this.#options.keys.key.nameKey, digest);
      return await this.#content('state', mark, upload, await deflated(bytes));
    } finally {
      state.close();
    }
  }

  /** Returns a new snapshot, or the current one if no purge came after it. */
  async #snapshot(upload: Upload, isWanted: boolean) {
    const fleet = this.#current?.secret.fleet;
    const facts = fleet?.snapshot;
    const entry = this.#current?.clear.objects.find(({ name }) => name === facts?.name);
    const isClean = (fleet?.clean ?? 0) >= upload.clean && !this.#missing.has(entry?.name ?? '');
    if (!isWanted) return facts !== undefined && entry && isClean ? { facts, entry } : undefined;
    const { dir, keys } = this.#options;
    const folder = mkdtempSync(path.join(dir, SNAPSHOT));
    try {
      const [plain, packed] = [path.join(folder, 'catalog'), path.join(folder, 'catalog.z')];
      const head = copyCatalog(dir, plain);
      await pipeline(createReadStream(plain), createDeflate(), createWriteStream(packed), {
        signal: upload.signal,
      });
      const mark = snapshotMark(keys.key.nameKey, head, CATALOG_VERSION);
      const made = await this.#content('snapshot', mark, { ...upload, known: new Map() }, packed);
      const { number: commit, hash: commitHash } = head;
      return {
        facts: { name: made.name, commit, hash: commitHash, version: CATALOG_VERSION },
        entry: made,
      };
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  async #send(manifest: ShippedManifest, clean: number): Promise<ShipResult> {
    const { registry, lease } = this.#options;
    const { clear, secret } = manifest;
    this.#sent.set(clear.name, manifest);
    let outcome: Outcome;
    try {
      outcome = await ship(registry, lease, {
        ...{ name: clear.name, sha256: Buffer.from(clear.sha256, 'hex'), sequence: clear.sequence },
        ...{
          commitNumber: secret.commit.number,
          previous: this.#current?.clear.name ?? null,
          clean,
        },
        names: clear.objects.map(({ name }) => name),
        ...catalogSize(this.#options.dir),
      });
    } catch (error) {
      if (!hasCode(error, 'outcome-unknown')) throw error;
      return (await this.#settle()) ? 'shipped' : 'again';
    }
    if (outcome.outcome === 'committed') {
      await this.#adopt(manifest);
      return 'shipped';
    }
    if (outcome.by === 'lease' || outcome.by === 'timeline') throw new ShardLost(outcome.by);
    // An upload was condemned, or an earlier request arrived late.
    this.#unnamed.clear();
    await this.#settle();
    return 'again';
  }

  /**
   * Looks which manifest is current. An earlier request that is still on its way is harmless: of those that follow the
   * same manifest, one is accepted.
   *
   * @returns whether it is one that was sent
   */
  async #settle(): Promise<boolean> {
    const { registry, lease, node } = this.#options;
    const { manifest } = committed(await shippedState(registry, lease)).shipped;
    if (manifest === (this.#current?.clear.name ?? null)) return false;
    const sent = manifest === null ? undefined : this.#sent.get(manifest);
    if (sent === undefined) {
      // Nobody else ships in this epoch, so the registry is older than what was shipped.
      await distrustShards(registry, node);
      throw new ShardLost('timeline');
    }
    await this.#adopt(sent);
    return true;
  }

  async #adopt(manifest: ShippedManifest): Promise<void> {
    this.#current = manifest;
    this.#unnamed.clear();
    this.#missing.clear();
    this.#sent.clear();
    await this.#options.onShipped(manifest);
  }
}

interface Upload {
  readonly clean: number;
  readonly signal: AbortSignal;
  readonly known: ReadonlyMap<string, ObjectEntry>;
}

/**
 * Leaves out commits that the catalog has not reached: a batch is in the file before it is durable, and may be taken back
 * if the disk fails. Returns undefined if a closed segment has such commits.
 */
function upTo(scan: CopyScan, last: number): CopyScan | undefined {
  if (scan.commit.number <= last) return scan;
  const { open, closed } = scan;
  if (closed.some(({ end }) => end.number > last)) return undefined;
  const boundaries = (open?.boundaries ?? []).filter(({ number }) => number <= last);
  const end = boundaries.at(-1);
  // Without one, the time of the last closed segment's commit is not known here.
  if (open === undefined || end === undefined) return undefined;
  const { number, hash: commitHash, time } = end;
  return { ...scan, open: { ...open, boundaries }, commit: { number, hash: commitHash, time } };
}

const MESSAGES = selectBy('meta', 'messages', '');

/** Messages and bytes of a shard's catalog. */
export function catalogSize(dir: string) {
  // The first writer after a takeover without a snapshot makes it.
  if (!existsSync(catalogFile(dir))) return { messages: 0, catalogBytes: 0 };
  const connection = openForReading(catalogFile(dir));
  try {
    const messages = connection.get(MESSAGES, {})?.messages ?? 0;
    // The file itself lacks what is in the write-ahead log only.
    const [pages, bytes] = ['page_count', 'page_size'].map((name) =>
      connection.guard(() => Number(connection.db.pragma(name, { simple: true }))),
    );
    return { messages, catalogBytes: (pages ?? 0) * (bytes ?? 0) };
  } finally {
    connection.close();
  }
}

/** Copies a catalog as of one commit, while its writer continues. */
function copyCatalog(dir: string, to: string): CatalogHead {
  const connection = openForReading(catalogFile(dir));
  try {
    // The file was opened read-only, but writing another one counts as a write as well.
    connection.db.pragma('query_only = OFF');
    snapshotInto(connection, to);
  } finally {
    connection.close();
  }
  const copy = openForReading(to);
  try {
    return catalogHead(copy);
  } finally {
    copy.close();
  }
}
