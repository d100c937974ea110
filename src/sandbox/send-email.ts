import { randomUUID } from 'node:crypto';
import MailComposer from 'nodemailer/lib/mail-composer';
import type { z } from 'zod';
import { sendRequest } from '../service/mailbox-wire.ts';
import { readHeaderBlock } from '../service/message-view.ts';
import { invalid, NO_CONTENT, Refusal, type Reply } from '../service/surface.ts';
import type { Entry, Folder } from './folder.ts';
import { bodyOf, type Call, findFolder, mailboxOf } from './operation-call.ts';

interface OutgoingAttachment {
  readonly filename: string | null;
  readonly content: Buffer;
  readonly contentType: string | null;
  readonly cid: string | null;
}

/** A message to be written, all of it plain values: nothing is read from files or URLs. */
interface Outgoing {
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

interface Composed {
  /** With its Bcc header: the copy for the sender. */
  readonly forSender: Buffer;
  /** Without it: what recipients get. The same Buffer where there is no Bcc. */
  readonly forRecipients: Buffer;
}

/** Writes a message as RFC 5322 source. */
async function compose(outgoing: Outgoing): Promise<Composed> {
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
function threadHeaders(source: Buffer): {
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

/**
 * Sends a message: a copy goes to INBOX.Sent, recipients with a mailbox here receive it, and the message that
 * was answered or forwarded is flagged. Recipients elsewhere are accepted and nothing is sent to them.
 */
export async function sendEmail(call: Call): Promise<Reply> {
  const mailbox = mailboxOf(call);
  const mail = bodyOf(call, sendRequest);
  const { store, settings, now } = call.service;
  const recipients = [...(mail.to ?? []), ...(mail.cc ?? []), ...(mail.bcc ?? [])];
  checkAllowed(recipients, settings.outgoingAllowList);
  const reference = mail.inReplyTo ?? mail.forwardOf ?? null;
  const origin = reference === null ? null : originOf(call, reference.folder, reference.uid);
  const thread =
    origin === null
      ? { inReplyTo: null, references: null }
      : threadHeaders(store.read(origin.entry.source));
  const sentAt = now();
  const { forSender, forRecipients } = await compose({
    from: { name: mail.displayName ?? '', address: mailbox.address },
    to: mail.to ?? [],
    cc: mail.cc ?? [],
    bcc: mail.bcc ?? [],
    subject: mail.subject ?? '',
    text: mail.text ?? null,
    html: mail.html ?? null,
    attachments: (mail.attachments ?? []).map(decodeAttachment),
    ...thread,
    date: sentAt,
  });
  const sent = store.folderFor(mailbox, 'INBOX.Sent');
  const receivers = [...new Set(recipients.map((address) => store.mailboxByAddress(address)))]
    .filter((receiver) => receiver !== null)
    .map((receiver) => ({
      mailbox: receiver,
      folder: store.folderFor(receiver, 'INBOX'),
      flags: [],
    }));
  const own = { folder: sent, flags: ['\\Seen'] };
  // Nobody can come in between: the whole delivery is one synchronous step.
  const uids = store.atomically(() => {
    if (origin !== null) {
      const flag = mail.inReplyTo !== undefined ? '\\Answered' : '$forwarded';
      store.changeFlags(origin.folder, origin.entry.uid, [flag], []);
    }
    if (forSender === forRecipients) {
      return store.addEverywhere([own, ...receivers], forSender, sentAt).slice(1);
    }
    store.addEverywhere([own], forSender, sentAt);
    return receivers.length === 0 ? [] : store.addEverywhere(receivers, forRecipients, sentAt);
  });
  receivers.forEach((receiver, index) => {
    store.announce(receiver.mailbox, receiver.folder, uids[index] ?? 0);
  });
  return NO_CONTENT;
}

function checkAllowed(recipients: readonly string[], allowList: readonly string[] | null): void {
  if (allowList === null) return;
  const allowed = allowList.map((entry) => entry.toLowerCase());
  const refused = recipients.filter((recipient) => {
    const address = recipient.toLowerCase();
    return !allowed.includes(address) && !allowed.includes(address.slice(address.lastIndexOf('@')));
  });
  if (refused.length === 0) return;
  throw new Refusal(422, 'ERR_RECIPIENT_NOT_ALLOWED', 'A recipient is not on the allow list', {
    recipients: refused,
  });
}

function originOf(
  call: Call,
  path: string,
  uid: number,
): { readonly folder: Folder; readonly entry: Entry } {
  const folder = findFolder(mailboxOf(call), path);
  if (folder === null) {
    throw new Refusal(422, 'ERR_FOLDER_NOT_FOUND', 'The folder does not exist', { folder: path });
  }
  const entry = folder.get(uid);
  if (entry === null) {
    throw new Refusal(422, 'ERR_MESSAGE_NOT_FOUND', 'The message does not exist', {
      folder: path,
      uid,
    });
  }
  return { folder, entry };
}

/** How `content` may be written; base64 by default. */
const ENCODINGS: Readonly<Record<string, BufferEncoding>> = {
  base64: 'base64',
  'utf-8': 'utf8',
  utf8: 'utf8',
  '7bit': 'latin1',
  '8bit': 'latin1',
  binary: 'latin1',
  ascii: 'latin1',
  latin1: 'latin1',
  hex: 'hex',
};

/** Base64 without blanks at its end. */
const BASE64 = /^[A-Za-z0-9+/\s]*={0,2}$/;

function decodeAttachment(
  attachment: NonNullable<z.output<typeof sendRequest>['attachments']>[number],
  index: number,
): OutgoingAttachment {
  const encoding = ENCODINGS[(attachment.encoding ?? 'base64').toLowerCase()];
  if (encoding === undefined) {
    throw invalid({ [`attachments.${index}.encoding`]: ['is not a known encoding'] });
  }
  if (encoding === 'base64' && !BASE64.test(attachment.content.trimEnd())) {
    throw invalid({ [`attachments.${index}.content`]: ['is not base64'] });
  }
  return {
    filename: attachment.filename ?? null,
    content: Buffer.from(attachment.content, encoding),
    contentType: attachment.contentType ?? null,
    cid: attachment.cid ?? null,
  };
}
