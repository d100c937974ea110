import { simpleParser } from 'mailparser';
import { dataReply, type Reply } from '../http/reply.ts';
import { readAttachment } from '../message/listing-record.ts';
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

/** Sources larger than this are cut before they are rendered, so that one request cannot stop the service. */
const RENDER_CEILING = 16 * 1024 * 1024;

/**
 * Renders plain text and HTML, each made from the other where a message has only one of them. Both are texts, as the
 * interface declares them; empty where there is nothing.
 */
async function renderText(source: Buffer): Promise<{ text: string; html: string }> {
  const mail = await simpleParser(source.subarray(0, RENDER_CEILING), {
    skipImageLinks: true,
    skipTextLinks: true,
  });
  const html = mail.html === false ? (mail.textAsHtml ?? '') : mail.html;
  return { text: mail.text ?? '', html };
}
