import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CommittedBatch, Fact, FoldedRecord } from '../../src/archive/format.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import type { FolderKey, Listing, Place } from '../../src/core/types.ts';
import type { Extraction, HashedAttachment } from '../../src/mail/extraction.ts';
import { type IndexEntry, indexEntry } from '../../src/mail/extraction.ts';

/** A folder for one test, and how to be rid of it. */
export function temporaryDir(): { readonly dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'mailkeep-catalog-'));
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) };
}

export const HOST = 'mail.example.net';
export const INBOX: FolderKey = { host: HOST, mailbox: 'AC1', folder: 'INBOX' };
/** 2024-01-01T00:00:00Z. */
export const START = Date.UTC(2024, 0, 1);

export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Batches with a chain of hashes, as the archive hands them out; bytes are not its business. */
export class History {
  readonly batches: CommittedBatch[] = [];
  #ordinal = 0;
  #time = START;
  #hash = '';

  /** Closes a batch of these facts, with a message record before the first fact about each new message. */
  commit(facts: readonly Fact[], seconds = 60): CommittedBatch {
    const records: FoldedRecord[] = [];
    for (const fact of facts) {
      if (fact.fact === 'appeared' && fact.assumedFrom === undefined)
        records.push({ kind: 'message', id: fact.message, size: fact.size, position: this.#at() });
      if (fact.fact === 'verified' && fact.corrected)
        records.push({ kind: 'message', id: fact.message, size: fact.size, position: this.#at() });
      records.push({ kind: 'fact', fact, position: this.#at() });
    }
    return this.close(records, seconds);
  }

  /** Closes a batch of any records. */
  close(records: readonly FoldedRecord[], seconds = 60): CommittedBatch {
    const previousHash = this.#hash;
    this.#time += seconds * 1000;
    this.#hash = sha256(`${previousHash} ${this.batches.length} ${JSON.stringify(records)}`);
    const batch: CommittedBatch = {
      commit: { number: this.batches.length + 1, time: this.#time, hash: this.#hash },
      previousHash,
      records,
    };
    this.batches.push(batch);
    return batch;
  }

  #at() {
    this.#ordinal += 1;
    return { segment: 1, ordinal: this.#ordinal, offset: this.#ordinal * 100 };
  }
}

/** A catalog of its own, with an INBOX of me@example.net and whatever else the facts say. */
export async function openRoom(...facts: readonly Fact[]) {
  const { dir, remove } = temporaryDir();
  const catalog = await openCatalog(dir);
  const history = new History();
  const fold = (...more: readonly Fact[]) => catalog.foldBatch(history.commit(more));
  fold(mailbox(INBOX, 'me@example.net'), folder(INBOX), ...facts);
  return {
    ...{ dir, catalog, history, fold },
    /** Indexes all messages that are due, each as `of` says; `at` counts from the newest. */
    index: (of: (message: { docid: number; id: string }, at: number) => Partial<Extraction>) =>
      catalog.index.index(
        catalog.index
          .pending({ limit: 10_000 })
          .map((message, at) => ({ docid: message.docid, entry: entry(of(message, at)) }))
          .reverse(),
      ),
    close() {
      catalog.close();
      remove();
    },
  };
}

export type Room = Awaited<ReturnType<typeof openRoom>>;

export function mailbox(key: FolderKey, address: string): Fact {
  return { fact: 'mailbox', host: key.host, mailbox: key.mailbox, address };
}

export function folder(key: FolderKey, generation = 1, specialUse: string | null = null): Fact {
  const name = key.folder.split('.').at(-1) ?? key.folder;
  return { fact: 'folder', ...key, name, delimiter: '.', specialUse, generation };
}

export function listing(uid: number, changes: Partial<Listing> = {}): Listing {
  return {
    uid,
    date: new Date(START + uid * 60_000).toISOString(),
    flags: [],
    size: 1000 + uid,
    subject: `Subject ${uid}`,
    from: { name: 'Ada', address: 'ada@example.org' },
    to: [{ name: '', address: 'me@example.net' }],
    cc: [],
    bcc: [],
    messageId: `<${uid}@example.org>`,
    inReplyTo: null,
    attachments: [],
    extra: {},
    ...changes,
  };
}

export function place(key: FolderKey, uid: number, generation = 1): Place {
  return { ...key, generation, uid };
}

/** Adds a message; its docid defaults to the first of its received second. */
export function appeared(
  at: Place,
  message: string,
  options: {
    readonly listing?: Partial<Listing>;
    readonly docid?: number;
    readonly assumedFrom?: Place;
  } = {},
): Extract<Fact, { fact: 'appeared' }> {
  const listed = listing(at.uid, options.listing);
  return {
    fact: 'appeared',
    ...at,
    listing: listed,
    docid: options.docid ?? Math.floor(Date.parse(listed.date) / 1000) * 64,
    message: sha256(message),
    size: listed.size,
    ...(options.assumedFrom === undefined ? {} : { assumedFrom: options.assumedFrom }),
  };
}

/** An attachment with text of its own, unless `changes` say otherwise. */
export function attachment(
  number: number,
  changes: Partial<HashedAttachment> = {},
): HashedAttachment {
  return {
    number,
    filename: `${number}.pdf`,
    contentType: 'application/pdf',
    size: 100 + number,
    inline: false,
    contentId: null,
    form: 'pdf',
    hash: sha256(`attachment ${number}`),
    ...changes,
  };
}

/** What the index keeps of a message with these texts. */
export function entry(changes: Partial<Extraction> = {}): IndexEntry {
  return indexEntry({
    status: 'parsed',
    reason: null,
    subject: '',
    from: '',
    to: '',
    cc: '',
    bcc: '',
    deliveredTo: '',
    body: '',
    attachments: [],
    listId: null,
    messageId: null,
    references: [],
    senders: [],
    recipients: [],
    truncated: false,
    ...changes,
  });
}
