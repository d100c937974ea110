import type { AttachmentLine } from '../mail/lines.ts';
import type { Connection } from './connection.ts';
import { query } from './query.ts';

const LISTED = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('attachments')
    .select(['number', 'filename', 'type', 'size', 'inline'])
    .where('docid', '=', p.docid)
    // What an older version read the text of, without listing it.
    .where('type', '<>', '')
    .orderBy('number'),
);

/** Returns the attachments of a message, in order. */
export function attachmentsOf(connection: Connection, docid: number): AttachmentLine[] {
  return connection.all(LISTED, { docid }).map(({ number, filename, type, size, inline }) => ({
    number,
    filename,
    contentType: type,
    size,
    inline: inline === 1,
  }));
}
