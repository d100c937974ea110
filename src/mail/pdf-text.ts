import type { PDFDocumentProxy, PDFPageProxy } from 'unpdf/pdfjs';
import type { AttachmentLimits } from './attachment-text.ts';
import { type TextSink, Unreadable } from './document-text.ts';

let current: Bound | null = null;
let isInstalled = false;

/**
 * Limits the work that pdf.js does on the next document in this thread: unpacked bytes of a page's streams, size of
 * each buffer, forms drawn, codes mapped. pdf.js has no such settings. It collects all streams of a page before the
 * first operator, creates a set per drawn form, and calls `String.fromCharCode` for each code in a range. These
 * constructors and this function are therefore replaced in the thread, which then reads one document at a time. Buffers
 * double in size, so `pageBytes` should be a power of two.
 */
function boundWork(limits: PageLimits): Bound {
  install();
  current = new Bound(limits);
  return current;
}

type PageLimits = Pick<AttachmentLimits, 'pages' | 'pageBytes' | 'pageForms' | 'pageCodes'>;

class Bound {
  #unpacked = 0;
  #forms = 0;
  #codes = 0;
  #passed = false;
  readonly #breach: Promise<never>;
  #fail: (reason: Unreadable) => void = () => undefined;

  constructor(private readonly limits: PageLimits) {
    this.#breach = new Promise((_, reject) => {
      this.#fail = reject;
    });
    // There is no listener between pages.
    this.#breach.catch(() => undefined);
  }

  get passed(): boolean {
    return this.#passed;
  }

  nextPage(): void {
    this.#unpacked = 0;
    this.#forms = 0;
    this.#codes = 0;
  }

  /**
   * Awaits `work` until a limit is exceeded. After that, pdf.js receives nothing more and may wait for ever, so the
   * thread is unusable.
   *
   * @throws Unreadable `bomb` once a limit is exceeded; errors from `work`
   */
  async within<T>(work: Promise<T>): Promise<T> {
    let result: T;
    try {
      result = await Promise.race([work, this.#breach]);
    } catch (error) {
      throw this.#passed ? new Unreadable('bomb') : error;
    }
    // pdf.js may have continued after its buffer was refused.
    if (this.#passed) throw new Unreadable('bomb');
    return result;
  }

  /** Lifts the limits unless one was exceeded, since pdf.js may then still be running. */
  lift(): void {
    if (current === this && !this.#passed) current = null;
  }

  /** Counts unpacked bytes. Returns false once there are too many. */
  unpack(bytes: number): boolean {
    this.#unpacked += bytes;
    if (this.#unpacked > this.limits.pageBytes) this.#pass();
    return !this.#passed;
  }

  /** @throws Unreadable `bomb` */
  draw(): void {
    if (++this.#forms > this.limits.pageForms) this.#refuse();
  }

  /** @throws Unreadable `bomb`, but not for every later code: pdf.js continues after an error and needs some codes */
  map(): void {
    if (++this.#codes <= this.limits.pageCodes) return;
    this.#codes = 0;
    this.#refuse();
  }

  /** @throws Unreadable `bomb` */
  allocate(bytes: number): void {
    if (bytes > this.limits.pageBytes) this.#refuse();
  }

  #refuse(): never {
    this.#pass();
    throw new Unreadable('bomb');
  }

  #pass(): void {
    this.#passed = true;
    this.#fail(new Unreadable('bomb'));
  }
}

function install(): void {
  if (isInstalled) return;
  isInstalled = true;
  // Content, fonts and character maps, which the platform inflates.
  globalThis.DecompressionStream = new Proxy(DecompressionStream, {
    construct(target, [format]: ConstructorParameters<typeof DecompressionStream>) {
      const stream = new target(format);
      const bound = current;
      return bound === null ? stream : countBytes(stream, bound);
    },
  });
  // All other decoders double one buffer until their stream fits.
  const limitedArray: Uint8ArrayConstructor = new Proxy(Uint8Array, {
    construct(target, args: unknown[], newTarget) {
      const [length] = args;
      if (typeof length === 'number') current?.allocate(length);
      return Reflect.construct(target, args, newTarget === limitedArray ? target : newTarget);
    },
  });
  globalThis.Uint8Array = limitedArray;
  globalThis.Set = new Proxy(Set, {
    construct(target, args: ConstructorParameters<SetConstructor>, newTarget) {
      current?.draw();
      return Reflect.construct(target, args, newTarget);
    },
  });
  const { fromCharCode } = String;
  String.fromCharCode = (...codes) => {
    current?.map();
    return fromCharCode(...codes);
  };
}

function countBytes(
  { readable, writable }: DecompressionStream,
  bound: Bound,
): Pick<DecompressionStream, 'readable' | 'writable'> {
  const counter = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      // After an error, pdf.js would inflate the stream again itself.
      if (!bound.unpack(chunk.byteLength)) return new Promise<void>(() => undefined);
      controller.enqueue(chunk);
      return undefined;
    },
  });
  return { readable: readable.pipeThrough(counter), writable };
}

/** Loads megabytes of code, so call it only for PDF attachments. */
export async function loadPdfJs() {
  const unpdf = await import('unpdf');
  await unpdf.getResolvedPDFJS();
  return unpdf;
}

/**
 * Adds a PDF's text page by page. Renders no fonts or images, and cannot run scripts.
 *
 * @throws Unreadable `bomb` (the thread is then unusable), `encrypted`, `malformed`
 */
export async function pdfText(
  bytes: Uint8Array,
  into: TextSink,
  limits: PageLimits,
): Promise<void> {
  const { getDocumentProxy } = await loadPdfJs();
  const bound = boundWork(limits);
  try {
    const pdf = await openPdf(
      bound.within(
        // The parser transfers the buffer.
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
      // This never settles if pdf.js is waiting for a blocked stream.
      if (!bound.passed) await pdf.loadingTask.destroy();
    }
  } finally {
    bound.lift();
  }
}

/** @throws Unreadable `bomb`, or `malformed` if no page can be read */
async function addPages(
  pdf: PDFDocumentProxy,
  into: TextSink,
  pages: number,
  bound: Bound,
): Promise<void> {
  let failed: unknown;
  let count = 0;
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
      count++;
    } catch (error) {
      if (error instanceof Unreadable) throw error;
      failed ??= error;
    }
  }
  if (count === 0 && failed !== undefined) throw new Unreadable('malformed');
}

/** Returns a page's text in pieces, stopping soon after `room` UTF-16 units. */
async function pageText(page: PDFPageProxy, room: number): Promise<readonly string[]> {
  const pieces: string[] = [];
  let length = 0;
  // Stream the text, because a page may have millions of short items, each an object with its position. Read to the
  // end, because pdf.js throws unhandled errors if a stream is cancelled.
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

async function openPdf<T>(opening: Promise<T>): Promise<T> {
  try {
    return await opening;
  } catch (error) {
    if (error instanceof Unreadable) throw error;
    const encrypted = error instanceof Error && error.name === 'PasswordException';
    throw new Unreadable(encrypted ? 'encrypted' : 'malformed');
  }
}
