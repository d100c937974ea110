import { simpleParser } from 'mailparser';
import type { MessageTextRecord } from '../../wire/mailbox-records.ts';

/** Sources larger than this are cut before they are rendered, so that one request cannot stop the service. */
const RENDER_CEILING = 16 * 1024 * 1024;

/** Plain text and HTML as a reader is shown them; null for what a message does not have and nothing yields. */
export async function renderText(source: Buffer): Promise<MessageTextRecord> {
  const mail = await simpleParser(source.subarray(0, RENDER_CEILING), {
    skipImageLinks: true,
    skipTextLinks: true,
    skipTextToHtml: true,
  });
  return { text: mail.text ?? null, html: mail.html === false ? null : mail.html };
}
