import fc from 'fast-check';
import { expect, test } from 'vitest';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { withHistory } from './dated-history.ts';
import {
  appeared,
  entry,
  folder,
  History,
  HOST,
  INBOX,
  mailbox,
  place,
  temporaryDir,
} from './history.ts';
import { ACTS, steps } from './model.ts';

const room = temporaryDir();
const OTHERS = { ...INBOX, mailbox: 'other' };
const PLACES = [
  INBOX,
  { ...INBOX, folder: 'Other' },
  OTHERS,
  { ...OTHERS, folder: 'Other' },
] as const;
const NAMES = ['me@example.net', 'other@example.net'] as const;

/** Of the first message. */
const DOCID = 64_000_000;

/** Unread in folders and mailboxes, and others that only look like it. */
const QUERIES = [
  'is:unread',
  ...['INBOX', 'Other', 'inbox', 'nowhere'].map((name) => `in:${name} is:unread`),
  ...NAMES.flatMap((name) => [
    `mailbox:${name} is:unread`,
    `mailbox:${name} in:INBOX is:unread`,
    `is:unread in:Other mailbox:${name}`,
  ]),
  ...['is:unread -is:deleted', 'is:unread is:deleted', '-is:unread', 'in:INBOX is:read'],
  ...[
    'in:INBOX in:Other is:unread',
    '-in:Other is:unread',
    'is:unread larger:1',
    'is:unread is:starred',
  ],
  'in:INBOX is:unread OR in:Other',
];

/** A message at some of the places: read or not there, and ended there or not. */
const message = fc.array(
  fc.record({
    at: fc.nat(PLACES.length - 1),
    flags: fc.constantFrom(['\\Seen'], [], ['\\Flagged'], ['\\Seen', '\\Flagged']),
    isEnded: fc.boolean(),
  }),
  { minLength: 1, maxLength: 4 },
);

test('sums of unread messages count what asking each message counts', async () => {
  let number = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(message, { maxLength: 12 }), async (messages) => {
      number += 1;
      const catalog = await openCatalog(room.dir, `${room.dir}/${number}.sqlite`);
      const history = new History();
      try {
        catalog.foldBatch(
          history.commit([
            mailbox(INBOX, NAMES[0]),
            mailbox(OTHERS, NAMES[1]),
            ...PLACES.map((at) => folder(at)),
          ]),
        );
        let uid = 0;
        const ended: ReturnType<typeof place>[] = [];
        const facts = messages.flatMap((spots, i) =>
          spots.map(({ at, flags, isEnded }) => {
            uid += 1;
            const where = place(PLACES[at] ?? INBOX, uid);
            if (isEnded) ended.push(where);
            return appeared(where, `m${i}`, { listing: { flags }, docid: DOCID + i });
          }),
        );
        catalog.foldBatch(history.commit(facts));
        for (const where of ended)
          catalog.foldBatch(history.commit([{ fact: 'ended', ...where, reason: 'deleted' }]));
        catalog.index.index(
          catalog.index.pending({ limit: 100 }).map(({ docid }) => ({ docid, entry: entry({}) })),
        );
        const counts = () =>
          QUERIES.map((query) => [
            query,
            catalog.prepare({ node: parseQuery(query, { now: 0 }).node }).count(),
          ]);
        const asked = counts();
        // In as many parts as there is time for.
        let parts = 0;
        const oneStretch = (): boolean => {
          parts += 1;
          return parts % 2 === 0;
        };
        while (!catalog.sumUnread(oneStretch)) expect(parts).toBeLessThan(1_000);
        expect(counts()).toEqual(asked);
      } finally {
        catalog.close();
      }
    }),
    { numRuns: 60 },
  );
});

/** What sums of the past answer, and what only looks like it. */
const PAST_QUERIES = [
  ...[
    '*',
    'is:deleted',
    '-is:deleted',
    'in:INBOX',
    'in:Archive',
    '-in:INBOX',
    'in:INBOX OR in:Archive',
  ],
  ...['in:INBOX in:Archive', 'in:INBOX is:deleted', '-(in:INBOX is:deleted)', 'in:Renamed*'],
  ...['is:unread', 'in:INBOX is:unread', 'in:INBOX in:Archive is:unread', '-in:Archive is:unread'],
  ...['is:unread is:deleted', '-is:unread', 'is:unread is:starred', 'in:INBOX is:read'],
  ...['mailbox:one@example.net', 'mailbox:one@example.net in:INBOX is:unread'],
  ...['added:..2100-01-01', 'added:2100-01-01.. in:INBOX', 'larger:1 in:INBOX'],
];

test('sums of the past and of additions count what asking each message counts', async () => {
  await fc.assert(
    fc.asyncProperty(steps([...ACTS, 'rename', 'purge']), (played) =>
      withHistory(played, (catalog, _db, times) => {
        const addedAt = times.flatMap((time) => {
          const moment = new Date(time).toISOString();
          return [`added:${moment}..`, `in:INBOX added:..${moment}`, `added:${moment} is:deleted`];
        });
        for (const reader of [catalog, catalog.within([{ host: HOST, mailbox: 'AC1' }])])
          for (const asOf of [undefined, ...times])
            for (const query of [...PAST_QUERIES, ...addedAt]) {
              const { node } = parseQuery(query, { now: 0 });
              const prepared = reader.prepare({ node, ...(asOf === undefined ? {} : { asOf }) });
              const asked = [...prepared.docids()].length;
              const started = prepared.countWhile(() => false);
              expect(started.count, query).toBeLessThanOrEqual(asked);
              expect(prepared.count(), `${query} as of ${asOf}`).toBe(asked);
            }
      }),
    ),
    { numRuns: 25 },
  );
});
