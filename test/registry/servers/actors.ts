import { expect } from 'vitest';
import { commit, roll, type TailBatch } from '../../../src/registry/commits.ts';
import { claim, release, resolve } from '../../../src/registry/leases.ts';
import type { Head, Lease } from '../../../src/registry/outcome.ts';
import { readArchive } from '../../../src/registry/reading.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import { endSession } from '../../../src/registry/sessions.ts';
import { coverChunk, register } from '../../../src/registry/uploads.ts';
import { type Seeded, seeded } from '../../bench/seeded.ts';
import { batchAfter, expectWholeLog, headAfter, newSession, sha256 } from './fleet.ts';

/** What workers were told, which has to be true for good. */
export class History {
  readonly acknowledged = new Map<number, TailBatch>();
  readonly refused = new Set<string>();
  readonly #sessions = new Map<number, string>();

  constructor(readonly archive: number) {}

  acknowledge(batch: TailBatch, { epoch, session }: Lease): void {
    expect(this.acknowledged.get(batch.number)).toBeUndefined();
    this.acknowledged.set(batch.number, batch);
    expect(this.#sessions.get(epoch) ?? session).toBe(session);
    this.#sessions.set(epoch, session);
  }

  refuse({ hash }: TailBatch): void {
    this.refused.add(hash.toString('hex'));
  }
}

/** Everything that was acknowledged is in the log in its place, and nothing that was refused. */
export async function expectTruth(registry: Registry, history: History): Promise<void> {
  await expectWholeLog(registry, history.archive);
  const stored = await readArchive(registry, history.archive);
  if (stored === undefined) throw new Error('the archive is gone');
  const hashes = new Map(
    [
      ...stored.tail.map(({ number, hash }) => [number, hash] as const),
      ...stored.covers.map(({ last, lastHash }) => [last, lastHash] as const),
    ].map(([number, hash]) => [number, hash.toString('hex')]),
  );
  for (const [number, { hash, previousHash }] of history.acknowledged) {
    expect(number).toBeLessThanOrEqual(stored.head.headNumber);
    if (hashes.has(number)) expect(hashes.get(number)).toBe(hash.toString('hex'));
    const before = history.acknowledged.get(number - 1);
    if (before !== undefined) expect(before.hash).toEqual(previousHash);
  }
  for (const hash of hashes.values()) expect(history.refused.has(hash)).toBe(false);
  expect(history.acknowledged.size).toBeGreaterThan(0);
}

/** Makes workers that race for one archive; the draws of each do not depend on the others. */
export function actors(
  registry: Registry,
  history: History,
  seed: number,
  count: number,
): readonly Actor[] {
  const all: Actor[] = [];
  for (let at = 0; at < count; at += 1) {
    const random = seeded('registry history', seed, at);
    all.push(new Actor(registry, history, random, { node: `n${at}-${seed}`, others: all }));
  }
  return all;
}

/** A worker that believes what it was told last, also when that is no longer so. */
export class Actor {
  session: string | undefined;
  #lease: Lease | undefined;
  #head: Head | undefined;
  #made = 0;

  constructor(
    private readonly registry: Registry,
    private readonly history: History,
    private readonly random: Seeded,
    private readonly place: { readonly node: string; readonly others: readonly Actor[] },
  ) {}

  async act(steps: number): Promise<void> {
    for (let step = 0; step < steps; step += 1) await this.#step();
  }

  async #step(): Promise<void> {
    const [lease, head] = [this.#lease, this.#head];
    const draw = this.random.below(100);
    if (lease === undefined || head === undefined) return this.#claim();
    if (draw < 50) return this.#commit(lease, head);
    if (draw < 65) return this.#commitInDoubt(lease, head);
    if (draw < 75) return this.#chunk(lease);
    if (draw < 82) return this.#roll(lease, head);
    if (draw < 86) return this.#resolve(lease);
    if (draw < 90) return this.#release(lease);
    return this.#bury();
  }

