import { createHash } from 'node:crypto';
import type { Fact } from '../../src/archive/format.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { extractMessage } from '../../src/mail/extract-message.ts';
import {
  DEFAULT_LIMITS,
  type Extraction,
  emptyExtraction,
  indexEntry,
} from '../../src/mail/extraction.ts';
import { corpusStock, generatedStock } from '../bench/source-stock.ts';
import { appeared, folder, History, INBOX, mailbox, place } from './history.ts';
import type { ScannedDocument } from './plain-scan.ts';

/** A message of the set: as the scan sees it, and its raw source. */
export interface SearchedMessage extends ScannedDocument {
  readonly extraction: Extraction;
  readonly source: Buffer;
  /** Milliseconds since the epoch; the date of receipt that the archive was given. */
  readonly date: number;
  /** Its Date header says so; otherwise it got one of ours. */
  readonly dated: boolean;
}

export interface SearchedMail {
  readonly origin: string;
  readonly catalog: WritableCatalog;
  readonly messages: readonly SearchedMessage[];
}

const FOLDERS = ['INBOX', 'Archive', 'Lists', 'Work', 'Family'] as const;
const FLAGS = [['\\Seen'], ['\\Seen'], ['\\Seen', '\\Answered'], [], ['\\Flagged', '\\Seen']];
const GENERATED = 1_200;
const BATCH = 500;
const YEAR = 365 * 86_400_000;

/**
 * Real mail (the folder of MAILKEEP_CORPUS; generated mail otherwise), each distinct message once, extracted and
 * indexed, with folders and flags that follow from its hash.
 */
export async function indexMail(dir: string): Promise<SearchedMail> {
  const corpus = process.env.MAILKEEP_CORPUS;
  const stock = corpus === undefined ? generatedStock(GENERATED, 7) : corpusStock(corpus);
  const catalog = await openCatalog(dir);
  const history = new History();
  const keyOf = (name: string) => ({ ...INBOX, folder: name });
  catalog.foldBatch(
    history.commit([
      mailbox(INBOX, 'one@example.net'),
      ...FOLDERS.map((name) => folder(keyOf(name))),
    ]),
  );
  const messages = new Map<string, SearchedMessage>();
  let facts: Fact[] = [];
  const flush = () => {
    catalog.foldBatch(history.commit(facts));
    facts = [];
    const pending = catalog.index.pending({ limit: BATCH });
    catalog.index.index(
      pending.map(({ docid, id }) => ({
        docid,
        entry: indexEntry(messages.get(id)?.extraction ?? emptyExtraction('damaged')),
      })),
    );
  };
  for (let i = 0; i < stock.size; i += 1) {
    const source = stock.source(i);
    const hash = createHash('sha256').update(source).digest();
    const key = `source ${hash.toString('hex')}`;
    const id = createHash('sha256').update(key).digest('hex');
    if (messages.has(id)) continue;
    const extraction = await extractMessage(source, false, DEFAULT_LIMITS);
    const headerDate = dateOf(source);
    const date = headerDate ?? Date.UTC(2020, 0, 1) + hash.readUInt32BE(0) * 10;
    const docid = catalog.docidFor(Math.floor(date / 1000) * 64);
    const path = FOLDERS[(hash[4] ?? 0) % FOLDERS.length] ?? 'INBOX';
    const flags = FLAGS[(hash[5] ?? 0) % FLAGS.length] ?? [];
    const size = source.length;
    facts.push(
      appeared(place(keyOf(path), i + 1), key, {
        docid,
        listing: { date: new Date(date).toISOString(), size, flags, subject: null, from: null },
      }),
    );
    messages.set(id, {
      docid,
      size,
      date,
      dated: headerDate !== undefined,
      source,
      extraction,
      ended: false,
      attachment: extraction.attachments.some(({ inline }) => !inline),
      places: [{ folder: path, flags }],
      mailboxes: ['one@example.net'],
      fields: {
        subject: extraction.subject,
        from: extraction.from,
        to: extraction.to,
        cc: extraction.cc,
        bcc: extraction.bcc,
        body: extraction.body,
        filename: extraction.attachments.map(({ filename }) => filename ?? '').join('\n'),
        delivered: extraction.deliveredTo,
      },
    });
    if (facts.length === BATCH) flush();
  }
  flush();
  return { origin: stock.name, catalog, messages: [...messages.values()] };
}

/** The Date header as every program reads it; undefined where it is odd in form or in what it says. */
function dateOf(source: Buffer): number | undefined {
  const head = headOf(source);
  const value = /^date:[ \t]*(.*)$/im.exec(head)?.[1]?.trim() ?? '';
  const form =
    /^(?:[a-z]{3}, )?\d{1,2} [a-z]{3} (?:19|20)\d\d \d\d:\d\d:\d\d (?:[+-]\d{4}|GMT)(?: \([^)]*\))?$/i;
  if (!form.test(value)) return undefined;
  const time = Date.parse(value.replace(/ \([^)]*\)$/, ''));
  return time > Date.UTC(1990, 0, 1) && time < Date.UTC(2026, 0, 1) + YEAR ? time : undefined;
}

/** The header block as it stands there, one byte a character. */
export function headOf(source: Buffer): string {
  const text = source.toString('latin1');
  const end = /\r?\n\r?\n/.exec(text)?.index ?? text.length;
  return text.slice(0, end);
}
