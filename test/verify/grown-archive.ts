import { hash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Batch } from '../../src/archive/batch.ts';
import { realFiles } from '../../src/archive/file-system.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { dropOldGenerations, sealClosedSegments } from '../../src/archive/seal.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { type VerifyOptions, verifyArchive } from '../../src/verify/verify-archive.ts';
import { Positions } from '../archive/positions.ts';
import { fill, place } from '../archive/sample-log.ts';
import { checkerInProcess } from './checker-in-process.ts';

export const START = Date.UTC(2026, 1, 3);

/** An archive on the real disk whose catalog grew with its log, as a sync makes it. */
export class GrownArchive {
  readonly known = new Positions();
  #uid = 1;

  constructor(readonly dir = mkdtempSync(join(tmpdir(), 'mailkeep-verify-'))) {}

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** Says of a message that was stored here that its bytes are nowhere any more, as a repair does. */
  async lose(raw: Buffer): Promise<void> {
    const id = hash('sha256', raw);
    await this.commit((batch) =>
      batch.addFact({ fact: 'missing', kind: 'message', hash: id, size: raw.length }),
    );
  }

  /** Commits and folds a batch. */
  async commit(put: (batch: Batch) => void): Promise<void> {
    const catalog = await openCatalog(this.dir);
    const writer = await openLogWriter({ dir: this.dir, now: () => START });
    const batch = writer.newBatch();
    put(batch);
    catalog.foldBatch(this.known.fold(await writer.commit(batch)));
    await writer.close();
    catalog.close();
  }

  /** Stores and folds messages, three a batch; with `seal`, the segment is closed and sealed afterwards. */
  async grow(raws: readonly Buffer[], seal: boolean): Promise<void> {
    const catalog = await openCatalog(this.dir);
    const writer = await openLogWriter({ dir: this.dir, now: () => START });
    for (let at = 0; at < raws.length; at += 3) {
      const batch = writer.newBatch();
      if (this.#uid === 1) {
        const { host, mailbox, folder, generation } = place(1);
        batch.addFact({ fact: 'mailbox', host, mailbox, address: 'ada@example.org' });
        batch.addFact({
          fact: 'folder',
          ...{ host, mailbox, folder, generation },
          name: 'INBOX',
          delimiter: '.',
          specialUse: null,
        });
      }
      const group = raws.slice(at, at + 3);
      fill(batch, group, this.known, this.#uid);
      this.#uid += group.length;
      catalog.foldBatch(this.known.fold(await writer.commit(batch)));
    }
    if (seal) {
      await writer.rollIfLarger(0);
      await sealClosedSegments({ dir: this.dir, before: writer.segment });
      await dropOldGenerations({ dir: this.dir, now: Date.now() + 1e9, keepMs: 0 });
    }
    await writer.close();
    catalog.close();
  }
}

export function verified(dir: string, options: Partial<VerifyOptions> = {}) {
  return verifyArchive({
    dir,
    checker: checkerInProcess(options.files ?? realFiles),
    full: true,
    signal: new AbortController().signal,
    ...options,
  });
}
