import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { CommittedBatch, Fact, FoldedRecord } from '../../src/archive/format.ts';
import { type Catalog, openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { CountRequest } from '../../src/catalog/search.ts';
import type { StatsRequest } from '../../src/catalog/stats.ts';
import { DIMENSIONS } from '../../src/catalog/sums.ts';
import { docidBaseOf } from '../../src/mail/docid.ts';
import { attachment, entry, HOST, START, sha256, temporaryDir } from './history.ts';
import { ACTS, Model, type Step, steps } from './model.ts';

/*
 * A reader with a scope must be told exactly what a reader of an archive would be told that never had the other
 * mailboxes: each history is folded twice, whole and without them, and every answer compared.
 */

const OURS = { host: HOST, mailbox: 'AC1' };

/** One of a few by a message's id, so that both archives have the same. */
const numberOf = (id: string) => Number.parseInt(id.slice(0, 8), 16);

/** The fact with what depends on the message alone, wherever it appears first. */
function settled(fact: Fact): Fact {
  if (fact.fact !== 'appeared') return fact;
  const second = START / 1000 + (numberOf(fact.message) % 1_000_000);
  const { assumedFrom, ...rest } = fact;
  return {
    ...rest,
    ...(assumedFrom?.mailbox === fact.mailbox ? { assumedFrom } : {}),
    docid: second * 64,
    size: 100 + (numberOf(fact.message) % 50),
    listing: {
      ...fact.listing,
      date: new Date(second * 1000).toISOString(),
      subject: `About ${numberOf(fact.message) % 5}`,
      messageId: `<${fact.message.slice(0, 8)}@example.org>`,
    },
  };
}

/** A batch as it would be if the archive mirrored our mailbox only. */
function oursOf({ records, ...batch }: CommittedBatch): CommittedBatch {
  const ours = records.filter(
    (record) =>
      record.kind === 'fact' && (!('mailbox' in record.fact) || record.fact.mailbox === 'AC1'),
  );
  return { ...batch, records: ours };
}

function settledBatch({ records, ...batch }: CommittedBatch): CommittedBatch {
  const settle = (record: FoldedRecord): FoldedRecord =>
    record.kind === 'fact' ? { ...record, fact: settled(record.fact) } : record;
  return { ...batch, records: records.map(settle) };
}

const WORDS = ['alpha', 'beta', 'gamma', 'delta'];

/** Indexes everything; some messages answer one that is also, or only, in the other mailbox. */
function indexAll(catalog: WritableCatalog, ids: readonly string[]): void {
  const pending = catalog.index.pending({ limit: 1000 });
  catalog.index.index(
    pending
      .map(({ docid, id }) => {
        const n = numberOf(id);
        const word = WORDS[n % 4] ?? '';
        const named = ids[n % Math.max(1, ids.length)] ?? id;
        return {
          docid,
          entry: entry({
            subject: `${n % 3 === 0 ? 'Re: ' : ''}About ${n % 5}`,
            from: 'Ada <ada@example.org>',
            senders: ['ada@example.org'],
            to: n % 2 === 0 ? 'one@example.net' : 'two@example.net',
            recipients: [n % 2 === 0 ? 'one@example.net' : 'two@example.net'],
            body: `${word} and ${WORDS[(n >>> 4) % 4]}`,
            messageId: `${id.slice(0, 8)}@example.org`,
            references: n % 2 === 0 ? [`${named.slice(0, 8)}@example.org`] : [],
            attachments: n % 4 === 1 ? [attachment(1), attachment(2, { form: null })] : [],
          }),
        };
      })
      .toSorted((a, b) => a.docid - b.docid),
  );
}

const QUERIES = [
  ...[
    'in:anywhere',
    'alpha',
    '-alpha',
    'alpha OR beta',
    'alpha beta',
    'alph*',
    'in:INBOX',
    'in:Archive',
  ],
  ...['-in:INBOX', 'mailbox:one@example.net', 'mailbox:two@example.net', 'mailbox:three'],
  ...['is:deleted', '-is:deleted', 'is:unread', 'is:starred', 'flag:work', '-flag:work'],
  ...['is:read in:INBOX', '-is:read -in:Archive', 'in:INBOX in:Archive', 'in:Nowhere'],
  ...['has:attachment', 'mime:application/pdf', 'from:me', 'to:me', 'larger:120', 'smaller:120'],
  ...['from:<ada@example.org>', 'date:2024-01-02', 'account:mail.example.net', 'account:other'],
  ...['(alpha in:INBOX) OR (beta is:deleted)', '(is:unread) OR (gamma -in:INBOX) OR is:starred'],
  ...['(alpha OR is:deleted) (beta OR in:Archive)', 'About', '-(alpha is:read)'],
];

const request = (query: string): CountRequest => ({
  node: parseQuery(query, { now: START, timeZone: 'UTC' }).node,
  accounts: new Map([['mine', HOST]]),
});

/** Every question about numbers. */
const STATISTICS = [
  ...DIMENSIONS.map((by) => (catalog: Catalog, its: StatsRequest) => catalog.stats.rows(by, its)),
  (catalog: Catalog, its: StatsRequest) => catalog.stats.totals(its),
  (catalog: Catalog, its: StatsRequest) => catalog.stats.largest(its, 9),
  (catalog: Catalog, its: StatsRequest) => catalog.stats.duplicates(its, 9),
];

/** Without numbers of commits, which are each archive's own. */
const happened = (lines: readonly { readonly commit: number }[]) =>
  lines.map(({ commit: _, ...line }) => line);

/** Every question about attachments; the numbers of texts are each archive's own. */
function files(catalog: Catalog, asked: CountRequest, ids: readonly string[]): unknown {
  const all = () => true;
  const hashes = [1, 2].map((number) => sha256(`attachment ${number}`));
  const docids = ids.flatMap((id) => catalog.messages.docidOf(id) ?? []);
  const told = {
    sums: catalog.files.sums({ ...asked, timeZone: 'UTC' }, all),
    page: catalog.files.page({ ...asked, limit: 1 }, all),
    contents: hashes.map((hash) => catalog.files.content(asked, hash, 3, () => true)),
    shared: [...catalog.prepare(asked).docids()]
      .filter((docid) => docids.includes(docid))
      .map((docid) => catalog.files.ofMessage(asked, docid, () => true)),
  };
  return JSON.parse(
    JSON.stringify(told, (key, value: unknown) => (key === 'textId' ? value !== null : value)),
  );
}

async function withTwins(
  act: (whole: WritableCatalog, ours: WritableCatalog) => void,
): Promise<void> {
  const rooms = [temporaryDir(), temporaryDir()] as const;
  const whole = await openCatalog(rooms[0].dir);
  const ours = await openCatalog(rooms[1].dir);
  try {
    act(whole, ours);
  } finally {
    whole.close();
    ours.close();
    for (const room of rooms) room.remove();
  }
}

/** A message of the other mailbox comes between a reply by subject and the message that it follows for us. */
const BETWEEN: Step[] = [0, 0, 2, 0, 0, 0, 0, 0].map((a) => ({ act: 'arrive', a, b: 0 }));

describe('a reader with a scope', () => {
  test('is told what an archive of these mailboxes would tell', async () => {
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'rename']), (played) =>
        withTwins((whole, ours) => {
          const model = new Model();
          for (const step of [...played, { act: 'commit', a: 0, b: 0 } as const]) model.play(step);
          const batches = model.history.batches.map(settledBatch);
          for (const batch of batches) {
            whole.foldBatch(batch);
            ours.foldBatch(oursOf(batch));
          }
          const ids = [...new Set(model.places.map(({ message }) => sha256(message)))];
          for (const catalog of [whole, ours]) indexAll(catalog, ids);
          const limited = whole.within([OURS]);
          const own = ours.within([OURS]);
          const times = [undefined, ...batches.slice(-3).map(({ commit }) => commit.time)];
          const queries = [
            ...QUERIES,
            ...ids.flatMap((id) => [`thread:${id}`, `id:${id.slice(0, 4)}`]),
            ...ids.flatMap((id) => [`thread:${id.slice(0, 8)}@example.org`]),
          ];
          for (const asOf of times)
            for (const query of queries) {
              const asked = { ...request(query), ...(asOf === undefined ? {} : { asOf }) };
              const what = `${query} as of ${asOf}`;
              expect(limited.prepare(asked).count(), what).toBe(ours.prepare(asked).count());
              expect([...limited.prepare(asked).docids()], what).toEqual([
                ...ours.prepare(asked).docids(),
              ]);
              for (const sort of ['newest', 'oldest'] as const) {
                const page = { limit: 5, sort };
                const found = ours.prepare(asked).page({ ...page });
                const hits = found.hits.map((hit) => ({ ...hit, docid: docidBaseOf(hit.docid) }));
                expect(limited.prepare(asked).page({ ...page }), what).toEqual({ ...found, hits });
                expect([...limited.prepare(asked).ids({ ...page })], what).toEqual([
                  ...ours.prepare(asked).ids({ ...page }),
                ]);
              }
              expect(limited.prepare(asked).unknownNames()).toEqual(
                ours.prepare(asked).unknownNames(),
              );
            }
          for (const asOf of times)
            for (const query of ['in:anywhere', 'alpha', 'is:deleted', 'in:INBOX']) {
              const asked = { ...request(query), ...(asOf === undefined ? {} : { asOf }) };
              expect(files(limited, asked, ids), query).toEqual(files(ours, asked, ids));
              expect(
                limited.stats.facets(asked, 9, () => true),
                query,
              ).toEqual(ours.stats.facets(asked, 9, () => true));
            }
          for (const asOf of times)
            for (const more of [{}, { deleted: true }, { folder: 'INBOX' }, { mailbox: 'AC2' }]) {
              const filter = { ...more, ...(asOf === undefined ? {} : { asOf }) };
              expect([...limited.list(filter)]).toEqual([...ours.list(filter)]);
            }
          for (const of of STATISTICS)
            for (const query of [undefined, 'is:deleted', 'alpha']) {
              const asked = { ...(query === undefined ? {} : request(query)), timeZone: 'UTC' };
              expect(of(limited, asked)).toEqual(of(ours, asked));
            }
          const people = (catalog: Catalog) => catalog.stats.people('', 9, () => true);
          expect(people(limited)).toEqual(people(ours));
          for (const id of ids) {
            const known = ours.messages.docidOf(id) !== undefined;
            expect(limited.threadOf(id)).toEqual(known ? ours.threadOf(id) : []);
            expect(limited.history(id)).toEqual(own.history(id));
            expect(happened(limited.history(id))).toEqual(happened(ours.history(id)));
            expect(limited.lastSeen(id)).toEqual(own.lastSeen(id));
            expect(happened(limited.lastSeen(id))).toEqual(happened(ours.lastSeen(id)));
            expect(limited.messages.docidsByPrefix(id.slice(0, 2))).toEqual(
              ids
                .filter((one) => one.startsWith(id.slice(0, 2)) && ours.messages.docidOf(one))
                .sort()
                .map((one) => whole.messages.docidOf(one)),
            );
          }
        }),
      ),
      { numRuns: 25, examples: [[BETWEEN]] },
    );
  });

  test('of no mailbox is told nothing', async () => {
    await withTwins((whole) => {
      const model = new Model();
      for (let a = 0; a < 9; a += 1) model.play({ act: 'arrive', a, b: a });
      model.play({ act: 'commit', a: 0, b: 0 });
      for (const batch of model.history.batches) whole.foldBatch(batch);
      indexAll(whole, []);
      const nothing = whole.within([{ host: HOST, mailbox: 'AC9' }]);
      for (const query of QUERIES) expect(nothing.prepare(request(query)).count()).toBe(0);
      expect([...nothing.list({})]).toEqual([]);
      expect(nothing.messages.docidsByPrefix('')).toEqual([]);
      expect(nothing.messages.docidsByPrefix('a')).toEqual([]);
    });
  });
});
