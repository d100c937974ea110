import type { AttachmentLimits } from './attachment-text.ts';
import { type TextSink, Unreadable } from './document-text.ts';
import { attachmentForm, extractMessage } from './extract-message.ts';
import { DEFAULT_LIMITS } from './extraction.ts';
import {
  isListed,
  keepLeaf,
  type Leaf,
  type LeafContent,
  type LeafHandler,
  leafBytes,
  parseTree,
} from './part-tree.ts';

/**
 * Adds the text of an attached message: subject, people, body, nested messages and other attachments. Skips the
 * attachments of deeper messages.
 *
 * @param read adds the text of an attachment
 * @throws Unreadable `malformed`
 */
export async function mailText(
  source: Buffer,
  into: TextSink,
  limits: Pick<AttachmentLimits, 'bytes'>,
  read: (bytes: Buffer, form: string) => Promise<void>,
): Promise<void> {
  const { subject, from, to, cc, body, attachments, status } = await extractMessage(
    source,
    false,
    DEFAULT_LIMITS,
  );
  const names = attachments.map(({ filename }) => filename ?? '');
  for (const text of [subject, from, to, cc, body, ...names])
    if (text !== '') into.add(`${text}\n`);
  if (into.full) return;
  for (const { info, bytes } of await attachmentsIn([source], limits.bytes)) {
    if (into.full) return;
    const form = attachmentForm(info, bytes);
    if (form === null || form === 'mail') continue;
    try {
      await read(bytes, form);
      into.add('\n');
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
    }
  }
  if (status === 'unparsed' && body === '' && subject === '') throw new Unreadable('malformed');
}

/**
 * Returns a message's listed attachments, or just attachment number `only`. Skips those larger than `maxBytes`.
 *
 * @throws Unreadable `too-large` for attachment `only`, or `malformed` if it is missing
 */
export async function attachmentsIn(
  source: Iterable<Buffer> | AsyncIterable<Buffer>,
  maxBytes: number,
  only: number | null = null,
) {
  const leaves: Pick<Leaf<LeafContent>, 'info' | 'content'>[] = [];
  let count = 0;
  const take: LeafHandler<LeafContent> = (info) => {
    if (isListed(info)) count++;
    if (!isListed(info) || (only !== null && count !== only)) return keepLeaf(0);
    const taken = keepLeaf(maxBytes);
    leaves.push({ info, content: taken.content });
    return taken;
  };
  const isDone = () => only !== null && (count > only || leaves[0]?.content.cut === true);
  const pieces = async function* () {
    for await (const piece of source) {
      yield piece;
      if (isDone()) return;
    }
  };
  await parseTree(pieces(), take, DEFAULT_LIMITS);
  if (only !== null && count < only) throw new Unreadable('malformed');
  const whole = leaves.filter(({ content }) => !content.cut);
  if (only !== null && whole.length === 0) throw new Unreadable('too-large');
  return whole.map(({ info, content }) => ({ info, bytes: leafBytes(content) }));
}
