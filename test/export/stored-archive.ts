import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Fact } from '../../src/archive/format.ts';
import { type LogReader, openLogReader } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { flagSet } from '../../src/core/types.ts';
import { docidBase } from '../../src/mail/docid.ts';
import { writeMessage } from '../../src/sandbox/generated-mail.ts';
import type { ExportOptions } from '../../src/transfer/plan-export.ts';

export const START = Date.UTC(2025, 5, 1);

/** A message at a place, as a sync would have stored it. */
export interface Letter {
  readonly folder: string;
  readonly source: Buffer;
  readonly uid?: number;
  readonly flags?: readonly string[];
  readonly date?: string;
  readonly subject?: string | null;
  readonly from?: { readonly name: string; readonly address: string } | null;
  readonly generation?: number;
  readonly messageId?: string;
}

type InMailbox<F> = F extends { readonly mailbox: string } ? Omit<F, 'host' | 'mailbox'> : never;
/** A fact without the mailbox it is about. */
type MailboxFact = InMailbox<Extract<Fact, { fact: 'ended' | 'folder-gone' | 'folder-renamed' }>>;

/** A real log with its catalog, written as a sync writes them. */
export class StoredArchive {
  readonly dir = mkdtempSync(path.join(tmpdir(), 'mailkeep-export-'));
  readonly #uids = new Map<string, number>();
  readonly #folders = new Set<string>();
  #now = START;
  catalog!: WritableCatalog;
  sources!: LogReader;

  static async create(): Promise<StoredArchive> {
    const archive = new StoredArchive();
    archive.catalog = await openCatalog(archive.dir);
    return archive;
  }

