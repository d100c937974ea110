import { sql } from 'kysely';
import type { ObjectState } from './objects.ts';
import { CONDEMNED, interval, lookIfPossible, type Outcome } from './outcome.ts';
import type { Registry } from './registry.ts';

/**
 * Condemns an upload that nobody will finish. Anybody may do so at any time: if somebody was about to finish it, its cover is
 * refused, and it is uploaded again under another name.
 */
export async function condemn(registry: Registry, key: string): Promise<Outcome> {
  const rows = await registry.statement(
    'condemn',
    sql`UPDATE object SET ${CONDEMNED} WHERE key = ${key} AND state = 'uploading' RETURNING key`,
  );
  return rows.length === 1 ? { outcome: 'committed' } : await fencedObject(registry, key);
}

/** Condemns up to `most` uploads that began at least `ageMs` ago, and returns their keys. */
export async function condemnAbandoned(
  registry: Registry,
  ageMs: number,
  most: number,
): Promise<readonly string[]> {
  // In one order, and without waiting: collectors and covers that lock several objects do not wait for each other.
  const rows = await registry.statement<{ key: string }>(
    'condemn abandoned uploads',
    sql`UPDATE object SET ${CONDEMNED} WHERE key IN (
        SELECT key FROM object WHERE state = 'uploading'
          AND begun_at < clock_timestamp() - ${interval(ageMs)}
        ORDER BY key LIMIT ${most} FOR UPDATE SKIP LOCKED)
      RETURNING key`,
  );
  return rows.map(({ key }) => key);
}

/**
 * Notes that the upload of a condemned object was aborted and the object deleted. The store may have been completing it at
 * that moment, so it is gone only after another look.
 */
export async function sweep(
  registry: Registry,
  key: string,
): Promise<Outcome<{ sweptAt: string }>> {
  return sweptNow(registry, key, sql`state = 'condemned'`);
}

/**
 * Notes that a swept object was there after all and was deleted again: the wait begins once more.
 *
 * @param sweptAt of the sweep that was looked at
 */
export async function sweepAgain(
  registry: Registry,
  key: string,
  sweptAt: string,
): Promise<Outcome<{ sweptAt: string }>> {
  return sweptNow(registry, key, sql`state = 'swept' AND swept_at = ${sweptAt}::timestamptz`);
}

/**
 * Notes that a swept object was not there when it was looked for again.
 *
 * @param sweptAt of the sweep that was looked at: if somebody swept again since, the look says nothing
 * @param settleMs how long the sweep has to be ago
 */
export async function markGone(
  registry: Registry,
  key: string,
  sweptAt: string,
  settleMs: number,
): Promise<Outcome> {
  const rows = await registry.statement(
    'mark an object gone',
    sql`UPDATE object SET state = 'gone' WHERE key = ${key} AND state = 'swept'
        AND swept_at = ${sweptAt}::timestamptz
        AND swept_at < clock_timestamp() - ${interval(settleMs)}
      RETURNING key`,
  );
  return rows.length === 1 ? { outcome: 'committed' } : await fencedObject(registry, key);
}

async function sweptNow(
  registry: Registry,
  key: string,
  condition: ReturnType<typeof sql>,
): Promise<Outcome<{ sweptAt: string }>> {
  // As text: a date has milliseconds only.
  const [row] = await registry.statement<{ sweptAt: string }>(
    'sweep',
    sql`UPDATE object SET state = 'swept', swept_at = clock_timestamp()
      WHERE key = ${key} AND ${condition} RETURNING swept_at::text AS "sweptAt"`,
  );
  return row === undefined
    ? await fencedObject(registry, key)
    : { outcome: 'committed', sweptAt: row.sweptAt };
}

async function fencedObject(
  registry: Registry,
  key: string,
): Promise<Outcome & { outcome: 'fenced' }> {
  const looked = await lookIfPossible(
    registry.read<{ state: ObjectState }>(
      'look at an object',
      sql`SELECT state FROM object WHERE key = ${key}`,
    ),
  );
  const [row] = looked ?? [];
  return {
    outcome: 'fenced',
    by: 'object',
    ...(row === undefined ? {} : { object: row.state }),
  };
}
