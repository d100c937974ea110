import { cutText, withoutNul } from '../mime/charsets.ts';
import type { AttachmentFailure } from './attachment-text.ts';

/** Thrown while an attachment is read, where it turns out to be one that cannot be. */
export class Unreadable extends Error {
  override readonly name = 'Unreadable';

  constructor(readonly reason: AttachmentFailure) {
    super(reason);
  }
}

/** Gathers text up to a ceiling. */
export class TextSink {
  readonly #pieces: string[] = [];
  #length = 0;
  #overflowed = false;

  constructor(private readonly max: number) {}

  /** True when nothing more is taken: reading on is of no use. */
  get full(): boolean {
    return this.#length >= this.max;
  }

  get room(): number {
    return this.max - this.#length;
  }

  add(text: string): void {
    if (text === '') return;
    if (text.length > this.room) this.#overflowed = true;
    if (this.full) return;
    const kept = cutText(text, this.room);
    this.#pieces.push(kept);
    // A surrogate pair that would be cut leaves room for half of it, which nothing fills.
    this.#length = kept.length < text.length ? this.max : this.#length + kept.length;
  }

  /** The text was known to go on. */
  cut(): void {
    this.#overflowed = true;
  }

  result(): { readonly text: string; readonly truncated: boolean } {
    const text = withoutNul(this.#pieces.join(''))
      .split('\n')
      .map(withoutTrailingBlanks)
      .join('\n')
      .replace(/\n{3,}/g, '\n\n')
      .trim();
    return { text, truncated: this.#overflowed };
  }
}

/** A line without the blanks at its end; an expression for them would try again from each of those within. */
function withoutTrailingBlanks(line: string): string {
  let end = line.length;
  while (end > 0 && ' \t\u00a0'.includes(line.charAt(end - 1))) end--;
  return line.slice(0, end);
}
