import { leavesOf } from './attachment-list.ts';
import { bytesOf, collectText, isBodyText, type LeafContent, leafText } from './leaf-content.ts';
import type { MimeLimits } from './limits.ts';
import { type Breach, parseTree, type TakeLeaf } from './part-tree.ts';
import { PICTURE, safeHtml } from './safe-html.ts';

/** Bytes of one picture that is put into a page, and of all of them. */
const PICTURE_BYTES = 2 * 1024 * 1024;
const PICTURES_BYTES = 16 * 1024 * 1024;

/** The HTML of a message as one page, its own pictures inside; null where it has none. */
export async function safePage(
  source: AsyncIterable<Uint8Array>,
  limits: MimeLimits,
): Promise<{ readonly page: string | null; readonly reason: Breach | null }> {
  const { root, breach } = await parseTree(source, keepingPictures(collectText(limits)), limits);
  const leaves = root === null ? [] : [...leavesOf(root, 1)].map(({ leaf }) => leaf);
  const html = leaves
    .filter(({ info }) => info.contentType === 'text/html' && isBodyText(info))
    .map(({ info, content }) => leafText(info, content, limits.textPartBytes));
  if (html.length === 0) return { page: null, reason: breach };
  const pictures = new Map<string, string>();
  for (const { info, content } of leaves) {
    if (info.contentId === null || !PICTURE.test(info.contentType)) continue;
    if (content.cut || content.kept === null || pictures.has(info.contentId)) continue;
    const type = info.contentType.toLowerCase();
    pictures.set(info.contentId, `data:${type};base64,${bytesOf(content).toString('base64')}`);
  }
  return { page: safeHtml(html.join('\n'), pictures), reason: breach };
}

/** As `take`, and the bytes of pictures that a page may name, up to a ceiling. */
function keepingPictures(take: TakeLeaf<LeafContent>): TakeLeaf<LeafContent> {
  let room = PICTURES_BYTES;
  return (info) => {
    if (info.contentId === null || !PICTURE.test(info.contentType)) return take(info);
    const content: LeafContent = { size: 0, kept: [], keptBytes: 0, cut: false };
    return {
      content,
      sink: (chunk) => {
        content.size += chunk.length;
        if (content.size > PICTURE_BYTES || chunk.length > room) content.cut = true;
        if (content.cut) return undefined;
        room -= chunk.length;
        // The decoder may use its buffer again.
        content.kept?.push(Buffer.from(chunk));
        content.keptBytes += chunk.length;
        return undefined;
      },
    };
  };
}
