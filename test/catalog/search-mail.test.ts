import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { SearchNode } from '../../src/catalog/query-ast.ts';
import { MailkeepError } from '../../src/core/errors.ts';
import { absent } from '../peers/programs.ts';
import { START, temporaryDir } from './history.ts';
import { type Asked, plainAsciiWords, reasonFor } from './notmuch-differences.ts';
import { NotmuchPeer } from './notmuch-peer.ts';
import { matcher } from './plain-scan.ts';
import { QueryMaker } from './query-maker.ts';
import { indexMail, type SearchedMail, type SearchedMessage } from './searched-mail.ts';

const CONTEXT = { now: START, timeZone: 'UTC' };
const QUERIES = 1_000;
const QUERIES_OF_NOTMUCH = 240;
/** Messages that notmuch is given: it reads some hundred a second. */
const FOR_NOTMUCH = 2_500;
/** A watchdog, not a measure: both tests are one long stretch of work, and the machine may be busy. */
const TIMEOUT = 900_000;
const SEED = Number(process.env.MAILKEEP_SEED ?? 7);

describe('search over mail against a plain scan of what was extracted', () => {
  const room = temporaryDir();
  let mail: SearchedMail;

  beforeAll(async () => {
    mail = await indexMail(room.dir);
  }, TIMEOUT);
  afterAll(() => {
    mail.catalog.close();
    room.remove();
  });

  const nodeOf = (text: string): SearchNode => parseQuery(text, CONTEXT).node;

  test(`a thousand queries, seed ${SEED}`, { timeout: TIMEOUT }, () => {
    const { catalog, messages } = mail;
    const newestFirst = messages.toSorted((a, b) => b.docid - a.docid);
    const maker = new QueryMaker(newestFirst, SEED);
    const differences: string[] = [];
    let finding = 0;
    let refused = 0;
    for (let i = 0; i < QUERIES; i += 1) {
      const text = maker.query();
      const node = nodeOf(text);
      const expected = newestFirst.filter(matcher(node)).map(({ docid }) => docid);
      let found: number[];
      try {
        found = [...catalog.prepare({ node }).docids()];
      } catch (error) {
        // A refusal is an answer, too; that it is rare is asserted below.
        if (!(error instanceof MailkeepError) || error.code !== 'search-too-complex') throw error;
        refused += 1;
        continue;
      }
      const differing = symmetricDifference(found, expected);
      if (differing.length > 0 || found.length !== expected.length)
        differences.push(`query ${i}: ${text}: ${differing.slice(0, 3).join(', ')}`);
      const page = catalog.prepare({ node }).page({ limit: 5, sort: 'newest' }).hits;
      expect(page.map(({ docid }) => docid)).toEqual(found.slice(0, 5));
      if (expected.length > 0) finding += 1;
    }
    expect(differences).toEqual([]);
    expect(refused).toBeLessThan(QUERIES / 100);
    // A comparison of nothing with nothing would prove nothing.
    expect(finding).toBeGreaterThan(QUERIES / 2);
  });

  test.skipIf(absent('notmuch'))(
    `notmuch finds the same, or there is a reason, seed ${SEED}`,
    { timeout: TIMEOUT },
    () => {
      const { catalog, messages } = mail;
      const uniqueIds = onceEach(messages, ({ extraction }) => extraction.messageId ?? '');
      const given = everyNth(uniqueIds, Math.ceil(uniqueIds.length / FOR_NOTMUCH));
      const peer = new NotmuchPeer(room.dir, given);
      const compared = given.filter(({ docid }) => peer.known.has(docid));
      expect(compared.length).toBeGreaterThan(given.length * 0.99);
      const maker = new QueryMaker(compared, SEED);
      const reasons = new Map<string, number>();
      const unexplained: string[] = [];
      let agreed = 0;
      for (let i = 0; i < QUERIES_OF_NOTMUCH; i += 1) {
        const message = maker.document() as SearchedMessage;
        const question = questionOf(maker, message);
        if (question === undefined) continue;
        const { asked, ours, theirs } = question;
        const mine = new Set(catalog.prepare({ node: nodeOf(ours) }).docids());
        const other = peer.search(theirs);
        for (const one of compared) {
          const [isMine, isTheirs] = [mine.has(one.docid), other.has(one.docid)];
          if (isMine && isTheirs) agreed += 1;
          if (isMine === isTheirs || (asked.kind === 'date' && !one.dated)) continue;
          const reason = reasonFor(asked, one, isMine);
          if (reason === undefined)
            unexplained.push(`${ours}: ${isMine ? 'ours' : 'theirs'}: ${one.docid}`);
          else reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
        }
      }
      process.stderr.write(
        `notmuch: ${agreed} hits in common, ${JSON.stringify(Object.fromEntries(reasons))}\n`,
      );
      expect(unexplained).toEqual([]);
      expect(agreed).toBeGreaterThan(20 * [...reasons.values()].reduce((sum, n) => sum + n, 0));
    },
  );
});

/** A question about a message in both languages; undefined where it has nothing to be asked about. */
function questionOf(
  maker: QueryMaker,
  message: SearchedMessage,
): { readonly asked: Asked; readonly ours: string; readonly theirs: string } | undefined {
  const kind = maker.pick(KINDS);
  const { fields, places, date } = message;
  if (kind === 'folder') {
    const word = places[0]?.folder ?? '';
    return { asked: { kind, word }, ours: `in:${word}`, theirs: `folder:${word}` };
  }
  if (kind === 'flag') {
    const [word, tag] = maker.pick([
      ['unread', 'unread'],
      ['starred', 'flagged'],
      ['answered', 'replied'],
    ] as const);
    return { asked: { kind, word }, ours: `is:${word}`, theirs: `tag:${tag}` };
  }
  if (kind === 'date') {
    const day = (days: number) => new Date(date + days * 86_400_000).toISOString().slice(0, 10);
    const word = `${day(-40)}..${day(3)}`;
    return { asked: { kind, word }, ours: `date:${word}`, theirs: `date:${word}` };
  }
  const words = plainAsciiWords(fields[kind] ?? '');
  if (words.length === 0) return undefined;
  const word = maker.pick(words);
  // In quotes, since notmuch takes the bare word for its stem.
  const quoted = `"${word}"`;
  const [ours, theirs] = OPERATORS[kind];
  return { asked: { kind, word }, ours: `${ours}:${quoted}`, theirs: `${theirs}:${quoted}` };
}

const KINDS = [
  'subject',
  'subject',
  'from',
  'to',
  'body',
  'body',
  'filename',
  'folder',
  'flag',
  'date',
] as const;
/** Theirs of `to:` is To, Cc and Bcc. */
const OPERATORS = {
  subject: ['subject', 'subject'],
  from: ['from', 'from'],
  to: ['recip', 'to'],
  body: ['body', 'body'],
  filename: ['filename', 'attachment'],
} as const;

/** Those of which no other has the same key: notmuch makes one message of all that share a Message-ID. */
function onceEach<T>(all: readonly T[], key: (one: T) => string): T[] {
  const counts = new Map<string, number>();
  for (const one of all) counts.set(key(one), (counts.get(key(one)) ?? 0) + 1);
  return all.filter((one) => key(one) !== '' && counts.get(key(one)) === 1);
}

function everyNth<T>(all: readonly T[], n: number): T[] {
  return all.filter((_, i) => i % n === 0);
}

function symmetricDifference(a: readonly number[], b: readonly number[]): number[] {
  const [inA, inB] = [new Set(a), new Set(b)];
  return [...a.filter((one) => !inB.has(one)), ...b.filter((one) => !inA.has(one))];
}
