import { type RawBuilder, sql } from 'kysely';
import type { Registry, Tx } from './postgres.ts';
import { TIMELINE } from './schema.ts';

/**
 * The right to write a shard. Epoch, session and timeline are the fence: every transaction of a holder compares them in
 * the row that it writes or locks, never in a statement of their own.
 */
export interface Lease {
  readonly shard: number;
  readonly epoch: number;
  readonly session: string;
}

/** The first condition of a transaction that did not hold. For logs and decisions. */
export type RefusedBy =
  /** Another session holds the shard, or the same one in a later epoch, or nobody. */
  | 'lease'
  /** PostgreSQL failed over or was restored, and the shard has not been recovered since. */
  | 'timeline'
  /** The session is dead, draining or unknown. */
  | 'session'
  /** The node has another disk. */
  | 'disk'
  /** Another manifest was shipped since, or a cleaner one. */
  | 'manifest'
  /** An object is unknown, or not in the required state. */
  | 'object'
  /** A purge is unknown, or content is older than a purge. */
  | 'purges'
  /** The node has claimed the shard again since. */
  | 'folder'
  /** The secret was replaced since. */
  | 'secret'
  /** The tenant has an account of that name. */
  | 'name'
  /** It does not exist, or is in another state. */
  | 'state';

/** Nothing was written. */
export interface Refused {
  readonly outcome: 'refused';
  readonly by: RefusedBy;
}

export type Outcome<Done extends object = object> =
  | ({ readonly outcome: 'committed' } & Readonly<Done>)
  | Refused;

/** Rolls a transaction back, with the reason as its outcome. */
export class Refusal extends Error {
  constructor(readonly by: RefusedBy) {
    super(`refused by ${by}`);
  }
}

/** Runs a transaction that may be refused. @throws errors from `Registry.transaction` */
export async function refusable<Done extends object>(
  registry: Registry,
  transaction: string,
  body: (tx: Tx) => Promise<Done>,
): Promise<Outcome<Done>> {
  try {
    return { outcome: 'committed', ...(await registry.transaction(transaction, body)) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { outcome: 'refused', by: error.by };
  }
}

/** Runs a statement. Returns its first row. @throws Refusal if there is none */
export async function one<Row>(tx: Tx, query: RawBuilder<Row>, by: RefusedBy): Promise<Row> {
  const [row] = (await query.execute(tx)).rows;
  if (row === undefined) throw new Refusal(by);
  return row;
}

/** The holder has lost a shard, or must not write it: it stops, and keeps its folder. */
export class ShardLost extends Error {
  constructor(readonly by: RefusedBy) {
    super(`the shard was lost: ${by}`);
  }
}

/** Returns what a transaction of the holder has committed. @throws ShardLost */
export function committed<Done extends object>(outcome: Outcome<Done>): Readonly<Done> {
  if (outcome.outcome === 'refused') throw new ShardLost(outcome.by);
  return outcome;
}

/** Returns the outcome of a single statement. @param by the reason if it changed no row */
export function outcomeOf<Row>([row]: readonly Row[], by: RefusedBy): Outcome {
  return row === undefined ? { outcome: 'refused', by } : { outcome: 'committed' };
}

/** Channel of notifications about new versions. */
export const CHANNEL = 'mailkeep_fleet';

/**
 * Runs a transaction that changes what workers poll. All of these run one after another, because each locks the row of
 * the fleet first: versions become visible in order, and there is one order of locks.
 *
 * @param body stores `version` in every row that it changes
 * @param before locks rows that may be locked for long, so that nobody else waits for them
 */
export async function structural<Done extends object>(
  registry: Registry,
  transaction: string,
  body: (tx: Tx, version: number) => Promise<Done>,
  before: (tx: Tx) => Promise<void> = async () => {},
): Promise<Outcome<Done>> {
  return refusable(registry, transaction, async (tx) => {
    await before(tx);
    // A process that is stopped here would hold up the whole fleet.
    const next = sql<{ version: number }>`UPDATE fleet SET version = version + 1
      RETURNING version, set_config('idle_in_transaction_session_timeout', '5s', true)`;
    const { version } = await one(tx, next, 'state');
    const result = await body(tx, version);
    await sql`SELECT pg_notify(${CHANNEL}, ${String(version)})`.execute(tx);
    return result;
  });
}

/** Condition that a lease holds the row of its shard. */
export function fence({ shard, epoch, session }: Lease): RawBuilder<boolean> {
  return sql<boolean>`id = ${shard} AND epoch = ${epoch} AND holder = ${session}
    AND timeline = ${TIMELINE}`;
}

/**
 * Locks the row of a shard that a lease holds, until the transaction ends.
 *
 * @param strength `SHARE` lets other transactions of the holder run at the same time
 */
export async function lockHeld(
  tx: Tx,
  lease: Lease,
  strength: 'UPDATE' | 'SHARE' = 'UPDATE',
): Promise<{ readonly purges: number; readonly clean: number }> {
  const held = sql<{ purges: number; clean: number }>`
    SELECT purges, clean FROM shard WHERE ${fence(lease)} FOR ${sql.raw(strength)}`;
  return oneHeld(tx, lease, held);
}

/**
 * Runs a statement with a fence. Returns its first row.
 *
 * @param otherwise the reason if there is none, although the lease holds
 * @throws Refusal
 */
export async function oneHeld<Row>(
  tx: Tx,
  { shard, epoch, session }: Lease,
  query: RawBuilder<Row>,
  otherwise: RefusedBy = 'lease',
): Promise<Row> {
  const [found] = (await query.execute(tx)).rows;
  if (found !== undefined) return found;
  const { rows } = await sql<{ isHeld: boolean; isCurrent: boolean }>`
    SELECT epoch = ${epoch} AND holder IS NOT DISTINCT FROM ${session} AS "isHeld",
      timeline = ${TIMELINE} AS "isCurrent"
    FROM shard WHERE id = ${shard}`.execute(tx);
  const [row] = rows;
  if (row?.isCurrent === false) throw new Refusal('timeline');
  throw new Refusal(row?.isHeld === true ? otherwise : 'lease');
}

export function interval(ms: number): RawBuilder<unknown> {
  return sql`make_interval(secs => ${ms / 1000}::double precision)`;
}

interface FleetEvent {
  /** A node, a user, or `operator`. */
  readonly who: string;
  readonly what: string;
  readonly shard?: number;
  readonly account?: number;
  /** Contains no mail and no secrets. */
  readonly facts?: object;
}

export async function addEvent(tx: Tx, event: FleetEvent): Promise<void> {
  const { who, what, shard = null, account = null, facts = {} } = event;
  await sql`INSERT INTO event (who, what, shard, account, facts)
    VALUES (${who}, ${what}, ${shard}, ${account}, ${JSON.stringify(facts)}::jsonb)`.execute(tx);
}