  async #claim(): Promise<void> {
    const { registry } = this;
    this.session ??= await newSession(registry, this.place.node);
    const { archive } = this.history;
    const options = { session: this.session, most: 1, catalogVersion: 1, archive };
    const outcome = await claim(registry, options);
    if (outcome.outcome === 'fenced') {
      this.session = undefined;
      return;
    }
    const [first] = outcome.claimed;
    if (first === undefined) {
      // Whoever holds it is taken for dead, however busy it is.
      await this.#bury();
      return;
    }
    this.#head = first.head;
    this.#lease = { archive, epoch: first.head.epoch, session: this.session };
  }

  #batch(head: Head): TailBatch {
    this.#made += 1;
    return batchAfter(head, `${this.place.node} ${this.#made}`);
  }

  async #commit(lease: Lease, head: Head): Promise<void> {
    const batch = this.#batch(head);
    const { outcome } = await commit(this.registry, lease, batch);
    if (outcome === 'fenced') {
      this.history.refuse(batch);
      this.#drop();
    } else {
      this.history.acknowledge(batch, lease);
      this.#head = headAfter(head, batch);
    }
  }

  /** The answer is waited for by nobody: what happened is resolved while the request is on its way. */
  async #commitInDoubt(lease: Lease, head: Head): Promise<void> {
    const batch = this.#batch(head);
    const answer = commit(this.registry, lease, batch);
    const resolved = await resolve(this.registry, lease);
    if (resolved.outcome === 'fenced') {
      this.#drop();
      await answer;
      return;
    }
    const isThere = resolved.head.headHash.equals(batch.hash);
    if (isThere) this.history.acknowledge(batch, lease);
    else this.history.refuse(batch);
    this.#head = resolved.head;
    this.#lease = { ...lease, epoch: resolved.head.epoch };
    expect((await answer).outcome).toBe(isThere ? 'committed' : 'fenced');
  }

  async #chunk(lease: Lease): Promise<void> {
    const { registry, random } = this;
    const tail = (await readArchive(registry, lease.archive))?.tail ?? [];
    const [first] = tail;
    const last = tail[random.below(tail.length)];
    if (first === undefined || last === undefined) return;
    this.#made += 1;
    const key = `c/${this.place.node}/${this.#made}`;
    const upload = { key, kind: 'chunk', uploadId: key, purges: 0 } as const;
    const { outcome } = await register(registry, lease, upload);
    if (outcome === 'fenced') return this.#drop();
    const range = { first: first.number, last: last.number, lastHash: last.hash };
    const place = { segment: first.segment, generation: 1, at: first.at };
    const uploaded = { key, bytes: 1, sha256: sha256(key) };
    const covered = await coverChunk(registry, lease, uploaded, { ...range, ...place });
    if (covered.outcome === 'fenced' && covered.by === 'lease') this.#drop();
  }

  async #roll(lease: Lease, { hotSegment: segment, headHash }: Head): Promise<void> {
    const outcome = await roll(this.registry, lease, { segment, headHash });
    if (outcome.outcome === 'committed') this.#head = outcome.head;
    else if (outcome.by === 'lease') this.#drop();
  }

  async #resolve(lease: Lease): Promise<void> {
    const outcome = await resolve(this.registry, lease);
    if (outcome.outcome === 'fenced') return this.#drop();
    this.#head = outcome.head;
    this.#lease = { ...lease, epoch: outcome.head.epoch };
  }

  async #release(lease: Lease): Promise<void> {
    await release(this.registry, lease);
    this.#drop();
  }

  async #bury(): Promise<void> {
    const others = this.place.others.filter((other) => other !== this);
    const other = others[this.random.below(others.length)];
    if (other?.session !== undefined) await endSession(this.registry, other.session);
  }

  #drop(): void {
    this.#lease = undefined;
    this.#head = undefined;
  }
}
