import { cutText, withoutNul } from './charsets.ts';
import type { ExtractedAttachment } from './extraction.ts';
import type { LeafInfo } from './leaf-info.ts';
import type { Leaf, Part } from './part-tree.ts';

const MAX_FILENAME_CHARS = 1000;

/** All leaves under a part in the order of the source, each with its depth (the part's own is `depth`). */
export function* leavesOf<T>(
  part: Part<T>,
  depth: number,
): Iterable<{ readonly leaf: Leaf<T>; readonly depth: number }> {
  if (part.kind === 'leaf') yield { leaf: part, depth };
  else for (const child of part.children) yield* leavesOf(child, depth + 1);
}

/** A leaf as the attachment of this number. */
export function attachmentOf(
  { info, content }: Leaf<{ readonly size: number }>,
  number: number,
): ExtractedAttachment {
  return {
    number,
    filename: nameOf(info),
    contentType: info.contentType,
    size: content.size,
    inline: info.disposition === 'inline' || (info.disposition === null && info.related),
    contentId: info.contentId === null ? null : cutText(withoutNul(info.contentId), 998),
  };
}

/** The file name as the mail gives it, which may be anything but endless. */
export function nameOf({ filename }: LeafInfo): string | null {
  return filename === null ? null : cutText(withoutNul(filename), MAX_FILENAME_CHARS);
}
