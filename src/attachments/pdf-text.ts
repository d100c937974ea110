import type { AttachmentLimits } from './limits.ts';
import { type TextSink, Unreadable } from './text-sink.ts';

/**
 * Adds the text of a PDF, page by page. Scripts in it are never run: nothing here has an engine for them, and
 * neither fonts nor pictures are drawn.
 *
 * @throws Unreadable `encrypted`, `malformed`
 */
export async function pdfText(
  bytes: Uint8Array,
  into: TextSink,
  limits: Pick<AttachmentLimits, 'pages'>,
): Promise<void> {
  // Megabytes of code, for attachments that are PDFs only.
  const { getDocumentProxy } = await import('unpdf');
  const pdf = await opened(
    // A copy: the parser takes the buffer away from its owner.
    getDocumentProxy(new Uint8Array(bytes), {
      verbosity: 0,
      enableXfa: false,
      disableFontFace: true,
      useSystemFonts: false,
    }),
  );
  try {
    let failed: unknown;
    let read = 0;
    for (let number = 1; number <= pdf.numPages && !into.full; number++) {
      if (number > limits.pages) {
        into.cut();
        break;
      }
      try {
        const page = await pdf.getPage(number);
        const { items } = await page.getTextContent();
        for (const item of items) {
          if ('str' in item) into.add(item.hasEOL ? `${item.str}\n` : item.str);
          if (into.full) break;
        }
        into.add('\n\n');
        page.cleanup();
        read++;
      } catch (error) {
        // One bad page does not take the others away.
        failed ??= error;
      }
    }
    if (read === 0 && failed !== undefined) throw new Unreadable('malformed');
  } finally {
    await pdf.loadingTask.destroy();
  }
}

async function opened<T>(opening: Promise<T>): Promise<T> {
  try {
    return await opening;
  } catch (error) {
    const encrypted = error instanceof Error && error.name === 'PasswordException';
    throw new Unreadable(encrypted ? 'encrypted' : 'malformed');
  }
}
