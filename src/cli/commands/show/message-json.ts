import type { Reader } from '../../../engine/archive/reader.ts';
import type { MessageId } from '../../../mail/words.ts';
import type { MessageReading } from '../../../mime/message-reading.ts';

/** What `show` prints of a message for programs: what list and search tell of it is spelled as they spell it. */
export function messageJson(reader: Reader, id: MessageId, reading: MessageReading) {
  const { html: _html, ...shown } = reading;
  const summary = reader.catalog.messages.summary(id);
  return { id, ...shown, ...summary, size: summary?.size ?? reader.sources().sizeOf(id) };
}
