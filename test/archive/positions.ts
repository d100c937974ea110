import type { CommittedBatch, Locator, Position } from '../../src/archive/format.ts';

/** The part of a catalog that reading needs, folded from batches. */
export class Positions implements Locator {
  readonly blobs = new Map<string, Position>();
  readonly messages = new Map<string, Position>();
  readonly batches: CommittedBatch[] = [];

  fold(batch: CommittedBatch): CommittedBatch {
    this.batches.push(batch);
    for (const record of batch.records) {
      if (record.kind === 'blob') this.blobs.set(record.hash, record.position);
      if (record.kind === 'message') this.messages.set(record.id, record.position);
    }
    return batch;
  }

  /** The commit reached, as a catalog would hand it to the writer. */
  get reached() {
    return this.batches.at(-1)?.commit;
  }

  blob(name: string): Position | undefined {
    return this.blobs.get(name);
  }

  message(id: string): Position | undefined {
    return this.messages.get(id);
  }
}
