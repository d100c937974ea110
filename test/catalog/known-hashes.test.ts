import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { CommittedBatch, Fact } from '../../src/archive/format.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { BloomFilter } from '../../src/catalog/messages.ts';
import {
  appeared,
  folder,
  History,
  INBOX,
  mailbox,
  place,
  sha256,
  temporaryDir,
} from './history.ts';

const word = fc.integer({ min: 0, max: 0xffff_ffff });
const key = fc.tuple(word, word, word, word);

describe('a Bloom filter', () => {
  test('has every key that was added', () => {
    fc.assert(
      fc.property(fc.array(key, { maxLength: 300 }), (keys) => {
        const filter = new BloomFilter();
        for (const each of keys) filter.add(...each);
        for (const each of keys) expect(filter.mayHave(...each)).toBe(true);
      }),
    );
  });

  test('keeps what it had when it grows, and seldom claims a key it lacks', () => {
    const filter = new BloomFilter();
    const wordsOf = (n: number): [number, number, number, number] => {
      const hash = Buffer.from(sha256(String(n)), 'hex');
      return [
        hash.readUInt32LE(0),
        hash.readUInt32LE(4),
        hash.readUInt32LE(8),
        hash.readUInt32LE(12),
      ];
    };
    for (let n = 0; n < 60_000; n += 1) filter.add(...wordsOf(n));
    let claimed = 0;
    for (let n = 0; n < 60_000; n += 1) {
      expect(filter.mayHave(...wordsOf(n))).toBe(true);
      if (filter.mayHave(...wordsOf(n + 1_000_000))) claimed += 1;
    }
    expect(claimed).toBeLessThan(60_000 / 50);
  });
});

const MESSAGES = 400;
const second = (n: number): number => 1_000_000 + Math.floor(n / 3);
const isForgotten = (n: number): boolean => n % 20 === 7;

/** Adds messages, of which some are forgotten at once, with the docids that the catalog hands out. */
function grow(catalog: WritableCatalog, history: History, from: number, to: number): void {
  const batches: CommittedBatch[] = [];
  for (let n = from; n < to; n += 1) {
    const at = place(INBOX, n + 1);
    const docid = catalog.docidFor(second(n) * 64);
    const facts: Fact[] = [appeared(at, `m${n}`, { docid })];
    if (isForgotten(n))
      facts.push({ fact: 'purged', message: sha256(`m${n}`), reason: 'forgotten', places: [at] });
    batches.push(history.commit(facts));
  }
  for (const batch of batches) catalog.foldBatch(batch);
}

/** Everything that a pass asks before it stores message `n`. */
function answers(catalog: WritableCatalog, n: number): unknown {
  const id = sha256(`m${n}`);
  return {
    find: catalog.messages.find(id),
    purged: catalog.messages.purgedFor(id),
    blob: catalog.messages.hasBlob(id),
  };
}

describe('a catalog that knows which hashes are new', () => {
  test('answers as one that asks the database', async () => {
    const [asked, spared] = [temporaryDir(), temporaryDir()];
    const [plain, knowing] = [await openCatalog(asked.dir), await openCatalog(spared.dir)];
    try {
      const [histories, others] = [new History(), new History()];
      for (const [catalog, history] of [
        [plain, histories],
        [knowing, others],
      ] as const) {
        catalog.foldBatch(history.commit([mailbox(INBOX, 'me@example.net'), folder(INBOX)]));
        grow(catalog, history, 0, MESSAGES / 2);
      }
      // Enough questions in vain: from here on it knows what is not there.
      for (let n = 0; n < 2_000; n += 1) knowing.messages.find(sha256(`unknown ${n}`));
      grow(plain, histories, MESSAGES / 2, MESSAGES);
      grow(knowing, others, MESSAGES / 2, MESSAGES);
      for (let n = 0; n < MESSAGES + 50; n += 1)
        expect(answers(knowing, n)).toEqual(answers(plain, n));
      const taken = (n: number) => [
        plain.docidFor(second(n) * 64),
        knowing.docidFor(second(n) * 64),
      ];
      for (let n = 0; n < MESSAGES + 50; n += 1) {
        const [expected, found] = taken(n);
        expect(found).toBe(expected);
      }
      expect(others.batches.at(-1)?.commit.hash).toBe(histories.batches.at(-1)?.commit.hash);
    } finally {
      plain.close();
      knowing.close();
      asked.remove();
      spared.remove();
    }
  });
});
