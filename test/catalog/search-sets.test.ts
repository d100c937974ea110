import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Fact } from '../../src/archive/format.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import type { Connection } from '../../src/catalog/database.ts';
import { catalogFile, openForReading } from '../../src/catalog/database.ts';
import { allNames, archiveNames } from '../../src/catalog/folders.ts';
import { messageQueries } from '../../src/catalog/messages.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { alternatives, ObservedCommits, resolve } from '../../src/catalog/resolve-query.ts';
import { SetSearch } from '../../src/catalog/search-sets.ts';
import { commitAt } from '../../src/catalog/sql.ts';
import { threadNaming, threadOf } from '../../src/catalog/threads.ts';
import type { FolderKey, Place } from '../../src/core/types.ts';
import { type Seeded, seeded } from '../bench/seeded.ts';
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
import { unlessRefused } from './unless-refused.ts';

const FOLDERS: readonly FolderKey[] = [
  INBOX,
  { ...INBOX, folder: 'Archive' },
  { ...INBOX, folder: 'Old' },
  { ...INBOX, mailbox: 'AC2' },
];
const FLAGS = [[], ['\\Seen'], ['\\Flagged', '\\Seen'], ['\\Answered', '$Work']];
const WORDS = ['rent', 'ferry', 'invoice', 'plan'];
/** More than one stretch of sets has, so that several are put behind each other. */
const MESSAGES = 2_300;
/** Commits with changes, and messages that each changes. */
const COMMITS = 5;
const CHANGES = 500;
const SEED = Number(process.env.MAILKEEP_SEED ?? 7);

const ATOMS = [
  ...WORDS,
  ...['"rent plan"', 'fer*', 'pl*', 'subject:rent', 'ferry NEAR/3 plan', '*'],
  ...['in:INBOX', 'in:Archive', 'in:Old', 'in:*', 'is:unread', 'is:read', 'is:starred'],
  ...['is:unstarred', 'is:answered', 'flag:work', 'is:deleted', 'has:attachment'],
  ...['larger:1500', 'smaller:2k', 'size:1800..2200', 'before:2023-07-01', 'after:2023-10-01'],
  ...['on:2023-05', 'date:2023-03..2023-11', 'mailbox:two@example.net', 'in:Nowhere'],
  ...['thread:"<1@example.org>"', 'id:"<7@example.org>"', 'id:"<8@example.org>"'],
];
const atom = fc.constantFrom(...ATOMS);
const { query } = fc.letrec<{ query: string }>((tie) => ({
  query: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    atom,
    fc.tuple(tie('query'), tie('query')).map(([a, b]) => `(${a} ${b})`),
    fc.tuple(tie('query'), tie('query')).map(([a, b]) => `(${a} OR ${b})`),
    tie('query').map((a) => `-(${a})`),
  ),
}));

interface Kept {
  readonly docid: number;
  readonly message: string;
  /** Where it ever was, and whether it is there now. */
  readonly places: { readonly at: Place; open: boolean }[];
}

/** Messages that come, are copied, flagged, end in one place or in all at once, and come back. */
class Mailboxes {
  readonly kept: Kept[] = [];
  #uid = 0;

  constructor(
    private readonly random: Seeded,
    private readonly docidFor: (base: number) => number,
  ) {}

