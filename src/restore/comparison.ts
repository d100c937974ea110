import { piecesOf, type SentForm } from './content.ts';
import type { Alteration } from './fit-message.ts';

const CR = 0x0d;

/**
 * Compares a message that a server has with what was sent, piece by piece, and finds out what the server changed: only
 * changes that servers are known to make count as the same message.
 */
class Comparison {
  readonly #found = new Set<Alteration>();
  /** Bytes of what was sent that were compared. */
  #at = 0;

  /** @param header bytes of the header of what was sent */
  constructor(private readonly header: number) {}

  /**
   * Compares as far as both sides go.
   *
   * @param sent bytes that follow those compared before; empty only at the end
   * @param there the server's, likewise
   * @returns how many bytes of each were compared; undefined where the messages differ
   */
  step(sent: Buffer, there: Buffer): { readonly sent: number; readonly there: number } | undefined {
    const shared = Math.min(sent.length, there.length);
    if (shared > 0 && sent.compare(there, 0, shared, 0, shared) === 0) {
      this.#at += shared;
      return { sent: shared, there: shared };
    }
    let [i, at] = [0, 0];
    const isOpen = (): boolean =>
      shared === 0 ? i < sent.length || at < there.length : i < sent.length && at < there.length;
    while (isOpen()) {
      const [ours, theirs] = [sent[i], there[at]];
      if (ours === theirs) {
        i += 1;
        at += 1;
      } else if (ours === CR || theirs === CR) {
        // Dovecot keeps lines with LF alone and makes CR LF of a CR CR LF.
        this.#found.add('carriage-returns');
        if (ours === CR) i += 1;
        else at += 1;
      } else if (ours === undefined || theirs === undefined) return undefined;
      else {
        if (ours === 0) this.#found.add('nul');
        else if (ours > 127 && this.#at + i < this.header) this.#found.add('header-bytes');
        else return undefined;
        i += 1;
        at += 1;
      }
    }
    this.#at += i;
    return { sent: i, there: at };
  }

  /** What the server changed. */
  changes(): readonly Alteration[] {
    return [...this.#found];
  }
}

/**
 * Returns what servers are known to change in messages that they store, as far as that explains how a message differs
 * from what was sent; undefined where something else differs.
 */
export async function changesIn(
  { header, content }: Pick<SentForm, 'header' | 'content'>,
  there: Iterable<Buffer> | AsyncIterable<Buffer>,
): Promise<readonly Alteration[] | undefined> {
  const comparison = new Comparison(header);
  const sides = { sent: new Side(piecesOf(content)), there: new Side(there) };
  try {
    for (;;) {
      const [ours, theirs] = [await sides.sent.rest(), await sides.there.rest()];
      if (ours.length === 0 && theirs.length === 0) return comparison.changes();
      const done = comparison.step(ours, theirs);
      if (done === undefined) return undefined;
      sides.sent.skip(done.sent);
      sides.there.skip(done.there);
    }
  } finally {
    await sides.sent.close();
    await sides.there.close();
  }
}

/** One side of a comparison. */
class Side {
  readonly #pieces: Iterator<Buffer> | AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(pieces: Iterable<Buffer> | AsyncIterable<Buffer>) {
    this.#pieces =
      Symbol.asyncIterator in pieces ? pieces[Symbol.asyncIterator]() : pieces[Symbol.iterator]();
  }

  /** Returns bytes that were not skipped; none at the end. */
  async rest(): Promise<Buffer> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#pieces.next();
      if (done === true) break;
      this.#rest = value;
    }
    return this.#rest;
  }

  skip(bytes: number): void {
    this.#rest = this.#rest.subarray(bytes);
  }

  async close(): Promise<void> {
    await this.#pieces.return?.();
  }
}
