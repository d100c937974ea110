import { readAttachment } from '../../mailbox-surface/message/listing-record.ts';
import { renderText } from '../../mailbox-surface/message/rendering.ts';
import { dataReply, type Reply } from '../../mailbox-surface/reply.ts';
import { type Call, entryOf, folderOf, missing, uidOf } from './call.ts';

/** The rendered text and HTML; marks the message as read. */
export async function getMessageText(call: Call): Promise<Reply> {
  const entry = entryOf(call);
  const rendered = await renderText(call.service.store.read(entry.source));
  // The message may have gone while it was rendered: then there is nothing to mark.
  call.service.store.changeFlags(folderOf(call).folder, uidOf(call), ['\\Seen'], []);
  return dataReply(rendered);
}

/** The decoded bytes of one attachment. */
export function getMessageAttachment(call: Call): Reply {
  const entry = entryOf(call);
  const attachmentId = call.params.attachmentId ?? '';
  const bytes = readAttachment(call.service.store.read(entry.source), attachmentId);
  if (bytes === null) {
    throw missing(call, 'ERR_ATTACHMENT_NOT_FOUND', 'The attachment does not exist', {
      uid: entry.uid,
      attachmentId,
    });
  }
  return { kind: 'bytes', type: 'application/octet-stream', bytes };
}
