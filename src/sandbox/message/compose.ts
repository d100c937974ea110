import { randomUUID } from 'node:crypto';
import MailComposer from 'nodemailer/lib/mail-composer';
import { readHeaderBlock } from './headers.ts';

export interface OutgoingAttachment {
  readonly filename: string | null;
  readonly content: Buffer;
  readonly contentType: string | null;
  readonly cid: string | null;
}

/** A message to be written, all of it plain values: nothing is read from files or URLs. */
export interface Outgoing {
  readonly from: { readonly name: string; readonly address: string };
  readonly to: readonly string[];
  readonly cc: readonly string[];
  readonly bcc: readonly string[];
  readonly subject: string;
  readonly text: string | null;
  readonly html: string | null;
  readonly attachments: readonly OutgoingAttachment[];
  readonly inReplyTo: string | null;
  readonly references: string | null;
  /** Milliseconds since the epoch. */
  readonly date: number;
}

export interface Composed {
  /** With its Bcc header: the copy for the sender. */
  readonly forSender: Buffer;
  /** Without it: what recipients get. The same Buffer where there is no Bcc. */
  readonly forRecipients: Buffer;
}

/** Writes a message as RFC 5322 source. */
export async function compose(outgoing: Outgoing): Promise<Composed> {
  const domain = outgoing.from.address.slice(outgoing.from.address.lastIndexOf('@') + 1);
  const options = {
    from: { name: outgoing.from.name, address: outgoing.from.address },
    to: [...outgoing.to],
    cc: [...outgoing.cc],
    subject: outgoing.subject,
    date: new Date(outgoing.date),
    messageId: `<${randomUUID()}@${domain}>`,
    // One boundary for both copies, so that they differ in their Bcc line only.
    baseBoundary: randomUUID(),
    disableFileAccess: true,
    disableUrlAccess: true,
    ...(outgoing.text === null && outgoing.html !== null ? {} : { text: outgoing.text ?? '' }),
    ...(outgoing.html === null ? {} : { html: outgoing.html }),
    ...(outgoing.inReplyTo === null ? {} : { inReplyTo: outgoing.inReplyTo }),
    ...(outgoing.references === null ? {} : { references: outgoing.references }),
    attachments: outgoing.attachments.map(({ filename, content, contentType, cid }) => ({
      content,
      ...(filename === null ? { filename: false as const } : { filename }),
      ...(contentType === null ? {} : { contentType }),
      ...(cid === null ? {} : { cid }),
    })),
  };
  const forRecipients = await new MailComposer({ ...options }).compile().build();
  if (outgoing.bcc.length === 0) return { forSender: forRecipients, forRecipients };
  const node = new MailComposer({ ...options, bcc: [...outgoing.bcc] }).compile();
  node.keepBcc = true;
  return { forSender: await node.build(), forRecipients };
}

const THREAD_FIELDS: ReadonlySet<string> = new Set(['message-id', 'references', 'in-reply-to']);

/** In-Reply-To and References of an answer to a source (RFC 5322, 3.6.4). */
export function threadHeaders(source: Buffer): {
  readonly inReplyTo: string | null;
  readonly references: string | null;
} {
  const { fields } = readHeaderBlock(source, 0, source.length, THREAD_FIELDS);
  const messageId = fields.get('message-id')?.[0] ?? '';
  const before = fields.get('references')?.[0] ?? fields.get('in-reply-to')?.[0] ?? '';
  const references = [...new Set([...ids(before), ...ids(messageId)])].join(' ');
  return {
    inReplyTo: messageId === '' ? null : messageId,
    references: references === '' ? null : references,
  };
}

function ids(value: string): string[] {
  return value.match(/<[^<>\s]+>/g) ?? [];
}
