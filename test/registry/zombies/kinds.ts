import { randomUUID } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import { markGone, sweep } from '../../../src/registry/collection.ts';
import { commit, decidePurge, roll, type TailBatch } from '../../../src/registry/commits.ts';
import { leaveCache, release, resolve } from '../../../src/registry/leases.ts';
import type { ObjectState } from '../../../src/registry/objects.ts';
import type { FencedBy, Lease, Outcome } from '../../../src/registry/outcome.ts';
import { objectsToCollect } from '../../../src/registry/reading.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import { beginSession, endSession } from '../../../src/registry/sessions.ts';
import { coverChunk, coverSegment, register } from '../../../src/registry/uploads.ts';
import { AT_ONCE, batchAfter, claimed, committedBatches, done, sha256 } from '../servers/fleet.ts';
import { leaseOf, type Scene, type Transaction } from './scene.ts';

/** A request that comes too late, or of somebody who believes wrongly to be the holder. */
export interface Zombie {
  readonly zombie: string;
  readonly by: FencedBy;
  /** Makes the transaction possible, where the scene alone does not. */
  readonly ready?: (scene: Scene) => Promise<unknown>;
  /** What happened meanwhile. */
  readonly before?: (scene: Scene) => Promise<unknown>;
  readonly send: (scene: Scene) => Promise<Outcome>;
}

type Before = (scene: Scene) => Promise<unknown>;

/** The same ones, after what makes the transaction possible. */
export function onceReady(ready: Before, zombies: readonly Zombie[]): readonly Zombie[] {
  return zombies.map((zombie) => ({ ...zombie, ready }));
}

/** The transaction as the scene sends it, after something happened. */
export function as(zombie: string, by: FencedBy, name: Transaction, before: Before): Zombie {
  return { zombie, by, before, send: (scene) => scene.send[name](leaseOf(scene, name)) };
}

/** Everything that believes wrongly to hold the archive. */
export function ofLease(name: Transaction): readonly Zombie[] {
  const by = 'lease';
  const other = (zombie: string, change: (scene: Scene) => Partial<Lease>): Zombie => ({
    ...{ zombie, by },
    send: (scene) => scene.send[name]({ ...scene.lease, ...change(scene) }),
  });
  return [
    as('another session claimed the archive of a dead one', by, name, async (scene) => {
      await sessionEnded(scene);
      await claimed(scene.registry, scene.other, scene.archive);
    }),
    as('the archive was released', by, name, ({ registry, lease }) =>
      release(registry, lease).then(done),
    ),
    as('it was released and claimed by the same session', by, name, async (scene) => {
      done(await release(scene.registry, scene.lease));
      await claimed(scene.registry, scene.lease.session, scene.archive);
    }),
    as('an outcome was resolved since', by, name, ({ registry, lease }) =>
      resolve(registry, lease).then(done),
    ),
    as('a failover handed the epoch out twice', by, name, ({ other: holder, ...scene }) =>
      statement(scene, sql`UPDATE archive SET holder = ${holder}`),
    ),
    other('another living session has the epoch right', ({ other: session }) => ({ session })),
    other('an unknown session has the epoch right', () => ({ session: randomUUID() })),
    other('an epoch that was never given out', ({ lease }) => ({ epoch: lease.epoch + 1 })),
    other('an archive that does not exist', ({ archive }) => ({ archive: archive + 1 })),
  ];
}

/** A session that is not to do anything any more. */
export function ofSession(name: Transaction): readonly Zombie[] {
  return [
    as('its session is dead', 'session', name, sessionEnded),
    {
      zombie: 'its session never began',
      by: 'session',
      send: ({ send, lease }) => send[name]({ ...lease, session: randomUUID() }),
    },
  ];
}

export function staleHead(name: 'commit' | 'decidePurge'): readonly Zombie[] {
  const otherBatch = (zombie: string, change: (scene: Scene) => Partial<TailBatch>): Zombie => ({
    ...{ zombie, by: 'head' },
    send: (scene) => {
      const { registry, lease, head } = scene;
      const batch = { ...batchAfter(head), ...change(scene) };
      return name === 'commit'
        ? commit(registry, lease, batch)
        : decidePurge(registry, lease, batch, { commits: [1], records: [] });
    },
  });
  return [
    as('another batch was committed since', 'head', name, committedOne),
    as('the same batch was committed before', 'head', name, sent(name)),
    as('the segment was closed since', 'head', name, rolledOnce),
    otherBatch('a number too low', ({ head }) => ({ number: head.headNumber })),
    otherBatch('a number too high', ({ head }) => ({ number: head.headNumber + 2 })),
    otherBatch('another head of the same number', () => ({ previousHash: sha256('fork') })),
    otherBatch('a closed segment', () => ({ segment: 1 })),
    otherBatch('a segment that has not begun', () => ({ segment: 3 })),
    otherBatch('another offset', ({ head }) => ({ at: head.hotOffset + 1 })),
    otherBatch('another ordinal', ({ head }) => ({ firstOrdinal: head.hotOrdinal - 1 })),
  ];
}

