import type { Fact } from '../archive/format/facts.ts';
import type { FoldedRecord, Position } from '../archive/format/records.ts';
import { fingerprint } from '../mail/fingerprint.ts';
import type { BlobHash, Place } from '../mail/words.ts';
import { flagMarks } from './flag-marks.ts';
import { envelopeOf } from './fold/envelope.ts';
import { catalogFile, openForReading } from './open.ts';
import { RECORD_BLOB, RECORD_MESSAGE } from './tables.ts';

/**
 * Messages that need not be folded to compare a catalog with its log: nothing but their arrival happened to them, and
 * the catalog has exactly the rows that this makes, one each of `records`, `messages` and `places`.
 */
export interface SettledRun {
  readonly kind: 'settled';
  /** The place of the last of them with the highest uid: all are in its folder and generation. */
  readonly place: Place;
  /** The number of the folder in the catalog. */
  readonly folderId: number;
  readonly messages: number;
  /** Bytes of their sources. */
  readonly bytes: number;
}

/** A record as comparing needs it: folded, or known to be in the catalog already. */
export type ComparedRecord = FoldedRecord | SettledRun;

/** How many rows of a catalog were found as their records make them. */
export interface SettledCounts {
  readonly messages: number;
  readonly blobs: number;
}

type Arrival = Extract<Fact, { fact: 'appeared' }>;

/** Asks a catalog for rows that are exactly what a record of the log makes, if nothing else happened. */
export interface SettledRows {
  /**
   * Returns whether the row of a blob is that of this record, or names a record behind it, which is in force then;
   * undefined for any other row. @throws `catalog-damaged`, `catalog-io`
   */
  blob(hash: BlobHash, size: number, position: Position): 'settled' | 'superseded' | undefined;
  /**
   * Returns the number of the folder in which a message arrived with this fact and stayed as it was; undefined if any
   * column of its three rows has another value, or if its uid has further rows or events.
   *
   * @param size of its source, as its record states it
   * @throws `catalog-damaged`, `catalog-io`
   */
  arrival(fact: Arrival, size: number, position: Position, commit: number): number | undefined;
  /** Asks several questions of one state of the catalog, which takes less time. */
  within<T>(ask: () => T): T;
  close(): void;
}

const BLOB = `SELECT CASE
    WHEN segment = ? AND ordinal = ? AND "offset" = ? AND size = ? AND docid IS NULL THEN 'settled'
    WHEN segment > ? OR segment = ? AND ordinal > ? THEN 'superseded'
  END
  FROM records WHERE kind = ${RECORD_BLOB} AND hash = ?`;

/**
 * Every column that is compared otherwise has a condition here: a test changes each of them. The place must also be the
 * one that the index of uids finds, by which a pass looks for it.
 *
 * The plus keeps SQLite from looking at the values while it plans: it would prepare the statement again for each message.
 */
const ARRIVAL = `SELECT places.folder_id
  FROM records CROSS JOIN messages CROSS JOIN places CROSS JOIN flag_sets
  WHERE records.kind = ${RECORD_MESSAGE} AND records.hash = +? AND records.size = +?
    AND records.segment = +? AND records.ordinal = +? AND records."offset" = +? AND records.docid = +?
    AND messages.docid = records.docid AND messages.id = records.hash AND messages.size = +?
    AND messages.date IS +? AND messages.subject IS +? AND messages.sender_name IS +?
    AND messages.sender_address IS +? AND messages.message_id IS +? AND messages.first_commit = +?
    AND messages.open_places = 1
    AND places.docid = records.docid AND places.generation = +? AND places.uid = +?
    AND places.from_commit = messages.first_commit AND places.to_commit IS NULL
    AND places.first_commit = messages.first_commit AND places.marks = +? AND places.fingerprint = +?
    AND places.date IS NULL AND places.assumed = 0 AND places.held = 0 AND places.reason IS NULL
    AND flag_sets.id = places.flag_set AND flag_sets.flags = +?
    AND (
      SELECT count(*) = 1 AND min(same.id) = places.id FROM places same
      WHERE same.folder_id = places.folder_id AND same.generation = places.generation
        AND same.uid = places.uid)
    AND NOT EXISTS (
      SELECT 1 FROM events
      WHERE events.folder_id = places.folder_id AND events.generation = places.generation
        AND events.uid = places.uid)`;

/**
 * Opens a catalog for these questions. Their SQL is written out because threads ask them that start for a second:
 * loading the query builder would take a fifth of their start.
 *
 * @throws see `openForReading`
 */
export function openSettledRows(dataDir: string): SettledRows {
  const connection = openForReading(catalogFile(dataDir));
  return {
    blob(hash, size, { segment, ordinal, offset }) {
      const place = [segment, ordinal, offset, size, segment, segment, ordinal];
      const values = [...place, Buffer.from(hash, 'hex')];
      return connection.first<'settled' | 'superseded' | null>(BLOB, values) ?? undefined;
    },
    arrival(fact, size, { segment, ordinal, offset }, commit) {
      const { listing, generation, uid, docid } = fact;
      const { date, subject, sender_name, sender_address, message_id } = envelopeOf(listing);
      return connection.first<number>(ARRIVAL, [
        ...[Buffer.from(fact.message, 'hex'), size, segment, ordinal, offset, docid],
        ...[fact.size, date, subject, sender_name, sender_address, message_id, commit],
        ...[generation, uid, flagMarks(listing.flags)],
        ...[Buffer.from(fingerprint(listing), 'hex'), JSON.stringify(listing.flags)],
      ]);
    },
    within: (ask) => connection.snapshot(ask),
    close: () => connection.close(),
  };
}
