import { randomUUID } from 'node:crypto';
import MailComposer from 'nodemailer/lib/mail-composer';
import type { z } from 'zod';
import { sendRequest } from '../service/mailbox-wire.ts';
import { readHeaderBlock } from '../service/message-view.ts';
import { invalid, NO_CONTENT, Refusal, type Reply } from '../service/surface.ts';
import { bodyOf, type Call, findFolder, mailboxOf } from './operation-call.ts';
import type { Entry, Folder } from './store.ts';

interface Composed {
  /** The sender's copy, with the Bcc header. */
  readonly forSender: Buffer;
  /** The recipients' copy, without the Bcc header. The same Buffer as `forSender` if Bcc is empty. */
  readonly forRecipients: Buffer;
}

/**
 * Writes a message without reading any files or URLs.
 *
 * @param date milliseconds since the epoch
 * @throws Refusal if an attachment cannot be decoded
 */
async function compose(
  from: string,
  mail: z.output<typeof sendRequest>,
  thread: ReturnType<typeof threadHeaders>,
  date: number,
): Promise<Composed> {
  const { to = [], cc = [], bcc = [], text, html } = mail;
  const options = {
    from: { name: mail.displayName ?? '', address: from },
    to,
    cc,
    subject: mail.subject ?? '',
    date: new Date(date),
    messageId: `<${randomUUID()}@${from.slice(from.lastIndexOf('@') + 1)}>`,
    // Both copies use the same boundary, so that only the Bcc line differs.
    baseBoundary: randomUUID(),
    disableFileAccess: true,
    disableUrlAccess: true,
    ...(text === undefined && html !== undefined ? {} : { text: text ?? '' }),
    ...(html === undefined ? {} : { html }),
    ...thread,
    attachments: (mail.attachments ?? []).map(decodeAttachment),
  };
  const forRecipients = await new MailComposer({ ...options }).compile().build();
  if (bcc.length === 0) return { forSender: forRecipients, forRecipients };
  const node = new MailComposer({ ...options, bcc }).compile();
  node.keepBcc = true;
  return { forSender: await node.build(), forRecipients };
}

const THREAD_FIELDS: ReadonlySet<string> = new Set(['message-id', 'references', 'in-reply-to']);

/** Returns the threading headers of a reply (RFC 5322, 3.6.4). */
function threadHeaders(source: Buffer): { inReplyTo?: string; references?: string } {
  const { fields } = readHeaderBlock(source, 0, source.length, THREAD_FIELDS);
  const messageId = fields.get('message-id')?.[0] ?? '';
  const previous = fields.get('references')?.[0] ?? fields.get('in-reply-to')?.[0] ?? '';
  const references = [...new Set([...ids(previous), ...ids(messageId)])].join(' ');
  return {
    ...(messageId === '' ? {} : { inReplyTo: messageId }),
    ...(references === '' ? {} : { references }),
  };
}

function ids(value: string): string[] {
  return value.match(/<[^<>\s]+>/g) ?? [];
}

/**
 * Stores a copy in INBOX.Sent, delivers to mailboxes in this service, and flags the answered or forwarded message.
 * Other recipients are accepted but receive nothing.
 */
export async function sendEmail(call: Call): Promise<Reply> {
  const mailbox = mailboxOf(call);
  const mail = bodyOf(call, sendRequest);
  const { store, settings, now } = call.service;
  const recipients = [...(mail.to ?? []), ...(mail.cc ?? []), ...(mail.bcc ?? [])];
  checkAllowed(recipients, settings.outgoingAllowList);
  const reference = mail.inReplyTo ?? mail.forwardOf ?? null;
  const origin = reference === null ? null : originOf(call, reference.folder, reference.uid);
  const thread = origin === null ? {} : threadHeaders(store.sources.read(origin.entry.source));
  const sentAt = now();
  const { forSender, forRecipients } = await compose(mailbox.address, mail, thread, sentAt);
  const sent = store.folderFor(mailbox, 'INBOX.Sent');
  const receivers = [...new Set(recipients.map((address) => store.mailboxByAddress(address)))]
    .filter((receiver) => receiver !== null)
    .map((receiver) => ({
      mailbox: receiver,
      folder: store.folderFor(receiver, 'INBOX'),
      flags: [],
    }));
  const copy = { folder: sent, flags: ['\\Seen'] };
  // Delivery is synchronous, so nothing can interrupt it.
  const uids = store.atomically(() => {
    if (origin !== null) {
      const flag = mail.inReplyTo !== undefined ? '\\Answered' : '$forwarded';
      store.changeFlags(origin.folder, origin.entry.uid, [flag], []);
    }
    if (forSender === forRecipients) {
      return store.addEverywhere([copy, ...receivers], forSender, sentAt).slice(1);
    }
    store.addEverywhere([copy], forSender, sentAt);
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

const BASE64 = /^[A-Za-z0-9+/\s]*={0,2}$/;

function decodeAttachment(
  attachment: NonNullable<z.output<typeof sendRequest>['attachments']>[number],
  index: number,
) {
  const encoding = ENCODINGS[(attachment.encoding ?? 'base64').toLowerCase()];
  if (encoding === undefined) {
    throw invalid({ [`attachments.${index}.encoding`]: ['is not a known encoding'] });
  }
  if (encoding === 'base64' && !BASE64.test(attachment.content.trimEnd())) {
    throw invalid({ [`attachments.${index}.content`]: ['is not base64'] });
  }
  const { filename = false as const, content, contentType, cid } = attachment;
  return {
    content: Buffer.from(content, encoding),
    filename,
    ...(contentType === undefined ? {} : { contentType }),
    ...(cid === undefined ? {} : { cid }),
  };
}
