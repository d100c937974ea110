import { z } from 'zod';
import type { SearchHit } from '../../catalog/search/hit.ts';
import { type Fence, visible } from './fence.ts';
import { fenced } from './tool.ts';

/** Attachments that a message is listed with. */
const MOST_ATTACHMENTS = 20;

const attachment = z.object({
  number: z.number().int().describe('Number for get_attachment_text.'),
  filename: fenced().nullable(),
  type: fenced(),
  bytes: z.number().int(),
});

/** A message as lists show it. */
export const messageLine = z.object({
  id: z.string(),
  received: z.string().nullable().describe('ISO 8601, UTC.'),
  from: fenced().nullable(),
  subject: fenced().nullable(),
  mailbox: z.string(),
  folder: z.string().describe('Where it is, or was last.'),
  unread: z.boolean(),
  deleted_at: z.string().nullable().describe('When the service was found to have deleted it.'),
  bytes: z.number().int(),
  snippet: fenced(),
  attachments: z.array(attachment),
});

/** Returns a message as lists show it, with what its sender wrote fenced. */
export function lineOf({ line }: SearchHit, fence: Fence): z.input<typeof messageLine> {
  const { id, date, from, subject, mailbox, folder, flags, endedAt, size, snippet } = line;
  return {
    id,
    received: date,
    from: from === null ? null : fence.around(addressText(from)),
    subject: subject === null ? null : fence.around(cut(subject)),
    mailbox: visible(mailbox),
    folder: visible(folder),
    unread: !flags.includes('\\Seen'),
    deleted_at: endedAt,
    bytes: size,
    snippet: fence.around(snippet),
    attachments: (line.attachments ?? [])
      .filter(({ inline }) => !inline)
      .slice(0, MOST_ATTACHMENTS)
      .map(({ number, filename, contentType, size: bytes }) => ({
        number,
        filename: filename === null ? null : fence.around(cut(filename)),
        type: fence.around(cut(contentType)),
        bytes,
      })),
  };
}

/** Characters of one line of a header that are worth reading. */
const MOST_CHARS = 500;

export function cut(text: string): string {
  return text.length <= MOST_CHARS ? text : `${text.slice(0, MOST_CHARS)} (cut off)`;
}

/** Returns a piece of a text that ends with a whole character: it may be one code unit longer. */
export function windowOf(text: string, offset: number, length: number): string {
  const end = offset + length;
  const isSplit = end < text.length && (text.codePointAt(end - 1) ?? 0) > 0xffff;
  return text.slice(offset, isSplit ? end + 1 : end);
}

export function addressText({
  name,
  address,
}: {
  readonly name: string;
  readonly address: string;
}) {
  return cut(name === '' ? address : `${name} <${address}>`);
}
