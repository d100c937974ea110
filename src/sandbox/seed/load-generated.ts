import type { SourceBlock } from '../store/backend.ts';
import type { Mailbox } from '../store/mailbox.ts';
import type { Store } from '../store/store.ts';
import { writeMessage } from './generated/message.ts';
import { type MailSeed, planAt, receivedAt } from './generated/plan.ts';

/** Generated mail, generated again for each read: a million messages take no more room than their sizes. */
export class GeneratedBlock implements SourceBlock {
  /** 0 until the message was written once. */
  readonly #sizes: Uint32Array;

  constructor(private readonly mail: MailSeed) {
    this.#sizes = new Uint32Array(mail.count);
  }

  get count(): number {
    return this.mail.count;
  }

  size(number: number): number {
    const known = this.#sizes[number] ?? 0;
    return known > 0 ? known : this.read(number).length;
  }

  read(number: number): Buffer {
    const source = writeMessage(this.mail, number);
    this.#sizes[number] = source.length;
    return source;
  }

  received(number: number): number {
    return receivedAt(this.mail, number);
  }

  file(): null {
    return null;
  }

  /** Folder path and flags of a message. */
  place(number: number): { readonly folder: string; readonly flags: readonly string[] } {
    return planAt(this.mail, number);
  }
}

export interface GeneratedMail {
  /** Messages in all mailboxes together. */
  readonly messages?: number;
  /** Received date of the newest message; a fixed day where it is left out, so that everything is reproducible. */
  readonly newest?: number;
}

const DEFAULT_MESSAGES = 1000;
const DEFAULT_NEWEST = Date.UTC(2026, 0, 5, 9, 30);

/** Fills mailboxes with generated mail, the first one with twice as much as each of the others. */
export function loadGenerated(
  store: Store,
  mailboxes: readonly Mailbox[],
  seed: number,
  { messages = DEFAULT_MESSAGES, newest = DEFAULT_NEWEST }: GeneratedMail,
): void {
  let left = messages;
  mailboxes.forEach((mailbox, ordinal) => {
    const isLast = ordinal === mailboxes.length - 1;
    const share = Math.ceil((messages * (ordinal === 0 ? 2 : 1)) / (mailboxes.length + 1));
    const count = isLast ? left : Math.min(left, share);
    left -= count;
    const block = new GeneratedBlock({
      seed: seed * 1009 + ordinal,
      documentSeed: seed,
      count,
      owner: mailbox.address,
      newest,
    });
    store.place(block, placements(store, mailbox, block));
  });
}

function* placements(store: Store, mailbox: Mailbox, block: GeneratedBlock) {
  for (let number = 0; number < block.count; number += 1) {
    const { folder, flags } = block.place(number);
    yield { folder: store.folderWithParents(mailbox, folder), number, flags };
  }
}
