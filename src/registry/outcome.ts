import { type RawBuilder, sql } from 'kysely';
import { MailkeepError } from '../core/errors.ts';
import type { ObjectState } from './objects.ts';
import type { Registry, Tx } from './registry.ts';

/**
 * The right to write an archive. Epoch and session together are the fence: every transaction of a holder has them in the
 * condition of the row that it writes or locks, never in a statement of their own.
 */
export interface Lease {
  readonly archive: number;
  readonly epoch: number;
  readonly session: string;
}

/** What the registry knows of an archive's log. */
export interface Head {
  readonly archive: number;
  readonly epoch: number;
  readonly holder: string | null;
  readonly headNumber: number;
  readonly headHash: Buffer;
  readonly headTime: number;
  readonly hotSegment: number;
  readonly hotOffset: number;
  readonly hotOrdinal: number;
  readonly hotPrevious: number;
  readonly hotPreviousHash: Buffer;
  readonly purges: number;
}

/**
 * What a transaction did not find as it had to be. It names the first condition that failed and is for logs and decisions
 * about what to do next; that nothing was written is certain without it.
 */
export type FencedBy =
  /** Another session holds the archive, or the same one in a later epoch, or nobody. */
  | 'lease'
  /** The session is dead, is to take nothing new, or never began. */
  | 'session'
  /** The head, or the place of the next batch, is another. */
  | 'head'
  /** More purges were decided than were known, or this one has ended. */
  | 'purges'
  /** The object is not in the state that the step begins with. */
  | 'object'
  /** The rows that a cover replaces are not exactly its range, not of its segment, or of no earlier generation. */
  | 'range'
  /** The segment is still appended to. */
  | 'segment'
  /** Bytes of what was purged may still be somewhere. */
  | 'bytes'
  /** The node entered the cache again since. */
  | 'entry'
  /** The secret was replaced since. */
  | 'key'
  /** The tenant has an account of that name. */
  | 'name'
  /** The fleet has an archive of that log. */
  | 'log'
  /** The account is not in a state that the step begins with. */
  | 'state';

/** Nothing was written. Whoever gets this gives up what it believed; `head` is what the registry has now, if it was asked. */
export interface Fenced {
  readonly outcome: 'fenced';
  readonly by: FencedBy;
  readonly head?: Head;
  readonly object?: ObjectState;
}

export type Outcome<Done extends object = object> =
  | ({ readonly outcome: 'committed' } & Readonly<Done>)
  | Fenced;

/** Returns what a transaction that happened returns. */
export function committed<Done extends object>(done: Done): { outcome: 'committed' } & Done {
  return { outcome: 'committed', ...done };
}

/** Ends a transaction of several statements: what it has written so far is rolled back. */
export class Refusal extends Error {
  constructor(readonly fenced: Omit<Fenced, 'outcome'>) {
    super(`refused by ${fenced.by}`);
  }
}

/** Runs several statements as one transaction, and returns what refused it if something did. */
export async function outcomeOf<Done extends object>(
  registry: Registry,
  transaction: string,
  body: (tx: Tx) => Promise<Done>,
): Promise<Outcome<Done>> {
  try {
    return committed(await registry.transaction(transaction, body));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    registry.observe({ event: 'refused', by: error.fenced.by });
    return { outcome: 'fenced', ...error.fenced };
  }
}

/** The columns of a head, by the names of `Head`. */
export const HEAD_COLUMNS = sql`id AS archive, epoch, holder, head_number AS "headNumber",
  head_hash AS "headHash", head_time AS "headTime", hot_segment AS "hotSegment", hot_offset AS "hotOffset",
  hot_ordinal AS "hotOrdinal", hot_previous AS "hotPrevious", hot_previous_hash AS "hotPreviousHash", purges`;

/** The condition that the row of an archive is held by this lease. */
export function heldBy({ archive, epoch, session }: Lease): RawBuilder<boolean> {
  return sql<boolean>`id = ${archive} AND epoch = ${epoch} AND holder = ${session}`;
}

/**
 * Locks the row of an archive that a lease holds, until the transaction ends: no claim and no other transaction of a holder
 * happens meanwhile.
 */
export async function lockHeld(tx: Tx, lease: Lease): Promise<Head> {
  const { rows } = await sql<Head>`
    SELECT ${HEAD_COLUMNS} FROM archive WHERE ${heldBy(lease)} FOR UPDATE`.execute(tx);
  const [head] = rows;
  if (head === undefined) throw new Refusal({ by: 'lease' });
  return head;
}

/**
 * Returns why a statement of a holder wrote nothing, from what the registry has now. That it wrote nothing is certain, also
 * if the registry cannot be asked: then there is no head.
 *
 * @param otherwise what it is if the lease still holds, or if the registry cannot be asked
 */
export async function fencedBy(
  registry: Registry,
  lease: Lease,
  otherwise: FencedBy,
): Promise<Fenced> {
  const looked = await lookIfPossible(
    registry.read<Head>(
      'look at an archive',
      sql`SELECT ${HEAD_COLUMNS} FROM archive WHERE id = ${lease.archive}`,
    ),
  );
  const [head] = looked ?? [];
  const isHeld = head?.epoch === lease.epoch && head.holder === lease.session;
  const by = looked === undefined || isHeld ? otherwise : 'lease';
  registry.observe({ event: 'refused', by });
  return { outcome: 'fenced', by, ...(head === undefined ? {} : { head }) };
}

/** Returns the same for a statement that names the number of purges it knows. */
export async function fencedByPurges(
  registry: Registry,
  lease: Lease,
  otherwise: FencedBy,
  purges: number,
): Promise<Fenced> {
  const fenced = await fencedBy(registry, lease, otherwise);
  const { head } = fenced;
  const isStale = fenced.by === otherwise && head !== undefined && head.purges !== purges;
  return isStale ? { ...fenced, by: 'purges' } : fenced;
}

/** Returns what was read; undefined if the registry could not be asked. */
export async function lookIfPossible<Row>(
  reading: Promise<readonly Row[]>,
): Promise<readonly Row[] | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof MailkeepError) return undefined;
    throw error;
  }
}

/** What makes an object one that is to be deleted. */
export const CONDEMNED = sql`state = 'condemned', condemned_at = clock_timestamp()`;

/** An interval of PostgreSQL, from milliseconds. */
export function interval(ms: number): RawBuilder<unknown> {
  return sql`make_interval(secs => ${ms / 1000}::double precision)`;
}
