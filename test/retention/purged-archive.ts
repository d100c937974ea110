import { hash } from 'node:crypto';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Batch } from '../../src/archive/batch.ts';
import type { Fact } from '../../src/archive/format.ts';
import { openLogReader, scanLog } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { endPurge } from '../../src/archive/purge-journal.ts';
import { sealerInProcess, sealSegment } from '../../src/archive/seal.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import type { Place } from '../../src/core/types.ts';
import { findPurgedRecords, type PurgeSearch } from '../../src/verify/find-purged.ts';
import {
  compactPurged,
  journalPurge,
  type PurgedFact,
  pendingPurge,
  removeSetAsideFiles,
} from '../../src/verify/prune.ts';
import { mailWithAttachment, noise } from '../archive/generated-mail.ts';
import { SimulatedDisk } from '../archive/simulated-disk.ts';
import { listing } from '../catalog/history.ts';

const START = Date.UTC(2026, 1, 3);
const MAILBOX = { host: 'mail.example.org', mailbox: 'm1' };
export const signal = new AbortController().signal;

export const idOf = (raw: Buffer): string => hash('sha256', raw);
export const at = (folder: string, uid: number): Place => ({
  ...MAILBOX,
  folder,
  generation: 1,
  uid,
});

/** A letter with a word in its subject, body and sender that stands nowhere else. */
export function letter(word: string): Buffer {
  return Buffer.from(
    `From: ${word}from@example.org\r\nSubject: ${word}subject\r\n\r\n${word}body\r\n`,
  );
}

export const SHARED = noise(290_000, 3);
export const MAIL = {
  plain: letter('plain'),
  gone: letter('gone'),
  large: mailWithAttachment(noise(280_000, 1)),
  // Two messages with one attachment, in other words.
  shares: Buffer.concat([Buffer.from('X-First: yes\r\n'), mailWithAttachment(SHARED)]),
  sharesToo: Buffer.concat([Buffer.from('X-Second: yes\r\n'), mailWithAttachment(SHARED)]),
  moved: letter('moved'),
  late: letter('late'),
  stays: letter('stays'),
  replaced: letter('replaced'),
  replacing: letter('replacing'),
} as const;

export const GOING = ['gone', 'large', 'shares', 'moved', 'late', 'replaced'] as const;
export const STAYING = ['plain', 'sharesToo', 'stays', 'replacing'] as const;

export const FACTS: readonly PurgedFact[] = [
  { fact: 'purged', message: idOf(MAIL.gone), reason: 'forgotten', ended: [at('INBOX', 2)] },
  { fact: 'purged', message: idOf(MAIL.large), reason: 'forgotten', ended: [at('INBOX', 3)] },
  { fact: 'purged', message: idOf(MAIL.shares), reason: 'forgotten', places: [at('INBOX', 4)] },
  {
    fact: 'purged',
    message: idOf(MAIL.moved),
    reason: 'forgotten',
    ended: [at('New', 1), at('INBOX', 6)],
  },
  { fact: 'purged', message: idOf(MAIL.late), reason: 'forgotten', places: [at('INBOX', 20)] },
  { fact: 'purged', message: idOf(MAIL.replaced), reason: 'forgotten', ended: [at('INBOX', 8)] },
];

/** What a machine has after mail, renames, quarantine and replacement in three segments: only the middle one is plain. */
export class PurgedArchive {
  readonly dir = mkdtempSync(join(tmpdir(), 'mailkeep-retention-'));
  #files = new Map<string, Buffer>();

  static async create(): Promise<PurgedArchive> {
    const archive = new PurgedArchive();
    await archive.#write();
    return archive;
  }

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** The machine as it was, on a disk of its own. */
  fresh(): SimulatedDisk {
    const disk = new SimulatedDisk();
    for (const [path, bytes] of this.#files) disk.put(path, bytes);
    for (const suffix of ['-wal', '-shm'])
      rmSync(`${catalogFile(this.dir)}${suffix}`, { force: true });
    copyFileSync(join(this.dir, 'base.sqlite'), catalogFile(this.dir));
    return disk;
  }

  /** Opens the archive as every writer does, purges unless that was decided before, and finishes. */
  async purge(disk: SimulatedDisk): Promise<PurgeSearch | undefined> {
    const { files } = disk;
    const { dir } = this;
    const catalog = await openCatalog(dir);
    try {
      const log = await openLogWriter({
        dir,
        files,
        now: () => START + 1e9,
        expected: catalog.reached(),
      });
      try {
        await this.#catchUp(disk, catalog);
        let work = await pendingPurge(files, dir);
        let purgeSearch: PurgeSearch | undefined;
        if (work === undefined && !catalog.messages.isForgotten(idOf(MAIL.gone))) {
          const messages = new Set(FACTS.map(({ message }) => message));
          const wanted = { messages, quarantined: new Map() };
          purgeSearch = await findPurgedRecords(files, dir, wanted, signal);
          catalog.foldBatch(await journalPurge(files, dir, log, FACTS, purgeSearch));
          work = await pendingPurge(files, dir);
        }
        if (work === undefined) return purgeSearch;
        await compactPurged(
          files,
          dir,
          { log, catalog, codec: 'zstd', sealer: sealerInProcess(files) },
          work,
          signal,
        );
        await removeSetAsideFiles(files, dir);
        await endPurge(files, dir);
        return purgeSearch;
      } finally {
        await log.close().catch(() => undefined);
      }
    } finally {
      catalog.close();
    }
  }

  /** What the catalog finds in the log now. */
  async sources(disk: SimulatedDisk) {
    const catalog = await openCatalog(this.dir);
    const reader = openLogReader({ dir: this.dir, files: disk.files, locator: catalog.locator });
    const read = (name: keyof typeof MAIL): Buffer => reader.readMessage(idOf(MAIL[name]));
    const staying = STAYING.map((name) => read(name).equals(MAIL[name]));
    const forgotten = GOING.map((name) => catalog.messages.find(idOf(MAIL[name])));
    reader.close();
    catalog.close();
    return { staying, forgotten };
  }

  async #catchUp(disk: SimulatedDisk, catalog: WritableCatalog): Promise<void> {
    const { number, hash: reached } = catalog.reached();
    for await (const event of scanLog({
      dir: this.dir,
      files: disk.files,
      after: { number, hash: reached },
    })) {
      if (event.what === 'damage') throw new Error(`damage: ${JSON.stringify(event.damage)}`);
      if (event.what === 'batch') catalog.foldBatch(event.batch);
    }
  }

