import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Fact } from '../../src/archive/format.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { SearchNode } from '../../src/catalog/query-ast.ts';
import type { PageRequest } from '../../src/catalog/search.ts';
import {
  appeared,
  entry,
  folder,
  History,
  INBOX,
  mailbox,
  place,
  START,
  temporaryDir,
} from './history.ts';
import { matcher, type ScannedDocument, UNSPACED } from './plain-scan.ts';
import { unlessRefused } from './unless-refused.ts';

const SECOND = { ...INBOX, mailbox: 'AC2' };
const ARCHIVE = { ...INBOX, folder: 'Archive' };
const MINUTE = 60_000;
const CONTEXT = { now: START, timeZone: 'UTC' };

const WORDS = [
  ...['budget', 'Meeting', 'plan', 'rent', 'invoice', 'ANNA', 'draft', 'q3', '2024', 're'],
  ...['Straße', 'strasse', 'café', 'Ærø', 'Łódź', 'naïve', 'ﬁnance', 'Ελλάδα', 'привет', 'Hộ'],
  ...['东京', '東京都庁', '京都', '字', 'カタカナ', '회의실', 'हिन्दी', 'สวัสดีครับ'],
  ...['anna@example.org', 'foo-bar', 'mail.example.org', 'e-mail'],
] as const;

const { MAILKEEP_QUERIES: QUERIES } = process.env;

let seed = 7;
function random(below: number): number {
  seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fff_ffff;
  return (seed >> 8) % below;
}
const some = (count: number) =>
  Array.from({ length: random(count + 1) }, () => WORDS[random(WORDS.length)] ?? '').join(' ');

