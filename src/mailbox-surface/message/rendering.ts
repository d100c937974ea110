import { simpleParser } from 'mailparser';

/** What `getMessageText` answers. */
export interface RenderedText {
  readonly text: string;
  readonly html: string;
}

/** Sources larger than this are cut before they are rendered, so that one request cannot stop the service. */
const RENDER_CEILING = 16 * 1024 * 1024;

/**
 * Renders plain text and HTML, each made from the other where a message has only one of them. Both are texts, as the
 * interface declares them; empty where there is nothing.
 */
export async function renderText(source: Buffer): Promise<RenderedText> {
  const mail = await simpleParser(source.subarray(0, RENDER_CEILING), {
    skipImageLinks: true,
    skipTextLinks: true,
  });
  const html = mail.html === false ? (mail.textAsHtml ?? '') : mail.html;
  return { text: mail.text ?? '', html };
}