  /** One commit; the next is an hour later, unless it says when. Returns the time of this one. */
  async store(
    letters: readonly Letter[],
    options: {
      readonly mailbox?: string;
      readonly ended?: readonly { readonly folder: string; readonly uid: number }[];
      readonly quarantined?: readonly { readonly folder: string; readonly uid: number }[];
      readonly delimiter?: string;
      /** By folder. */
      readonly specialUse?: Readonly<Record<string, string>>;
      readonly at?: number;
    } = {},
  ): Promise<number> {
    const { mailbox = 'anna@example.org', delimiter = '.', specialUse = {} } = options;
    const key = { host: 'mail.example.net', mailbox: `AC-${mailbox}` };
    this.#now = options.at ?? this.#now + 3_600_000;
    const writer = await openLogWriter({ dir: this.dir, now: () => this.#now });
    const batch = writer.newBatch();
    batch.addFact({ fact: 'mailbox', ...key, address: mailbox });
    const ensure = (folder: string, generation: number): void => {
      if (this.#folders.has(`${mailbox} ${folder}`)) return;
      this.#folders.add(`${mailbox} ${folder}`);
      const name = folder.split(delimiter).at(-1) ?? folder;
      batch.addFact({
        fact: 'folder',
        ...key,
        folder,
        name,
        delimiter,
        specialUse: specialUse[folder] ?? null,
        generation,
      });
    };
    const listing = (letter: Letter, uid: number) => ({
      uid,
      date: letter.date ?? new Date(START + uid * 60_000).toISOString(),
      flags: flagSet(letter.flags ?? []),
      size: letter.source.length,
      subject: letter.subject === undefined ? `Letter ${uid}` : letter.subject,
      from:
        letter.from === undefined
          ? { name: 'Anna Berg', address: 'anna@example.org' }
          : letter.from,
      to: [],
      cc: [],
      bcc: [],
      messageId: letter.messageId ?? null,
      inReplyTo: null,
      attachments: [],
      extra: {},
    });
    for (const letter of letters) {
      const { folder, source, generation = 1 } = letter;
      const at = `${mailbox} ${folder}`;
      const uid = letter.uid ?? (this.#uids.get(at) ?? 0) + 1;
      this.#uids.set(at, Math.max(uid, this.#uids.get(at) ?? 0));
      ensure(folder, generation);
      const id = sha256(source);
      const listed = listing(letter, uid);
      const known = this.catalog.messages.find(id);
      batch.addSource(source, id);
      batch.addFact({
        fact: 'appeared',
        ...key,
        folder,
        generation,
        uid,
        listing: listed,
        docid: known?.docid ?? this.catalog.docidFor(docidBase(listed.date, this.#now)),
        message: id,
        size: source.length,
      });
    }
    for (const { folder, uid } of options.ended ?? []) {
      batch.addFact({ fact: 'ended', ...key, folder, generation: 1, uid, reason: 'gone' });
    }
    for (const { folder, uid } of options.quarantined ?? []) {
      ensure(folder, 1);
      const listed = listing({ folder, source: Buffer.alloc(9) }, uid);
      batch.addFact({
        fact: 'quarantined',
        ...key,
        folder,
        generation: 1,
        uid,
        listing: listed,
        reason: 'short',
        detail: '',
      });
    }
    this.catalog.foldBatch(await writer.commit(batch));
    await writer.close();
    this.sources = openLogReader({ dir: this.dir, locator: this.catalog.locator });
    return this.#now;
  }

  /** One commit of facts about a mailbox. */
  async commitFacts(facts: readonly MailboxFact[], mailbox = 'anna@example.org'): Promise<void> {
    this.#now += 3_600_000;
    const writer = await openLogWriter({ dir: this.dir, now: () => this.#now });
    const batch = writer.newBatch();
    const key = { host: 'mail.example.net', mailbox: `AC-${mailbox}` };
    for (const fact of facts) batch.addFact({ ...fact, ...key });
    this.catalog.foldBatch(await writer.commit(batch));
    await writer.close();
  }

  remove(): void {
    this.catalog.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export const EVERYTHING: ExportOptions['selection'] = {
  query: null,
  deleted: false,
  asOf: null,
};

/** What most exports of the tests have in common. */
export function exporting(
  archive: StoredArchive,
  to: string,
  format: ExportOptions['format'],
): ExportOptions {
  return {
    to,
    format,
    selection: EVERYTHING,
    incremental: false,
    sidecar: false,
    statusHeaders: false,
    catalog: archive.catalog,
    sources: archive.sources,
    signal: new AbortController().signal,
  };
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Every file below a folder by relative path, with its bytes. */
export function tree(folder: string): Map<string, Buffer> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort();
  return new Map(files.map((file) => [path.relative(folder, file), readFileSync(file)]));
}

/**
 * Mail for exports: that of MAILKEEP_CORPUS if there is some, else generated; and, in either case, sources that
 * formats find hard.
 */
export function sampleSources(most: number): Buffer[] {
  const corpus = process.env.MAILKEEP_CORPUS;
  const real =
    corpus === undefined
      ? Array.from({ length: Math.min(most, 200) }, (_, i) =>
          writeMessage(
            { seed: 5, documentSeed: 5, count: 200, owner: 'ada@example.org', newest: START },
            i,
          ),
        )
      : [...tree(corpus).values()].filter((bytes) => bytes.length > 0);
  const step = Math.max(1, Math.ceil(real.length / most));
  return [...real.filter((_, i) => i % step === 0), ...HARD_SOURCES];
}

/** "From " lines quoted and not, line ends of all kinds and none, bytes that are no text. */
export const HARD_SOURCES: readonly Buffer[] = [
  'Subject: from\n\nFrom here\n>From there\n>>From everywhere\n> From nowhere\nFrom\n',
  'Subject: crlf\r\n\r\nFrom here\r\n\r\nFrom there\r\n',
  'Subject: no end\n\nlast line',
  'Subject: no end\n\nFrom ',
  'Subject: no end\n\n>>>From',
  'From the start\nSubject: x\n\n\n\n\n',
  'Subject: header only\n',
  '\n',
  '\0\r\r\n\x80\xff\nFrom \xe9\n',
].map((text) => Buffer.from(text, 'latin1'));
