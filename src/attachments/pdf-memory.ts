import { Unreadable } from './text-sink.ts';

/** Holds what pdf.js unpacks of one document within a bound. */
export interface UnpackingBound {
  /** True when the document was refused more. */
  readonly passed: boolean;
  /** Starts the next page: what earlier pages unpacked counts no longer. */
  nextPage(): void;
  /**
   * Resolves with what `work` resolves with. Once the bound is passed, pdf.js gets nothing more and may wait for ever:
   * the thread is then of no further use.
   *
   * @throws Unreadable `bomb`, once the bound is passed; what `work` throws
   */
  within<T>(work: Promise<T>): Promise<T>;
  /** Lifts the bound, unless it was passed: pdf.js may still be at work then. */
  lift(): void;
}

let current: Bound | null = null;
let installed = false;

/**
 * Bounds what pdf.js unpacks of the document that is read next in this thread: the streams of one page together, and
 * each of its buffers. pdf.js has no setting for this. It gathers each stream as a whole before it reads the first
 * operator, and all streams of a page at once; the constructors it calls for that are therefore replaced in this thread.
 * Only one document at a time.
 *
 * @param bytes decoded bytes; buffers double in size, so a power of two is used best
 */
export function boundUnpacking(bytes: number): UnpackingBound {
  install();
  current = new Bound(bytes);
  return current;
}

class Bound implements UnpackingBound {
  #unpacked = 0;
  #passed = false;
  readonly #breach: Promise<never>;
  #fail: (reason: Unreadable) => void = () => undefined;

  constructor(private readonly most: number) {
    this.#breach = new Promise((_, reject) => {
      this.#fail = reject;
    });
    // Between two pages nobody waits for it.
    this.#breach.catch(() => undefined);
  }

  get passed(): boolean {
    return this.#passed;
  }

  nextPage(): void {
    this.#unpacked = 0;
  }

  async within<T>(work: Promise<T>): Promise<T> {
    let result: T;
    try {
      result = await Promise.race([work, this.#breach]);
    } catch (error) {
      throw this.#passed ? new Unreadable('bomb') : error;
    }
    // pdf.js may have read on without a buffer that it was refused.
    if (this.#passed) throw new Unreadable('bomb');
    return result;
  }

  lift(): void {
    if (current === this && !this.#passed) current = null;
  }

  /** Returns whether a stream may hand out so many more bytes. */
  unpack(bytes: number): boolean {
    this.#unpacked += bytes;
    if (this.#unpacked > this.most) this.#pass();
    return !this.#passed;
  }

  /** @throws Unreadable `bomb` */
  allocate(bytes: number): void {
    if (bytes <= this.most) return;
    this.#pass();
    throw new Unreadable('bomb');
  }

  #pass(): void {
    this.#passed = true;
    this.#fail(new Unreadable('bomb'));
  }
}

function install(): void {
  if (installed) return;
  installed = true;
  // Streams that are inflated by the platform: content, fonts, character maps.
  globalThis.DecompressionStream = new Proxy(DecompressionStream, {
    construct(target, [format]: ConstructorParameters<typeof DecompressionStream>) {
      const stream = new target(format);
      const bound = current;
      return bound === null ? stream : counted(stream, bound);
    },
  });
  // Every other decoder doubles one buffer until its stream fits in.
  const bounded: Uint8ArrayConstructor = new Proxy(Uint8Array, {
    construct(target, args: unknown[], newTarget) {
      const [length] = args;
      if (typeof length === 'number') current?.allocate(length);
      return Reflect.construct(target, args, newTarget === bounded ? target : newTarget);
    },
  });
  globalThis.Uint8Array = bounded;
}

function counted(
  { readable, writable }: DecompressionStream,
  bound: Bound,
): Pick<DecompressionStream, 'readable' | 'writable'> {
  const counter = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      // An error would make pdf.js inflate the stream again, by itself.
      if (!bound.unpack(chunk.byteLength)) return new Promise<void>(() => undefined);
      controller.enqueue(chunk);
      return undefined;
    },
  });
  return { readable: readable.pipeThrough(counter), writable };
}
