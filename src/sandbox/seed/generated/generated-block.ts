import type { SourceBlock } from '../../store/source-block.ts';
import { writeMessage } from './message.ts';
import { type MailSeed, planAt, receivedAt } from './plan.ts';

/** Generated mail, generated again for each read: a million messages take no more room than their sizes. */
export class GeneratedBlock implements SourceBlock {
  readonly #mail: MailSeed;
  /** 0 until the message was written once. */
  readonly #sizes: Uint32Array;

  constructor(mail: MailSeed) {
    this.#mail = mail;
    this.#sizes = new Uint32Array(mail.count);
  }

  get count(): number {
    return this.#mail.count;
  }

  size(number: number): number {
    const known = this.#sizes[number] ?? 0;
    return known > 0 ? known : this.read(number).length;
  }

  read(number: number): Buffer {
    const source = writeMessage(this.#mail, number);
    this.#sizes[number] = source.length;
    return source;
  }

  received(number: number): number {
    return receivedAt(this.#mail, number);
  }

  file(): null {
    return null;
  }

  /** Folder path and flags of a message. */
  place(number: number): { readonly folder: string; readonly flags: readonly string[] } {
    return planAt(this.#mail, number);
  }
}
