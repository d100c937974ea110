import type { Place } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import { readable } from './messages.ts';
import { query } from './query.ts';

/** A place whose message could not be fetched whole; dates and times are milliseconds since the epoch. */
export interface QuarantineEntry extends Place {
  readonly address: string;
  readonly reason: string;
  readonly detail: string;
  /** Hash of the blob that holds what bytes came. */
  readonly kept: string | null;
  readonly acknowledged: boolean;
  /** When it was first quarantined. */
  readonly since: number;
  readonly date: number | null;
  readonly size: number;
  readonly subject: string | null;
  readonly messageId: string | null;
}

const OPEN = query()((db) =>
  db
    .selectFrom('quarantine as q')
    .innerJoin('folders as f', 'f.id', 'q.folder_id')
    .innerJoin('mailboxes as b', 'b.id', 'f.mailbox_id')
    .innerJoin('commits as first', 'first.number', 'q.first_commit')
    .select(['b.host', 'b.mailbox', 'b.address', 'f.path as folder', 'q.generation', 'q.uid'])
    .select(['q.reason', 'q.detail', 'q.kept', 'q.acknowledged', 'first.time as since'])
    .select(['q.date', 'q.size', 'q.subject', 'q.message_id as messageId'])
    .where('q.to_commit', 'is', null)
    .orderBy('q.folder_id')
    .orderBy('q.generation')
    .orderBy('q.uid'),
);

const ACKNOWLEDGED = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .selectFrom('quarantine')
    .select('acknowledged')
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation, uid: p.uid }))
    .where('to_commit', 'is', null),
);

export interface QuarantineQueries {
  /** Open entries, by folder and uid. */
  open(): QuarantineEntry[];
  /** True when the user has acknowledged that a place is in quarantine. */
  isAcknowledged(folder: number, generation: number, uid: number): boolean;
}

export function quarantineQueries(connection: Connection): QuarantineQueries {
  return {
    open: () =>
      connection.all(OPEN, {}).map(({ kept, acknowledged, ...entry }) => ({
        ...entry,
        subject: readable(entry.subject),
        kept: kept === null ? null : kept.toString('hex'),
        acknowledged: acknowledged === 1,
      })),
    isAcknowledged: (folder, generation, uid) =>
      connection.get(ACKNOWLEDGED, { folder, generation, uid })?.acknowledged === 1,
  };
}
