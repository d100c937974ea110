import { createHash, type Hash } from 'node:crypto';
import { attachmentForm } from './attachment-form.ts';
import { nameOf } from './attachment-list.ts';
import type { AttachedDocument } from './extraction.ts';
import { isBodyText, isListed, type LeafContent } from './leaf-content.ts';
import type { Leaf, TakeLeaf } from './part-tree.ts';

/** A message with more of them than this has the rest searched by name only. */
const MAX_DOCUMENTS = 200;

/** Finds the attachments of a message whose text is to be read later, and hashes their bytes on the way. */
export class DocumentFinder {
  readonly #hashes = new Map<LeafContent, { readonly form: string; readonly hash: Hash }>();

  /** As `take`, looking at what passes. */
  passing(take: TakeLeaf<LeafContent>): TakeLeaf<LeafContent> {
    return (info) => {
      const { content, sink } = take(info);
      // What is a body already is searched as one.
      const form = isListed(info) && !isBodyText(info) ? attachmentForm(info) : null;
      if (form === null) return { content, sink };
      const hash = createHash('sha256');
      this.#hashes.set(content, { form, hash });
      return {
        content,
        sink: (chunk) => {
          hash.update(chunk);
          return sink(chunk);
        },
      };
    };
  }

  /**
   * What was found. To be asked for once.
   *
   * @param leaves all leaves of the message, in order
   * @param cut true when the source continues after the last of them
   */
  documents(leaves: readonly Leaf<LeafContent>[], cut: boolean): AttachedDocument[] {
    const listed = leaves.filter(({ info }) => isListed(info));
    const last = leaves.at(-1);
    return listed
      .flatMap((leaf, i): AttachedDocument[] => {
        const known = this.#hashes.get(leaf.content);
        if (known === undefined) return [];
        const whole = !cut || leaf !== last;
        const { form, hash } = known;
        const filename = nameOf(leaf.info);
        return [{ number: i + 1, filename, form, hash: whole ? hash.digest('hex') : null }];
      })
      .slice(0, MAX_DOCUMENTS);
  }
}
