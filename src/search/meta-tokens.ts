import { foldWord } from './normalise.ts';

/**
 * Words of the index's `meta` column: filters that never change for a message and may be selective, so that
 * they stop early inside the index. All begin with z and have no character at which the tokenizer splits.
 */

/** Every indexed message has it: what a query of exclusions starts from. */
export const TOKEN_ALL = 'zall';
export const TOKEN_ATTACHMENT = 'zatt';
export const TOKEN_INLINE = 'zinline';

/** A place in this mailbox, by its number in the catalog, now or ever. */
export function mailboxToken(id: number): string {
  return `zbox${id}`;
}

/** Words of a List-Id, in order, so that a part of it is found as a phrase. */
export function listTokens(listId: string): string[] {
  return (foldWord(listId).match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => `zl${word}`);
}

/** `image/png` as itself, and as any image. */
export function mimeTokens(contentType: string): string[] {
  const [type = '', subtype = ''] = contentType.toLowerCase().split(';', 1)[0]?.split('/') ?? [];
  const major = plain(type);
  const minor = plain(subtype);
  if (major === '') return [];
  return minor === '' ? [`zm${major}`] : [`zm${major}`, `zm${major}z${minor}`];
}

function plain(text: string): string {
  return text.replaceAll(/[^a-z0-9]/g, '');
}
