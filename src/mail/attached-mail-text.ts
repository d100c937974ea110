import type { AttachmentLimits } from './attachment-text.ts';
import { type TextSink, Unreadable } from './document-text.ts';
import { attachmentForm, extractMessage } from './extract-message.ts';
import { DEFAULT_LIMITS } from './extraction.ts';
import type { LeafInfo } from './part-tree.ts';
import { isListed, parseTree, type TakeLeaf } from './part-tree.ts';

interface Inner {
  readonly form: string;
  readonly bytes: Buffer;
}

/**
 * Adds the text of an attached message: its subject, people and body, the messages attached to it, and its other
 * attachments. Attachments of deeper messages are skipped.
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
  for (const { bytes, form } of await innerAttachments(source, limits.bytes)) {
    if (into.full) return;
    try {
      await read(bytes, form);
      into.add('\n');
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
    }
  }
  if (status === 'unparsed' && body === '' && subject === '') throw new Unreadable('malformed');
}

async function innerAttachments(source: Buffer, maxBytes: number): Promise<Inner[]> {
  const found: { readonly info: LeafInfo; readonly chunks: Buffer[] }[] = [];
  const take: TakeLeaf<null> = (info) => {
    if (!isListed(info)) return { content: null, sink: () => undefined };
    const chunks: Buffer[] = [];
    let bytes = 0;
    found.push({ info, chunks });
    return {
      content: null,
      sink: (chunk) => {
        bytes += chunk.length;
        // The decoder may reuse its buffer.
        if (bytes <= maxBytes) chunks.push(Buffer.from(chunk));
        return undefined;
      },
    };
  };
  await parseTree(source, take, DEFAULT_LIMITS);
  return found.flatMap(({ info, chunks }) => {
    const bytes = Buffer.concat(chunks);
    const form = attachmentForm(info, bytes);
    return form === null || form === 'mail' ? [] : [{ form, bytes }];
  });
}
