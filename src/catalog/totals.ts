import type { Connection } from './connection.ts';
import { query } from './query.ts';
import { RECORD_BLOB } from './tables.ts';

/** What the archive holds in all. */
export interface Totals {
  /** Distinct messages, and the bytes of their raw sources. */
  readonly messages: number;
  readonly bytes: number;
  readonly blobs: number;
  /** Messages at no current place. */
  readonly ended: number;
  /** Messages not indexed yet, or due again. */
  readonly pending: number;
  readonly unparsed: number;
  readonly tombstones: number;
}

const META = query()((db) => db.selectFrom('meta').select(['messages', 'message_bytes']));
const BLOBS = query()((db) =>
  db
    .selectFrom('records')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('kind', '=', RECORD_BLOB),
);
const ENDED = query()((db) =>
  db
    .selectFrom('messages')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('open_places', '=', (eb) => eb.lit(0)),
);
const PENDING = query()((db) =>
  db
    .selectFrom('messages')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('extractor', '<=', (eb) => eb.lit(0)),
);
const UNPARSED_COUNT = query()((db) =>
  db
    .selectFrom('texts')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('unparsed', 'is not', null),
);
const TOMBSTONES = query()((db) =>
  db.selectFrom('tombstones').select((eb) => eb.fn.countAll<number>().as('n')),
);

/** Sums for `status`: from indexes and running sums, so that they cost the same whatever the archive's size. */
export function totals(connection: Connection): Totals {
  const meta = connection.statement(META).get({});
  return {
    messages: meta?.messages ?? 0,
    bytes: meta?.message_bytes ?? 0,
    blobs: connection.statement(BLOBS).get({})?.n ?? 0,
    ended: connection.statement(ENDED).get({})?.n ?? 0,
    pending: connection.statement(PENDING).get({})?.n ?? 0,
    unparsed: connection.statement(UNPARSED_COUNT).get({})?.n ?? 0,
    tombstones: connection.statement(TOMBSTONES).get({})?.n ?? 0,
  };
}
