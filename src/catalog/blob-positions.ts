import type { Position } from '../archive/format/records.ts';
import type { BlobHash } from '../mail/words.ts';
import { catalogFile, openForReading } from './open.ts';
import { type CatalogTables, RECORD_BLOB } from './tables.ts';

/** Where an archive's catalog has its blobs. */
export interface BlobPositions {
  /** Returns undefined for a blob without readable bytes. @throws `catalog-damaged`, `catalog-io` */
  readonly of: (hash: BlobHash) => Position | undefined;
  close(): void;
}

type Found = Pick<CatalogTables['records'], 'segment' | 'ordinal' | 'offset'>;

const FIND = 'SELECT segment, ordinal, "offset" FROM records WHERE kind = ? AND hash = ?';

/**
 * Opens a catalog for this one question. Its SQL is written out because threads ask it that start for a second: loading
 * the query builder would take a fifth of their start.
 *
 * @throws see `openForReading`
 */
export function openBlobPositions(dataDir: string): BlobPositions {
  const connection = openForReading(catalogFile(dataDir));
  return {
    of: (hash) => {
      const [found] = connection.text<Found>(FIND, [RECORD_BLOB, Buffer.from(hash, 'hex')]);
      if (found === undefined || found.segment === null) return undefined;
      return { segment: found.segment, ordinal: found.ordinal ?? 0, offset: found.offset ?? 0 };
    },
    close: () => connection.close(),
  };
}
