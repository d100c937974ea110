import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import type { CommittedBatch, Fact, FoldedRecord } from '../../src/archive/format.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import type { FolderKey } from '../../src/core/types.ts';
import { type Extraction, emptyExtraction, indexEntry } from '../../src/mail/extraction.ts';
import { mergeIndex } from '../catalog/merge-index.ts';
import { type Seeded, seeded } from './seeded.ts';

/** Words of the language; the rank of a word is the number in it, and its share of all text falls with the rank. */
const VOCABULARY = 60_000;
const MEAN_WORDS = 160;
const FOLDERS = 18;
const BATCH = 500;
const YEARS = 15;
const END = Date.UTC(2026, 0, 1);
/** One message of so many stands in the rare folder, has the rare flag, or the rare kind of attachment. */
const RARE = 5_000;

/** A word by its rank, from 0: short for common ones, as in any language. */
export function wordOf(rank: number): string {
  let word = '';
  for (let n = rank + 20; n > 0; n = Math.floor(n / 80))
    word += `${'bcdfghjklmnprstvwz'[n % 16]}${'aeiou'[Math.floor(n / 16) % 5]}`;
  return word;
}

const HOST = 'bench.example.net';
const inbox = (folder: string): FolderKey => ({ host: HOST, mailbox: 'bench', folder });

/**
 * Makes a catalog of messages whose words are drawn by Zipf's law, straight through fold and index, without
 * log, sync or parsing: the same rows as real mail would leave, in a hundredth of the time. A catalog that is there
 * keeps what it has.
 */
export async function makeSyntheticCatalog(
  dir: string,
  messages: number,
  seed: number,
  progress: (made: number) => void,
): Promise<void> {
  mkdirSync(dir, { recursive: true });
  const catalog = await openCatalog(dir);
  try {
    const random = seeded('synthetic catalog', seed);
    const text = new ZipfText(random);
    const history = new Chain(catalog);
    const folders = Array.from({ length: FOLDERS }, (_, i) => (i === 0 ? 'INBOX' : `Folder${i}`));
    history.fold([
      { fact: 'mailbox', host: HOST, mailbox: 'bench', address: 'bench@example.net' },
      ...[...folders, 'Rare'].map(
        (name): Fact => ({
          fact: 'folder',
          ...inbox(name),
          name,
          delimiter: '.',
          specialUse: null,
          generation: 1,
        }),
      ),
    ]);
    catalog.index.mode('bulk');
    const step = Math.floor((YEARS * 365 * 86_400) / messages);
    const ids: string[] = [];
    for (let made = 0; made < messages; made += BATCH) {
      const facts: Fact[] = [];
      const extractions = new Map<string, Extraction>();
      for (let i = made; i < Math.min(made + BATCH, messages); i++) {
        const seconds = Math.floor(END / 1000) - (messages - i) * step;
        const parent = i > 0 && random.below(10) < 6 ? Math.max(0, i - 1 - random.below(400)) : -1;
        const messageId = `${i}.${random.below(1_000_000)}@host${random.below(500)}.example.org`;
        ids[i % 1_000] = messageId;
        const rare = i % RARE === RARE - 1;
        const subject = `${parent >= 0 ? 'Re: ' : ''}${text.words(2 + random.below(6))}`;
        const sender = `person${Math.floor(2_000 * random.next() ** 3)}@example.org`;
        const message = createHash('sha256').update(messageId).digest('hex');
        const size = 2_000 + Math.floor(40_000 * random.next() ** 4);
        const flags = [
          ...(random.below(20) === 0 ? [] : ['\\Seen']),
          ...(random.below(500) === 0 ? ['\\Flagged'] : []),
          ...(rare ? ['$Rare'] : []),
        ];
        facts.push({
          fact: 'appeared',
          ...inbox(rare ? 'Rare' : (folders[Math.floor(FOLDERS * random.next() ** 3)] ?? '')),
          generation: 1,
          uid: i + 1,
          docid: seconds * 64,
          message,
          size,
          listing: {
            uid: i + 1,
            date: new Date(seconds * 1000).toISOString(),
            flags,
            size,
            subject,
            from: { name: '', address: sender },
            to: [{ name: '', address: 'bench@example.net' }],
            cc: [],
            bcc: [],
            messageId: `<${messageId}>`,
            inReplyTo: null,
            attachments: [],
            extra: {},
          },
        });
        const ancestor = parent < 0 || i - parent >= 1_000 ? undefined : ids[parent % 1_000];
        extractions.set(message, {
          ...emptyExtraction('malformed'),
          status: 'parsed',
          reason: null,
          subject,
          from: sender,
          to: 'bench@example.net',
          body: text.words(Math.ceil(MEAN_WORDS * 2 * random.next() ** 2 * 1.5)),
          messageId,
          references: ancestor === undefined ? [] : [ancestor],
          listId: i % 3 === 0 ? `list${i % 40}.example.org` : null,
          attachments:
            rare || i % 7 === 0
              ? [
                  {
                    number: 1,
                    filename: rare ? 'rare.xyz' : 'picture.png',
                    contentType: rare ? 'application/x-rare' : 'image/png',
                    size: 1_000,
                    inline: false,
                    contentId: null,
                    form: null,
                    hash: null,
                  },
                ]
              : [],
        });
      }
      history.fold(facts);
      const documents = catalog.index.pending({ limit: BATCH }).map(({ docid, id }) => ({
        docid,
        entry: indexEntry(extractions.get(id) ?? emptyExtraction('damaged')),
      }));
      catalog.index.index(documents.sort((a, b) => a.docid - b.docid));
      progress(made + documents.length);
    }
    catalog.index.mode('steady');
    mergeIndex(catalogFile(dir));
    catalog.compact();
  } finally {
    catalog.close();
  }
}

