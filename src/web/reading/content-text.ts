import type { KnownText } from '../../catalog/attachment-texts.ts';
import type { ListedFile } from '../../catalog/files/files.ts';
import type { FileGroup } from '../../catalog/files/group-names.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';

/** Why a content shows no text: `picture` and `archive` by its kind, the others by what reading it gave. */
export type NoText =
  | 'picture'
  | 'archive'
  | 'other'
  | 'pending'
  | 'scan'
  | 'empty'
  | 'later'
  | 'unreadable'
  | 'encrypted'
  | 'malformed'
  | 'too-large'
  | 'unsupported'
  | 'damaged';

/** Returns the text of a content, or why there is none. */
export function contentText(
  catalog: Reader['catalog'],
  { textId, group }: Pick<ListedFile, 'textId' | 'group'>,
): Pick<KnownText, 'text' | 'truncated'> | { readonly why: NoText } {
  const known = textId === null ? undefined : intactText(catalog, textId);
  if (known === 'damaged') return { why: 'damaged' };
  if (known === undefined) return { why: byGroup(group) };
  if (known.status === 'pending') return { why: 'pending' };
  if (known.status === 'failed') return { why: byFailure(known.reason) };
  if (known.text.trim() === '') return { why: group === 'pdf' ? 'scan' : 'empty' };
  return { text: known.text, truncated: known.truncated };
}

/** Returns a text; one that does not unpack is missing, and nothing else is. */
export function intactText(
  catalog: Reader['catalog'],
  textId: number,
): KnownText | 'damaged' | undefined {
  try {
    return catalog.files.text(textId);
  } catch (error) {
    if (hasCode(error, 'catalog-damaged')) return 'damaged';
    throw error;
  }
}

function byGroup(group: FileGroup): NoText {
  switch (group) {
    case 'pictures':
      return 'picture';
    case 'archives':
      return 'archive';
    default:
      return 'other';
  }
}

function byFailure(reason: string | null): NoText {
  switch (reason) {
    case 'encrypted':
    case 'malformed':
    case 'too-large':
    case 'unsupported':
    case 'damaged':
      return reason;
    case 'bomb':
      return 'too-large';
    default:
      return 'unreadable';
  }
}
