import { purgedMessage } from '../engine/archive/purged-message.ts';
import type { Reader } from '../engine/archive/reader.ts';
import { retentionError } from '../errors/retention.ts';
import { usageError } from '../errors/usage.ts';
import { terminalLine } from '../mail/terminal-safe.ts';
import type { MessageId } from '../mail/words.ts';
import { count } from '../wording/amounts.ts';
import { dateText, SHORT_ID, senderText } from './place-line.ts';

/**
 * The message that an id, or the beginning of one, names.
 *
 * @throws usage-unknown-message, usage-ambiguous-id, message-purged
 */
export function oneMessage({ catalog }: Pick<Reader, 'catalog'>, typed: string): MessageId {
  const found = catalog.messages.byPrefix(typed);
  switch (found.match) {
    case 'unique':
      return found.id;
    case 'ambiguous': {
      const shown = found.candidates.map((id) => candidate(catalog, id, found.candidates));
      const more = catalog.messages.countByPrefix(typed) - shown.length;
      const candidates = more > 0 ? [...shown, `and ${count(more)} more`] : shown;
      throw usageError('usage-ambiguous-id', { id: typed, candidates });
    }
    case 'none': {
      const purged = purgedMessage({ catalog }, typed);
      if (purged !== undefined) throw retentionError('message-purged', purged);
      throw usageError('usage-unknown-message', { id: typed });
    }
  }
}

/** As much of the id as makes it unique, and what people know the message by. */
function candidate(
  catalog: Reader['catalog'],
  id: MessageId,
  others: readonly MessageId[],
): string {
  let length = SHORT_ID;
  while (others.some((other) => other !== id && other.startsWith(id.slice(0, length)))) length += 1;
  const summary = catalog.messages.summary(id);
  const { date = null, from = null, subject } = summary ?? {};
  const about = [dateText(date), senderText(from), subject ?? ''];
  return [id.slice(0, length), ...about].map(terminalLine).join('  ');
}
