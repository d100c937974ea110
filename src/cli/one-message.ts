import { usageError } from '../errors/usage.ts';
import type { MessageId } from '../mail/words.ts';
import type { Reader } from './compose/reader.ts';

/**
 * The message that an id, or the beginning of one, names.
 *
 * @throws usage-unknown-message, usage-ambiguous-id
 */
export function oneMessage({ catalog }: Reader, typed: string): MessageId {
  const found = catalog.messages.byPrefix(typed);
  switch (found.match) {
    case 'unique':
      return found.id;
    case 'ambiguous':
      throw usageError('usage-ambiguous-id', {
        id: typed,
        candidates: found.candidates.map((id) => id.slice(0, Math.max(12, typed.length + 2))),
      });
    case 'none':
      throw usageError('usage-unknown-message', { id: typed });
  }
}