  async #write(): Promise<void> {
    const { dir } = this;
    const disk = new SimulatedDisk();
    const { files } = disk;
    const catalog = await openCatalog(dir);
    const writer = await openLogWriter({ dir, files, now: () => START });
    const commit = async (fill: (batch: Batch) => void): Promise<void> => {
      const batch = writer.newBatch();
      fill(batch);
      catalog.foldBatch(await writer.commit(batch));
    };
    const folder = (path: string): Fact => ({
      fact: 'folder',
      ...MAILBOX,
      folder: path,
      name: path,
      delimiter: '.',
      specialUse: null,
      generation: 1,
    });
    const listed = (uid: number, raw: Buffer) => {
      const subject = /Subject: (.*)\r/.exec(raw.toString('latin1'))?.[1] ?? null;
      return listing(uid, { size: raw.length, subject });
    };
    const store = (batch: Batch, path: string, uid: number, raw: Buffer): void => {
      const known = catalog.messages.find(idOf(raw));
      if (known === undefined)
        batch.addSource(raw, idOf(raw), (blob) => catalog.messages.hasBlob(blob));
      batch.addFact({
        fact: 'appeared',
        ...at(path, uid),
        listing: listed(uid, raw),
        docid: known?.docid ?? catalog.docidFor((Math.floor(START / 1000) + uid) * 64),
        message: idOf(raw),
        size: raw.length,
      });
    };
    await commit((batch) => {
      batch.addFact({ fact: 'mailbox', ...MAILBOX, address: 'ada@example.org' });
      batch.addFact(folder('INBOX'));
      batch.addFact(folder('Old'));
      store(batch, 'INBOX', 1, MAIL.plain);
      store(batch, 'INBOX', 2, MAIL.gone);
      store(batch, 'INBOX', 3, MAIL.large);
    });
    await commit((batch) => {
      store(batch, 'INBOX', 4, MAIL.shares);
      store(batch, 'Old', 1, MAIL.moved);
      batch.addFact({
        fact: 'quarantined',
        ...at('INBOX', 20),
        listing: listed(20, MAIL.late),
        reason: 'short',
        detail: 'cut off',
        kept: batch.addBlob(MAIL.late.subarray(0, 60)),
      });
    });
    await writer.rollIfLarger(0);
    await sealSegment({ dir, segment: 1, files });
    disk.delete(`${dir}/log/0000000001.1.seg`);
    await commit((batch) => {
      store(batch, 'INBOX', 5, MAIL.sharesToo);
      batch.addFact({ fact: 'flags', ...at('INBOX', 2), flags: ['\\Seen'] });
      batch.addFact({ fact: 'folder-renamed', ...MAILBOX, folder: 'Old', to: 'New' });
      batch.addFact(folder('Old'));
      store(batch, 'Old', 1, MAIL.stays);
      store(batch, 'INBOX', 8, MAIL.replaced);
    });
    await commit((batch) => {
      batch.addFact({ fact: 'ended', ...at('INBOX', 2), reason: 'deleted' });
      batch.addFact({ fact: 'released', ...at('INBOX', 20), reason: 'stored' });
      store(batch, 'INBOX', 20, MAIL.late);
      store(batch, 'INBOX', 6, MAIL.moved);
      store(batch, 'INBOX', 8, MAIL.replacing);
    });
    await writer.rollIfLarger(0);
    await commit((batch) => {
      batch.addFact({ fact: 'ended', ...at('INBOX', 3), reason: 'deleted' });
      batch.addFact({ fact: 'ended', ...at('INBOX', 6), reason: 'deleted' });
      batch.addFact({ fact: 'held', ...at('New', 1), held: true });
      batch.addFact({ fact: 'flags', ...at('INBOX', 8), flags: ['\\Flagged'] });
    });
    await commit((batch) => {
      batch.addFact({ fact: 'ended', ...at('New', 1), reason: 'deleted' });
      batch.addFact({ fact: 'flags', ...at('Old', 1), flags: ['\\Seen'] });
    });
    await writer.close();
    catalog.checkpoint();
    catalog.close();
    copyFileSync(catalogFile(dir), join(dir, 'base.sqlite'));
    disk.put(`${dir}/log/tail-1.bin`, MAIL.gone);
    for (const path of disk.paths()) this.#files.set(path, disk.read(path));
  }
}
