import type { Kysely } from 'kysely';
import * as catalog0001 from './0001_catalog.ts';
import * as catalog0002 from './0002_threads.ts';
import * as catalog0003 from './0003_attachment_text.ts';
import * as catalog0004 from './0004_zstd_texts.ts';
import * as catalog0005 from './0005_attachment_lists.ts';
import * as catalog0006 from './0006_all_attachments.ts';
import * as catalog0007 from './0007_received_days.ts';
import * as catalog0008 from './0008_people.ts';
import * as catalog0009 from './0009_changes.ts';
import * as catalog0010 from './0010_chart_indexes.ts';

/** One step of the catalog's shape. Steps only go forward: the catalog is derived, so the way back is a rebuild. */
export interface CatalogMigration {
  up(db: Kysely<unknown>): Promise<void>;
}

/**
 * Every step by name, in order, as a static map so that a bundle holds them. The how-many-th step was the last
 * to run is the database's `user_version`.
 */
export const migrations: Readonly<Record<string, CatalogMigration>> = {
  '0001_catalog': catalog0001,
  '0002_threads': catalog0002,
  '0003_attachment_text': catalog0003,
  '0004_zstd_texts': catalog0004,
  '0005_attachment_lists': catalog0005,
  '0006_all_attachments': catalog0006,
  '0007_received_days': catalog0007,
  '0008_people': catalog0008,
  '0009_changes': catalog0009,
  '0010_chart_indexes': catalog0010,
};
