import type { FlagSet, Place } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import type { PlaceQueries } from './places.ts';
import { query } from './query.ts';

/** A place whose message could not be fetched whole; dates and times are milliseconds since the epoch. */
export interface QuarantineEntry extends Place {
  readonly folderId: number;
  readonly address: string;
  readonly reason: string;
  readonly detail: string;
  /** Hash of the blob that holds what bytes came. */
  readonly kept: string | null;
  readonly acknowledged: boolean;
  /** When it was first quarantined. */
  readonly since: number;
  /** When this reason was recorded. */
  readonly latest: number;
  readonly fingerprint: string;
  readonly flags: FlagSet;
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
    .innerJoin('commits as latest', 'latest.number', 'q.from_commit')
    .selectAll('q')
    .select(['b.host', 'b.mailbox', 'b.address', 'f.path', 'first.time as since'])
    .select('latest.time as latest')
    .where('q.to_commit', 'is', null)
    .orderBy('q.folder_id')
    .orderBy('q.generation')
    .orderBy('q.uid'),
);

const ACKNOWLEDGED = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .selectFrom('quarantine')
    .select('acknowledged')
    .where('folder_id', '=', p.folder)
    .where('generation', '=', p.generation)
    .where('uid', '=', p.uid)
    .where('to_commit', 'is', null),
);

export interface QuarantineQueries {
  /** Open entries, by folder and uid; of one folder where its number is given. */
  open(folder?: number): QuarantineEntry[];
  /** True when the user has acknowledged that a place is in quarantine. */
  isAcknowledged(folder: number, generation: number, uid: number): boolean;
}

export function quarantineQueries(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
): QuarantineQueries {
  return {
    open: (folder) =>
      connection
        .all(OPEN, {})
        .filter((row) => folder === undefined || row.folder_id === folder)
        .map((row) => ({
          host: row.host,
          mailbox: row.mailbox,
          address: row.address,
          folder: row.path,
          folderId: row.folder_id,
          generation: row.generation,
          uid: row.uid,
          reason: row.reason,
          detail: row.detail,
          kept: row.kept === null ? null : row.kept.toString('hex'),
          acknowledged: row.acknowledged === 1,
          since: row.since,
          latest: row.latest,
          fingerprint: row.fingerprint.toString('hex'),
          flags: places.flags(row.flag_set),
          date: row.date,
          size: row.size,
          subject: row.subject,
          messageId: row.message_id,
        })),
    isAcknowledged: (folder, generation, uid) =>
      connection.get(ACKNOWLEDGED, { folder, generation, uid })?.acknowledged === 1,
  };
}
