import type { PDFDocumentProxy, PDFPageProxy } from 'unpdf/pdfjs';
import type { AttachmentLimits } from './limits.ts';
import { boundUnpacking, type UnpackingBound } from './pdf-memory.ts';
import { type TextSink, Unreadable } from './text-sink.ts';

/**
 * Adds the text of a PDF, page by page. Scripts in it are never run: nothing here has an engine for them, and
 * neither fonts nor pictures are drawn.
 *
 * @throws Unreadable `bomb` (the thread is of no further use then), `encrypted`, `malformed`
 */
export async function pdfText(
  bytes: Uint8Array,
  into: TextSink,
  limits: Pick<AttachmentLimits, 'pages' | 'pageBytes'>,
): Promise<void> {
  // Megabytes of code, for attachments that are PDFs only.
  const { getDocumentProxy } = await import('unpdf');
  const bound = boundUnpacking(limits.pageBytes);
  try {
    const pdf = await opened(
      bound.within(
        // A copy: the parser takes the buffer away from its owner.
        getDocumentProxy(new Uint8Array(bytes), {
          verbosity: 0,
          enableXfa: false,
          disableFontFace: true,
          useSystemFonts: false,
        }),
      ),
    );
    try {
      await addPages(pdf, into, limits.pages, bound);
    } finally {
      // Without end where pdf.js waits for a stream that hands out nothing more.
      if (!bound.passed) await pdf.loadingTask.destroy();
    }
  } finally {
    bound.lift();
  }
}

/** @throws Unreadable `bomb`; `malformed` where no page can be read */
async function addPages(
  pdf: PDFDocumentProxy,
  into: TextSink,
  pages: number,
  bound: UnpackingBound,
): Promise<void> {
  let failed: unknown;
  let read = 0;
  for (let number = 1; number <= pdf.numPages && !into.full; number++) {
    if (number > pages) {
      into.cut();
      break;
    }
    bound.nextPage();
    try {
      const page = await bound.within(pdf.getPage(number));
      for (const piece of await bound.within(pageText(page, into.room))) into.add(piece);
      into.add('\n\n');
      page.cleanup();
      read++;
    } catch (error) {
      if (error instanceof Unreadable) throw error;
      // One bad page does not take the others away.
      failed ??= error;
    }
  }
  if (read === 0 && failed !== undefined) throw new Unreadable('malformed');
}

/** Returns the text of a page in pieces; of a longer one somewhat more than `room`, in UTF-16 units. */
async function pageText(page: PDFPageProxy, room: number): Promise<readonly string[]> {
  const pieces: string[] = [];
  let length = 0;
  // As a stream, because a page may hold millions of short texts, each an object with its place. It is read to its
  // end: pdf.js throws astray when a stream is cancelled.
  for await (const { items } of page.streamTextContent()) {
    for (const item of items) {
      if (length > room || !('str' in item)) continue;
      const piece = item.hasEOL ? `${item.str}\n` : item.str;
      if (piece === '') continue;
      pieces.push(piece);
      length += piece.length;
    }
  }
  return pieces;
}

async function opened<T>(opening: Promise<T>): Promise<T> {
  try {
    return await opening;
  } catch (error) {
    if (error instanceof Unreadable) throw error;
    const encrypted = error instanceof Error && error.name === 'PasswordException';
    throw new Unreadable(encrypted ? 'encrypted' : 'malformed');
  }
}
