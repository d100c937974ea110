import { pageOf } from '../mailbox-surface/parameters.ts';
import { dataReply, pageOfAll } from '../mailbox-surface/reply.ts';
import { mailboxOf, messageMissing, messageOf, missing, storedOf } from './addressed.ts';
import { listMessages, searchMessages } from './message-pages.ts';
import type { MirrorCall, MirrorReply } from './mirror-call.ts';

/** Sources larger than this are sent in pieces, as they are read. */
const STREAM_FROM_BYTES = 1 << 20;

type Handler = (call: MirrorCall) => MirrorReply | Promise<MirrorReply>;

/** The operations that read, by their names. Whatever is not here would write. */
export const READING: Readonly<Record<string, Handler>> = {
  getCurrentAccount: ({ mailboxes, orderId }) =>
    dataReply({
      orderResourceId: orderId,
      mailboxes: mailboxes.map(({ resourceId, address }) => ({ resourceId, address })),
    }),
  getQuota: (call) => dataReply(call.quotaOf(mailboxOf(call))),
  async listFolders(call) {
    const mailbox = mailboxOf(call);
    const page = pageOf(call.query, 50, 100);
    return pageOfAll(await call.view.folders(mailbox, call.moment), page, (record) => record);
  },
  listMessages,
  searchMessages,
  getMessage(call) {
    const { mailbox, folder, entry } = messageOf(call);
    const json = call.view.json(mailbox, folder, entry);
    if (json === undefined) throw messageMissing(call, entry.uid);
    return { kind: 'text', status: 200, text: `{"data":${json}}` };
  },
  getMessageSource(call) {
    const { id, place } = storedOf(call);
    const sources = call.archive.sources();
    const type = 'message/rfc822';
    if (place.size <= STREAM_FROM_BYTES)
      return { kind: 'bytes', type, bytes: sources.readMessage(id) };
    return { kind: 'stream', type, length: sources.sizeOf(id), pieces: sources.streamMessage(id) };
  },
  async getMessageText(call) {
    const { id } = storedOf(call);
    const { dataDir, threads } = call;
    const { rendered } = await threads.rendering.run(() => ({ kind: 'text', dataDir, id }));
    return dataReply(rendered);
  },
  async getMessageAttachment(call) {
    const { mailbox, id, place, entry } = storedOf(call);
    const { dataDir, threads } = call;
    const attachmentId = call.params.attachmentId ?? '';
    const { attachments: listed } = call.view.listing(mailbox, place);
    const known = listed.some((attachment) => attachment.id === attachmentId);
    const { bytes } = known
      ? await threads.rendering.run(() => ({
          ...{ kind: 'attachment', dataDir, id },
          ...{ listed, attachmentId },
        }))
      : { bytes: null };
    if (bytes === null)
      throw missing(call, 'ERR_ATTACHMENT_NOT_FOUND', 'The attachment does not exist', {
        uid: entry.uid,
        attachmentId,
      });
    const { buffer, byteOffset, byteLength } = bytes;
    const type = 'application/octet-stream';
    return { kind: 'bytes', type, bytes: Buffer.from(buffer, byteOffset, byteLength) };
  },
  listWebhooks(call) {
    mailboxOf(call);
    return pageOfAll([], pageOf(call.query, 50, 1000), () => ({}));
  },
  getWebhook(call) {
    mailboxOf(call);
    const { webhookId = '' } = call.params;
    throw missing(call, 'ERR_WEBHOOK_NOT_FOUND', 'The webhook does not exist', { webhookId });
  },
};
