import type { Locator, Position } from '../archive/format/records.ts';
import type { ComparedBatch } from '../catalog/fold/batch.ts';

/** Where bytes are that the fold does not know yet. */
export class Beyond {
  readonly #blobs = new Map<string, Position>();
  readonly #messages = new Map<string, Position>();

  note({ records }: ComparedBatch): void {
    for (const record of records) {
      if (record.kind === 'blob') this.#blobs.set(record.hash, record.position);
      else if (record.kind === 'message') this.#messages.set(record.id, record.position);
    }
  }

  has(kind: 'message' | 'blob', hash: string): boolean {
    return (kind === 'message' ? this.#messages : this.#blobs).has(hash);
  }

  over(locator: Locator): Locator {
    return {
      blob: (hash) => this.#blobs.get(hash) ?? locator.blob(hash),
      message: (id) => this.#messages.get(id) ?? locator.message(id),
    };
  }
}