/** Folds facts as batches of a log that nobody keeps. */
class Chain {
  #number: number;
  #hash: string;
  #ordinal = 0;

  constructor(private readonly catalog: WritableCatalog) {
    const { number, hash } = catalog.reached();
    this.#number = number;
    this.#hash = hash;
  }

  fold(facts: readonly Fact[]): void {
    const records: FoldedRecord[] = [];
    for (const fact of facts) {
      const position = { segment: 1, ordinal: ++this.#ordinal, offset: this.#ordinal * 100 };
      if (fact.fact === 'appeared')
        records.push({ kind: 'message', id: fact.message, size: fact.size, position });
      records.push({ kind: 'fact', fact, position });
    }
    const previousHash = this.#hash;
    this.#number += 1;
    this.#hash = createHash('sha256').update(`${previousHash}${this.#number}`).digest('hex');
    const commit = { number: this.#number, time: END + this.#number * 1000, hash: this.#hash };
    const batch: CommittedBatch = { commit, previousHash, records };
    this.catalog.foldBatch(batch);
  }
}

/** Text whose n-th most common word comes 1/n as often as the first. */
class ZipfText {
  readonly #shares = new Float64Array(VOCABULARY);
  readonly #words: string[] = [];

  constructor(private readonly random: Seeded) {
    let sum = 0;
    for (let rank = 0; rank < VOCABULARY; rank++) {
      sum += 1 / (rank + 2.7);
      this.#shares[rank] = sum;
      this.#words.push(wordOf(rank));
    }
  }

  words(count: number): string {
    const words: string[] = [];
    for (let i = 0; i < count; i++) words.push(this.#word());
    return words.join(' ');
  }

  #word(): string {
    const drawn = this.random.next() * (this.#shares[VOCABULARY - 1] ?? 0);
    let low = 0;
    let high = VOCABULARY - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#shares[middle] ?? 0) < drawn) low = middle + 1;
      else high = middle;
    }
    return this.#words[low] ?? '';
  }
}