/** An object that is not, or no longer, what the holder has uploaded. */
export function staleObject(name: Transaction, key: string): readonly Zombie[] {
  const states = ['live', 'condemned', 'swept', 'gone'] as const;
  return [
    ...states.map((state) => as(`the object is ${state}`, 'object', name, set(key, state))),
    as('the object is of another archive', 'object', name, (scene) =>
      statement(scene, sql`UPDATE object SET archive = archive + 1 WHERE key = ${key}`),
    ),
    as('the object is of another kind', 'object', name, (scene) =>
      statement(
        scene,
        sql`UPDATE object SET kind = CASE kind WHEN 'chunk' THEN 'sealed' ELSE 'chunk' END
          WHERE key = ${key}`,
      ),
    ),
    as('the upload was never registered', 'object', name, (scene) =>
      statement(scene, sql`DELETE FROM object WHERE key = ${key}`),
    ),
  ];
}

/** A step of the collector at objects that are elsewhere in their life. */
export function states(
  keys: readonly string[],
  send: (registry: Registry, key: string, scene: Scene) => Promise<Outcome>,
): readonly Zombie[] {
  return keys.map((key) => ({
    zombie: key,
    by: 'object',
    send: (scene) => send(scene.registry, key, scene),
  }));
}

export function set(key: string, state: ObjectState): Before {
  return (scene) =>
    statement(
      scene,
      sql`UPDATE object SET state = ${state}, condemned_at = clock_timestamp() WHERE key = ${key}`,
    );
}

export function sent(name: Transaction): Before {
  return (scene) => scene.send[name](leaseOf(scene, name)).then(done);
}

export function statement({ registry }: Pick<Scene, 'registry'>, query: RawBuilder<unknown>) {
  return registry.statement('test', query);
}

export function committedOne({ registry, lease, head }: Scene) {
  return committedBatches(registry, lease, { ...head, headHash: head.headHash }, 1);
}

export function rolledOnce({ registry, lease, head }: Scene) {
  return roll(registry, lease, { segment: 2, headHash: head.headHash }).then(done);
}

export function decidedOne({ registry, lease, head }: Scene) {
  const purge = { commits: [1], records: [] };
  return decidePurge(registry, lease, batchAfter(head), purge).then(done);
}

export function sessionEnded({ registry, lease }: Scene) {
  return endSession(registry, lease.session).then(done);
}

export function beginAgain(registry: Registry, session: string) {
  const facts = { session, node: 'a', address: 'x', egress: 'y', program: 1, capacity: 1 };
  return beginSession(registry, facts, 60_000);
}

export function ready(key: string) {
  return { key, bytes: 10, sha256: sha256(key) };
}

export function chunkOf(
  { registry, lease }: Scene,
  key: string,
  first: number,
  last: number,
  lastHash = sha256(`batch ${last}`),
) {
  const place = { segment: 2, generation: 1, at: 64 };
  return coverChunk(registry, lease, ready(key), { first, last, lastHash, ...place });
}

/** A purge of the closed segment that everything has been done for. */
export async function onlyToEnd(scene: Scene): Promise<void> {
  const { registry, lease, archive, entry } = scene;
  await decidedOne(scene);
  const upload = { key: 's/purged', kind: 'sealed', uploadId: 'u', purges: 1 } as const;
  done(await register(registry, lease, upload));
  const range = { first: 1, last: 2, lastHash: sha256('batch 2') };
  const place = { segment: 1, generation: 3, at: 64 };
  done(await coverSegment(registry, lease, ready('s/purged'), { ...range, ...place }));
  done(await leaveCache(registry, { archive, node: 'b', entry }));
  for (const { key, state, sweptAt } of await objectsToCollect(registry, AT_ONCE, 100)) {
    const at = state === 'swept' ? (sweptAt ?? '') : done(await sweep(registry, key)).sweptAt;
    done(await markGone(registry, key, at, 0));
  }
}