  come(): Fact {
    const day = Date.UTC(2023, 0, 1) + this.random.below(365) * 86_400_000;
    const docid = this.docidFor((day / 1000) * 64);
    const message = `message ${this.kept.length}`;
    const at = this.#free();
    this.kept.push({ docid, message, places: [{ at, open: true }] });
    const size = 1_000 + this.random.below(1_500);
    return appeared(at, message, { docid, listing: { size, flags: this.#flags() } });
  }

  changes(): Fact[] {
    const kept = this.kept[this.random.below(this.kept.length)];
    if (kept === undefined) return [];
    const [one] = kept.places.filter(({ open }) => open === this.random.below(4) > 0);
    switch (this.random.below(5)) {
      case 0: {
        const at = this.#free();
        kept.places.push({ at, open: true });
        const { docid } = kept;
        return [appeared(at, kept.message, { docid, listing: { flags: this.#flags() } })];
      }
      case 1:
        return kept.places.filter(({ open }) => open).map((held) => this.#end(held));
      case 2:
        return one?.open === true ? [this.#end(one)] : [];
      default:
        if (one === undefined) return [];
        if (one.open) return [{ fact: 'flags', ...one.at, flags: this.#flags() }];
        one.open = true;
        return [{ fact: 'reopened', ...one.at, flags: this.#flags(), reason: 'answers' }];
    }
  }

  #end(held: Kept['places'][number]): Fact {
    held.open = false;
    return { fact: 'ended', ...held.at, reason: 'deleted' };
  }

  #free(): Place {
    this.#uid += 1;
    return place(FOLDERS[this.random.below(FOLDERS.length)] ?? INBOX, this.#uid);
  }

  #flags(): string[] {
    return FLAGS[this.random.below(FLAGS.length)] ?? [];
  }
}

describe('sets against walks', () => {
  const room = temporaryDir();
  let catalog: WritableCatalog;
  let connection: Connection;
  /** When each commit was made. */
  const times: number[] = [];
  const then = new Map<string, number[][]>();
  const remembered = new Set(fc.sample(query, { numRuns: 60, seed: SEED }));

  beforeAll(async () => {
    console.log(`sets against walks: MAILKEEP_SEED=${SEED}`);
    const random = seeded('sets', SEED);
    catalog = await openCatalog(room.dir);
    const history = new History();
    const boxes = new Mailboxes(random, (base) => catalog.docidFor(base));
    const fold = (facts: readonly Fact[]): void => {
      const batch = history.commit(facts);
      catalog.foldBatch(batch);
      times.push(batch.commit.time);
    };
    fold([
      mailbox(INBOX, 'one@example.net'),
      mailbox({ ...INBOX, mailbox: 'AC2' }, 'two@example.net'),
      ...FOLDERS.map((key) => folder(key)),
    ]);
    for (let commit = 0; commit < COMMITS; commit += 1) {
      const from = boxes.kept.length;
      fold([
        ...Array.from({ length: MESSAGES / COMMITS }, () => boxes.come()),
        ...(commit === 0 ? [] : Array.from({ length: CHANGES }, () => boxes.changes()).flat()),
      ]);
      // Some wait to be indexed until the end.
      catalog.index.index(
        boxes.kept
          .slice(from)
          .filter((_, i) => i % 6 > 0)
          .map(({ docid }, i) => ({ docid, entry: letter(random, from + i) })),
      );
      for (const text of remembered) then.set(text, [...(then.get(text) ?? []), walked(text)]);
    }
    connection = openForReading(catalogFile(room.dir));
  });
  afterAll(() => {
    connection.close();
    catalog.close();
    room.remove();
  });

  const nodeOf = (text: string) => parseQuery(text, { now: START, timeZone: 'UTC' }).node;

  const walked = (text: string, asOf?: number): number[] =>
    unlessRefused(() => [
      ...catalog.prepare({ node: nodeOf(text), ...(asOf === undefined ? {} : { asOf }) }).docids(),
    ]) ?? [];

  const setsOf = (text: string, asOf?: number): SetSearch => {
    const commit = asOf === undefined ? null : commitAt(connection, asOf);
    const names = {
      ...archiveNames(connection, commit),
      byIdPrefix: messageQueries(connection).docidsByPrefix,
      ever: () => allNames(connection),
      threadOf: (docid: number) => threadOf(connection, docid),
      threadNaming: (messageId: string) => threadNaming(connection, messageId),
      observed: new ObservedCommits(connection, { asOf: commit, scope: null }),
      accounts: new Map<string, string>(),
    };
    const found = alternatives(resolve(nodeOf(text), names, () => undefined));
    return new SetSearch(connection, found, { asOf: commit, scope: null });
  };

  test('give the same, in both directions and in number, now and as of any moment', () => {
    let finding = 0;
    fc.assert(
      fc.property(query, fc.integer({ min: -1, max: COMMITS + 1 }), (text, at) => {
        const asOf = at > COMMITS ? undefined : (times[at] ?? Date.UTC(2000, 0, 1));
        const expected = walked(text, asOf);
        const sets = unlessRefused(() => setsOf(text, asOf));
        if (sets === undefined) return;
        expect([...sets.walk('newest')]).toEqual(expected);
        expect([...sets.walk('oldest')]).toEqual(expected.toReversed());
        expect(sets.countWhile(() => true).count).toBe(expected.length);
        if (expected.length > 0) finding += 1;
      }),
      { numRuns: 250, seed: SEED },
    );
    // Nothing compared with nothing would prove nothing.
    expect(finding).toBeGreaterThan(100);
  });

  test('find as of a moment what was found then', () => {
    const differences: string[] = [];
    for (const [text, found] of then)
      for (const [commit, expected] of found.entries()) {
        // The first commit has no messages yet.
        const asOf = times[commit + 1];
        if (JSON.stringify(walked(text, asOf)) !== JSON.stringify(expected))
          differences.push(`${text} as of commit ${commit + 2}`);
      }
    expect(differences).toEqual([]);
  });
});

function letter(random: Seeded, number: number) {
  const words = Array.from({ length: 6 }, () => WORDS[random.below(WORDS.length)] ?? '');
  return entry({
    subject: WORDS[random.below(WORDS.length)] ?? '',
    body: words.join(' '),
    messageId: `${number}@example.org`,
    references: number % 10 === 0 ? [] : [`${number - (number % 10)}@example.org`],
  });
}

test('an empty archive has nothing, however it is asked', async () => {
  const room = temporaryDir();
  const catalog = await openCatalog(room.dir);
  try {
    for (const text of ['*', 'rent OR larger:5', '-rent', '(rent OR in:INBOX) -is:deleted']) {
      const { node } = parseQuery(text, { now: START });
      for (const sort of ['newest', 'oldest', 'relevance'] as const)
        expect(catalog.prepare({ node }).page({ limit: 5, sort }).hits).toEqual([]);
      expect(catalog.prepare({ node }).count()).toBe(0);
      expect(catalog.prepare({ node, asOf: START }).count()).toBe(0);
    }
  } finally {
    catalog.close();
    room.remove();
  }
});
