import type { CountRequest, HitCount } from '../../catalog/search/search.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import type { BlobHash } from '../../mail/words.ts';
import { type Snippet, snippet } from '../../search/snippet.ts';
import { soughtWords } from '../../search/word-matches.ts';
import { intactText } from './content-text.ts';
import { within } from './mail-list.ts';

/** What the archive knows of an attachment besides what its message says. */
export interface AttachmentNote {
  readonly number: number;
  readonly hash: BlobHash;
  /** Messages that have the same content, this one among them. */
  readonly messages: HitCount;
  /** Where its text has what the query looks for. */
  readonly hit: Snippet | null;
}

/** Attachments of a message whose texts are looked through; each may have 256 Ki characters. */
const MOST_TEXTS = 16;
/** For the numbers of all attachments together, in milliseconds. */
const COUNTING_MS = 150;

/**
 * Returns what is known of the attachments of a message.
 *
 * @param request the query that the message was opened from; null for one that cannot be understood
 */
export function attachmentNotes(
  { catalog }: Pick<Reader, 'catalog'>,
  docid: number,
  request: CountRequest | null,
): AttachmentNote[] {
  const words = request === null ? [] : soughtWords(request.node, ['any']);
  let texts = 0;
  const hitIn = (textId: number | null): Snippet | null => {
    if (words.length === 0 || textId === null || texts >= MOST_TEXTS) return null;
    texts += 1;
    const known = intactText(catalog, textId);
    return known === undefined || known === 'damaged' ? null : (snippet(known.text, words) ?? null);
  };
  return catalog.snapshot(() =>
    catalog.files
      .ofMessage({ asOf: request?.asOf, scope: request?.scope }, docid, within(COUNTING_MS))
      .map(({ number, hash, messages, textId }) => ({
        number,
        hash,
        messages,
        hit: hitIn(textId),
      })),
  );
}
