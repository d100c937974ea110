import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { Batch } from '../../src/archive/batch.ts';
import type { CommittedBatch } from '../../src/archive/format.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import type { FolderKey, Listing } from '../../src/core/types.ts';
import { docidBase } from '../../src/mail/docid.ts';

const INBOX: FolderKey = { host: 'mail.example.net', mailbox: 'AC1', folder: 'INBOX' };
const START = Date.UTC(2024, 0, 1);

function listing(uid: number, size: number): Listing {
  return {
    uid,
    date: new Date(START + uid * 60_000).toISOString(),
    flags: [],
    size,
    subject: `Listed ${uid}`,
    from: null,
    to: [],
    cc: [],
    bcc: [],
    messageId: null,
    inReplyTo: null,
    attachments: [],
    extra: {},
  };
}

/** A mailbox written to a real log, one message a uid, in batches of ten. */
export class StoredMail {
  readonly ids: string[] = [];
  readonly #docids: number[] = [];

  constructor(
    readonly dir = mkdtempSync(join(tmpdir(), 'mailkeep-indexer-')),
    /** What the listings of all messages say. */
    private readonly listed: Partial<Listing> = {},
  ) {}

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** Appends these sources without updating the catalog. */
  async store(sources: readonly Buffer[]): Promise<CommittedBatch[]> {
    const writer = await openLogWriter({ dir: this.dir, now: () => START });
    const committed: CommittedBatch[] = [];
    let batch = writer.newBatch();
    if (this.ids.length === 0) {
      const { host, mailbox } = INBOX;
      batch.addFact({ fact: 'mailbox', host, mailbox, address: 'a@example.net' });
      batch.addFact({
        fact: 'folder',
        ...INBOX,
        name: 'INBOX',
        delimiter: '.',
        specialUse: null,
        generation: 1,
      });
    }
    for (const raw of sources) {
      const uid = this.ids.length + 1;
      const id = createHash('sha256').update(raw).digest('hex');
      const listed = { ...listing(uid, raw.length), ...this.listed };
      const docid = docidBase(listed.date, START + 10 * 365 * 86_400_000);
      batch.addSource(raw, id);
      batch.addFact({
        fact: 'appeared',
        ...INBOX,
        generation: 1,
        uid,
        listing: listed,
        docid,
        message: id,
        size: raw.length,
      });
      this.ids.push(id);
      this.#docids.push(docid);
      if (batch.messages === 10) {
        committed.push(await writer.commit(batch));
        batch = writer.newBatch();
      }
    }
    if (batch.records > 0) committed.push(await writer.commit(batch));
    await writer.close();
    return committed;
  }

  /** Appends one batch of what is given. */
  async append(fill: (batch: Batch) => void): Promise<void> {
    const writer = await openLogWriter({ dir: this.dir, now: () => START });
    const batch = writer.newBatch();
    fill(batch);
    await writer.commit(batch);
    await writer.close();
  }

  /** The uids whose terms match, read from the database as it lies there. */
  found(match: string): number[] {
    const db = new Database(catalogFile(this.dir), { readonly: true });
    try {
      return db
        .prepare<[string], { rowid: number }>(
          'SELECT rowid FROM msg_fts WHERE msg_fts MATCH ? ORDER BY rowid',
        )
        .all(match)
        .map(({ rowid }) => this.#docids.indexOf(rowid) + 1);
    } finally {
      db.close();
    }
  }
}

/** A message whose only number word is its own. */
export function letter(n: number): Buffer {
  return Buffer.from(
    `Subject: letter number${n}\r\nFrom: writer@example.org\r\n\r\ncommon words unique${n}\r\n`,
  );
}