describe('search against a plain scan', () => {
  const room = temporaryDir();
  const documents: ScannedDocument[] = [];
  let catalog: WritableCatalog;

  beforeAll(async () => {
    catalog = await openCatalog(room.dir);
    const history = new History();
    const facts: Fact[] = [
      mailbox(INBOX, 'one@example.net'),
      mailbox(SECOND, 'two@example.net'),
      ...[INBOX, ARCHIVE, SECOND].map((key) => folder(key)),
    ];
    const ends: readonly [Fact[], Fact[]] = [[], []];
    for (let i = 1; i <= 400; i += 1) {
      const where = [INBOX, ARCHIVE, SECOND][random(3)] ?? INBOX;
      const flags = [[], ['\\Seen'], ['\\Flagged', '\\Seen']][random(3)] ?? [];
      const date = new Date(START - random(1000) * 86_400_000).toISOString();
      const docid = catalog.docidFor(Math.floor(Date.parse(date) / 1000) * 64);
      const size = 500 + random(2000);
      const ended = random(5) === 0;
      const copied = random(6) === 0;
      // The listing's subject and sender stand in where extraction finds none; here it has the last word.
      const listed = { date, size, subject: null, from: null };
      facts.push(appeared(place(where, i), `m${i}`, { docid, listing: { ...listed, flags } }));
      if (copied) facts.push(appeared(place(ARCHIVE, 1000 + i), `m${i}`, { listing: listed }));
      const half = i % 2 === 0 ? 0 : 1;
      if (ended) ends[half].push({ fact: 'ended', ...place(where, i), reason: 'deleted' });
      const own = { folder: where.folder, flags };
      const copy = { folder: 'Archive', flags: [] };
      documents.push({
        docid,
        size,
        ended: ended && !copied,
        addedAt: START + MINUTE,
        endedAt: START + (2 + half) * MINUTE,
        attachment: random(3) === 0,
        places: copied ? (ended ? [copy] : [own, copy]) : [own],
        mailboxes: [
          where === SECOND ? 'two@example.net' : 'one@example.net',
          ...(copied ? ['one@example.net'] : []),
        ],
        fields: {
          subject: some(4),
          from: some(2),
          to: some(2),
          body: some(14),
          filename: '',
        },
      });
    }
    catalog.foldBatch(history.commit(facts));
    for (const some of ends) catalog.foldBatch(history.commit(some));
    const byDocid = new Map(documents.map((document) => [document.docid, document]));
    catalog.index.index(
      catalog.index.pending({ limit: 1000 }).flatMap(({ docid }) => {
        const document = byDocid.get(docid);
        if (document === undefined) return [];
        const { subject = '', from = '', to = '', body = '' } = document.fields;
        const attachments = document.attachment
          ? [
              {
                number: 1,
                filename: null,
                contentType: 'application/pdf',
                size: 9,
                inline: false,
                contentId: null,
                form: null,
                hash: null,
              },
            ]
          : [];
        return [{ docid, entry: entry({ subject, from, to, body, attachments }) }];
      }),
    );
  });
  afterAll(() => {
    catalog.close();
    room.remove();
  });

  const atom = fc.oneof(
    fc.constantFrom(...WORDS),
    fc
      .tuple(fc.constantFrom(...WORDS), fc.constantFrom(...WORDS))
      .map(([a, b]) => (UNSPACED.test(a + b) ? a : `"${a} ${b}"`)),
    fc
      .constantFrom('bud', 'pl', 'meet', 'при', 'str', 'hi', '20', 'foo-ba')
      .map((word) => `${word}*`),
    fc
      .tuple(fc.constantFrom('subject', 'from', 'to', 'body', 'recip'), fc.constantFrom(...WORDS))
      .map(([field, word]) => `${field}:${word}`),
    fc.constantFrom(
      ...['in:INBOX', 'in:Archive', 'is:unread', 'is:starred', 'is:read', 'is:deleted'],
      ...['has:attachment', 'larger:1500', 'smaller:900', 'size:1000..2000', '*'],
      ...['before:2023-01-01', 'after:2023-06-01', 'on:2023-05', 'date:2022-01..2022-12'],
      ...['added:2024-01-01T00:01', 'added:2023', 'added:..2024-01-01T00:01'],
      ...['deleted:2024-01-01T00:02', 'deleted:2024-01-01T00:03..', 'deleted:2024', 'deleted:2023'],
      ...['mailbox:two@example.net', 'mailbox:one@example.net'],
    ),
  );
  const { query } = fc.letrec<{ query: string }>((tie) => ({
    query: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      atom,
      fc.tuple(tie('query'), tie('query')).map(([a, b]) => `${a} ${b}`),
      fc.tuple(tie('query'), tie('query')).map(([a, b]) => `(${a} OR ${b})`),
      tie('query').map((a) => `-(${a})`),
    ),
  }));

  const docids = (node: SearchNode, sort: PageRequest['sort'], limit = 1000) =>
    catalog
      .prepare({ node })
      .page({ limit, sort })
      .hits.map(({ docid }) => docid);

  test('finds what a scan finds, newest first, oldest first and by relevance', () => {
    fc.assert(
      fc.property(query, (text) => {
        // A refusal is an answer, too; that it is rare is asserted below.
        const parsed = unlessRefused(() => parseQuery(text, CONTEXT));
        if (parsed === undefined) return;
        const { node } = parsed;
        const expected = documents
          .filter(matcher(node))
          .map(({ docid }) => docid)
          .sort((a, b) => b - a);
        const found = unlessRefused(() => docids(node, 'newest'));
        if (found === undefined) return;
        expect(found).toEqual(expected);
        expect(docids(node, 'oldest')).toEqual(expected.toReversed());
        // Ranking refuses more words than the other orders do.
        const best = unlessRefused(() => docids(node, 'relevance'));
        if (best !== undefined) expect(best.toSorted((a, b) => b - a)).toEqual(expected);
        expect(catalog.prepare({ node }).count()).toBe(expected.length);
        const some = catalog.prepare({ node }).countWhile(() => false);
        expect(some.count).toBeLessThanOrEqual(expected.length);
        if (some.complete) expect(some.count).toBe(expected.length);
        const page = catalog.prepare({ node }).page({ limit: 7, sort: 'newest' }).hits;
        expect(page.map(({ docid }) => docid)).toEqual(expected.slice(0, 7));
        const after = page.at(-1)?.docid;
        if (after === undefined) return;
        const next = catalog.prepare({ node }).page({ limit: 7, sort: 'newest', after }).hits;
        expect(next.map(({ docid }) => docid)).toEqual(expected.slice(7, 14));
      }),
      // The same queries each time; `MAILKEEP_QUERIES=3000` runs as many new ones.
      QUERIES === undefined ? { numRuns: 150, seed: 20_261_121 } : { numRuns: Number(QUERIES) },
    );
  });

  test.each(['newest', 'relevance'] as const)('refuses few of such queries: %s', (sort) => {
    const answer = (text: string) =>
      unlessRefused(() => docids(parseQuery(text, CONTEXT).node, sort, 1));
    const refused = fc
      .sample(query, { numRuns: 300, seed: 1 })
      .filter((text) => answer(text) === undefined);
    expect(refused.length).toBeLessThan(6);
  });
});
