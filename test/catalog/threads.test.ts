import { createHash } from 'node:crypto';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Fact } from '../../src/archive/format.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import type { IndexEntry } from '../../src/mail/extraction.ts';
import { appeared, entry, INBOX, openRoom, place, START, sha256 } from './history.ts';

const DAY = 86_400_000;

interface Letter {
  readonly day: number;
  /** Null for a message without Message-ID. */
  readonly id: number | null;
  readonly references: readonly number[];
  readonly subject: string;
}

const letters = fc.array(
  fc.record<Letter>({
    day: fc.integer({ min: 0, max: 120 }),
    id: fc.option(fc.integer({ min: 0, max: 15 })),
    references: fc.array(fc.integer({ min: 0, max: 15 }), { maxLength: 2 }),
    subject: fc.constantFrom(
      'plan',
      'Re: plan',
      'Re: plan',
      'FW: [x] Plan',
      'budget',
      'Re: budget',
      'Re:',
      '',
    ),
  }),
  { minLength: 1, maxLength: 25 },
);

const name = (id: number) => `${id}@example.org`;
const docidOf = ({ day }: Letter, i: number) => ((START + day * DAY) / 1000) * 64 + i;
const nodeOf = (text: string) =>
  Math.floor(Number.parseInt(createHash('sha256').update(text).digest('hex').slice(0, 12), 16) / 2);
const idNode = (letter: Letter, i: number) =>
  nodeOf(letter.id === null ? sha256(`letter ${i}`) : name(letter.id));

/** What the manual says about threads, word for word, over a whole set: docid to thread. */
function threadsOf(set: readonly (readonly [Letter, number])[]): Map<number, number> {
  const base = (subject: string) =>
    subject
      .toLowerCase()
      .replace(/^(re: ?|fw: ?)/, '')
      .replace('[x] ', '');
  const edges: [number, number][] = [];
  for (const [letter, i] of set) {
    const node = idNode(letter, i);
    edges.push([node, node]);
    for (const reference of letter.references) edges.push([node, nodeOf(name(reference))]);
    const topic = base(letter.subject);
    if (letter.references.length > 0 || topic === letter.subject.toLowerCase() || topic === '')
      continue;
    const docid = docidOf(letter, i);
    const [nearest] = set
      .filter(([other]) => base(other.subject) === topic)
      .map(([other, j]) => ({ at: docidOf(other, j), node: idNode(other, j) }))
      .filter(({ at }) => at < docid && at >= docid - 30 * 86_400 * 64)
      .sort((a, b) => b.at - a.at);
    if (nearest !== undefined) edges.push([node, nearest.node]);
  }
  const least = new Map(edges.flat().map((node) => [node, node]));
  for (let changed = true; changed; ) {
    changed = false;
    for (const [a, b] of edges) {
      const low = Math.min(least.get(a) ?? a, least.get(b) ?? b);
      if (least.get(a) !== low || least.get(b) !== low) changed = true;
      least.set(a, low).set(b, low);
    }
  }
  return new Map(set.map(([letter, i]) => [docidOf(letter, i), least.get(idNode(letter, i)) ?? 0]));
}

function extracted({ id, references, subject }: Letter): IndexEntry {
  return entry({
    messageId: id === null ? null : name(id),
    references: references.map(name),
    subject,
  });
}

/** The rows that are left after these letters were indexed in this order and some of them purged. */
async function rowsAfter(
  all: readonly Letter[],
  order: readonly number[],
  purged: readonly number[],
  purge: 'one by one' | 'at once',
  meanwhile: ReadonlyMap<number, Letter> = new Map(),
) {
  const room = await openRoom();
  const { catalog, history } = room;
  room.fold(
    ...all.map((letter, i) =>
      appeared(place(INBOX, i + 1), `letter ${i}`, {
        docid: docidOf(letter, i),
        listing: { messageId: null, subject: null },
      }),
    ),
  );
  const index = (i: number, letter: Letter | undefined) => {
    if (letter === undefined) return;
    catalog.index.index([{ docid: docidOf(all[i] ?? letter, i), entry: extracted(letter) }]);
  };
  for (const i of order) index(i, meanwhile.get(i) ?? all[i]);
  // What an earlier extractor said about them is taken back.
  for (const i of meanwhile.keys()) index(i, all[i]);
  const facts = purged.map(
    (i): Fact => ({ fact: 'purged', message: sha256(`letter ${i}`), reason: 'forgotten' }),
  );
  for (const batch of purge === 'at once' ? [facts] : facts.map((fact) => [fact]))
    catalog.foldBatch(history.commit(batch));
  catalog.close();
  const db = new Database(catalogFile(room.dir), { readonly: true });
  const members = db
    .prepare<[], { docid: number; thread: number }>('SELECT * FROM thread_members ORDER BY docid')
    .all();
  const nodes = db.prepare('SELECT * FROM thread_nodes ORDER BY node').all();
  db.close();
  room.close();
  return { members, nodes };
}

test('threads are those of the definition, whatever the order of arrival', async () => {
  await fc.assert(
    fc.asyncProperty(
      letters.chain((all) => {
        const places = all.map((_, i) => i);
        return fc.tuple(
          fc.constant(all),
          fc.shuffledSubarray(places, { minLength: places.length }),
          fc.oneof(fc.constant<number[]>([]), fc.subarray(places)),
          fc.oneof(fc.constant<number[]>([]), fc.subarray(places)),
          letters,
        );
      }),
      async ([all, order, purged, changed, others]) => {
        const meanwhile = new Map<number, Letter>();
        for (const [n, i] of changed.entries()) {
          const other = others[n % others.length];
          if (other !== undefined) meanwhile.set(i, other);
        }
        const grown = await rowsAfter(all, order, purged, 'one by one', meanwhile);
        const left = all
          .map((letter, i) => [letter, i] as const)
          .filter(([, i]) => !purged.includes(i));
        const expected = threadsOf(left);
        expect(new Map(grown.members.map(({ docid, thread }) => [docid, thread]))).toEqual(
          expected,
        );
        const straight = await rowsAfter(
          all,
          all.map((_, i) => i),
          purged,
          'at once',
        );
        expect(grown).toEqual(straight);
      },
    ),
    { numRuns: 60 },
  );
}, 60_000);
