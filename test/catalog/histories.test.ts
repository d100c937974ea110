import Database from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Fact } from '../../src/archive/facts.ts';
import type { CommittedBatch } from '../../src/archive/records.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import type { PlaceLine } from '../../src/catalog/list.ts';
import { catalogFile } from '../../src/catalog/open.ts';
import { type FlagSet, type FolderKey, flagSet, type Place } from '../../src/mail/words.ts';
import {
  appeared,
  extraction,
  folder,
  History,
  HOST,
  listing,
  mailbox,
  place,
  sha256,
  temporaryDir,
} from './history.ts';

const FOLDERS: readonly FolderKey[] = [
  { host: HOST, mailbox: 'AC1', folder: 'INBOX' },
  { host: HOST, mailbox: 'AC1', folder: 'Archive' },
  { host: HOST, mailbox: 'AC2', folder: 'INBOX' },
];
const FLAGS: readonly FlagSet[] = [[], ['\\Seen'], ['\\Flagged', '\\Seen'], ['\\Seen', 'work']];

/** One step of a random history; numbers choose among what is possible when it is played. */
interface Step {
  readonly act:
    | 'arrive'
    | 'copy'
    | 'flag'
    | 'end'
    | 'reopen'
    | 'move'
    | 'hold'
    | 'quarantine'
    | 'release'
    | 'rename'
    | 'purge'
    | 'commit';
  readonly a: number;
  readonly b: number;
}

const ACTS: readonly Step['act'][] = [
  ...(['arrive', 'arrive', 'arrive', 'copy', 'flag', 'flag', 'end', 'reopen', 'move'] as const),
  ...(['hold', 'quarantine', 'release', 'commit', 'commit', 'commit'] as const),
];
const steps = (acts: readonly Step['act'][]) =>
  fc.array(fc.record({ act: fc.constantFrom(...acts), a: fc.nat(1000), b: fc.nat(1000) }), {
    minLength: 5,
    maxLength: 60,
  });

interface Stood {
  readonly place: Place;
  readonly message: string;
  flags: FlagSet;
  open: boolean;
}

/** A simple mailbox that plays steps, gives the facts of them, and knows what a list must show. */
class Model {
  readonly history = new History();
  readonly places: Stood[] = [];
  readonly quarantined: Place[] = [];
  readonly paths = FOLDERS.map((key) => key.folder);
  #facts: Fact[] = [
    mailbox({ ...keyOf(0, 'INBOX') }, 'one@example.net'),
    mailbox({ ...keyOf(2, 'INBOX') }, 'two@example.net'),
    ...FOLDERS.map((key) => folder(key)),
  ];
  #uid = 0;
  #names = 0;

  play({ act, a, b }: Step): boolean {
    const open = this.places.filter((stood) => stood.open);
    const gone = this.places.filter((stood) => !stood.open);
    const chosen = open[a % Math.max(1, open.length)];
    switch (act) {
      case 'arrive':
        this.#arrive(a % 3, `message ${this.#names++}`, FLAGS[b % 4] ?? []);
        break;
      case 'copy':
        if (chosen !== undefined) this.#arrive(b % 3, chosen.message, chosen.flags);
        break;
      case 'flag': {
        const flags = FLAGS[b % 4] ?? [];
        if (chosen === undefined) break;
        chosen.flags = flags;
        this.#facts.push({ fact: 'flags', ...this.#at(chosen.place), flags });
        break;
      }
      case 'end':
        if (chosen !== undefined) this.#end(chosen);
        break;
      case 'reopen': {
        const back = gone[a % Math.max(1, gone.length)];
        if (back === undefined) break;
        back.open = true;
        back.flags = FLAGS[b % 4] ?? [];
        const at = this.#at(back.place);
        this.#facts.push({ fact: 'reopened', ...at, flags: back.flags, reason: 'answers' });
        break;
      }
      case 'move':
        if (chosen === undefined) break;
        this.#end(chosen);
        this.#arrive(b % 3, chosen.message, chosen.flags, this.#at(chosen.place));
        break;
      case 'hold':
        if (chosen !== undefined)
          this.#facts.push({ fact: 'held', ...this.#at(chosen.place), held: b % 2 === 0 });
        break;
      case 'quarantine': {
        const at = place(keyOf(a % 3), ++this.#uid);
        this.quarantined.push(at);
        this.#facts.push({
          fact: 'quarantined',
          ...this.#at(at),
          listing: listing(at.uid),
          reason: 'short',
          detail: '',
        });
        break;
      }
      case 'release': {
        const [at] = this.quarantined.splice(0, 1);
        if (at === undefined) break;
        this.#facts.push({ fact: 'released', ...this.#at(at), reason: 'ended' });
        break;
      }
      case 'rename': {
        const index = a % 3;
        const key = keyOf(index, this.paths[index]);
        const to = `Renamed ${this.#names++}`;
        this.#facts.push({ fact: 'folder-renamed', ...key, to });
        this.paths[index] = to;
        break;
      }
      case 'purge': {
        const message = this.places[a % Math.max(1, this.places.length)]?.message;
        if (message === undefined) break;
        const still = this.places.filter((stood) => stood.message === message && stood.open);
        this.#facts.push({
          fact: 'purged',
          message: sha256(message),
          reason: 'forgotten',
          places: still.map((stood) => this.#at(stood.place)),
        });
        for (const stood of this.places.filter((one) => one.message === message))
          this.places.splice(this.places.indexOf(stood), 1);
        break;
      }
      case 'commit':
        if (this.#facts.length === 0) return false;
        this.history.commit(this.#facts);
        this.#facts = [];
        return true;
    }
    return false;
  }

  /** What a list of current places must show, in no order. */
  current(): string[] {
    return [
      ...this.places
        .filter((stood) => stood.open)
        .map((stood) => this.#shown(stood.place, sha256(stood.message), stood.flags)),
      ...this.quarantined.map((at) => this.#shown(at, null, [])),
    ].sort();
  }

  ended(): string[] {
    return this.places
      .filter((stood) => !stood.open)
      .map((stood) => this.#shown(stood.place, sha256(stood.message), stood.flags))
      .sort();
  }

  #shown(at: Place, id: string | null, flags: FlagSet): string {
    const { folder: path } = this.#at(at);
    return shown(addressOf(at.mailbox), path, at.uid, id, flags);
  }

  #at(at: Place): Place {
    const index = FOLDERS.findIndex(
      (key) => key.mailbox === at.mailbox && key.folder === at.folder,
    );
    return { ...at, folder: this.paths[index] ?? at.folder };
  }

  #arrive(index: number, message: string, flags: FlagSet, assumedFrom?: Place): void {
    const at = place(keyOf(index), ++this.#uid);
    this.places.push({ place: at, message, flags, open: true });
    const docid = (20_000 + (Number.parseInt(sha256(message).slice(0, 6), 16) % 5000)) * 64;
    this.#facts.push(
      appeared(this.#at(at), message, {
        listing: { flags: flagSet(flags) },
        docid,
        ...(assumedFrom === undefined ? {} : { assumedFrom }),
      }),
    );
  }

  #end(stood: Stood): void {
    stood.open = false;
    this.#facts.push({ fact: 'ended', ...this.#at(stood.place), reason: 'deleted' });
  }
}

function keyOf(index: number, path?: string): FolderKey {
  const key = FOLDERS[index] ?? FOLDERS[0];
  if (key === undefined) throw new Error('no folders');
  return path === undefined ? key : { ...key, folder: path };
}

function addressOf(resource: string): string {
  return resource === 'AC1' ? 'one@example.net' : 'two@example.net';
}

function shown(
  address: string,
  path: string,
  uid: number,
  id: string | null,
  flags: FlagSet,
): string {
  return JSON.stringify([address, path, uid, id, flags]);
}

function lines(list: Iterable<PlaceLine>): string[] {
  return [...list].map((line) => shown(line.mailbox, line.folder, line.uid, line.id, line.flags));
}

/** Every row that the fold makes; what indexing makes is left out. */
function dump(dir: string): Record<string, unknown[]> {
  const db = new Database(catalogFile(dir), { readonly: true });
  const tables = db
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'msg_fts%' AND name NOT LIKE 'text%'",
    )
    .pluck()
    .all();
  const rows = Object.fromEntries(
    tables.map((table) => [
      table,
      db
        .prepare<[], Record<string, unknown>>(`SELECT * FROM "${table}" ORDER BY 1, 2`)
        .all()
        .map(({ extractor: _extractor, ...row }) => row),
    ]),
  );
  db.close();
  return rows;
}

/** The batches as purging leaves them: neither the bytes nor the facts of what was purged. */
function withoutPurged(batches: readonly CommittedBatch[]): CommittedBatch[] {
  const facts = batches.flatMap(({ records }) =>
    records.flatMap((record) => (record.kind === 'fact' ? [record.fact] : [])),
  );
  const purged = new Set(facts.flatMap((fact) => (fact.fact === 'purged' ? [fact.message] : [])));
  const keyOfPlace = (at: Place) => JSON.stringify([at.mailbox, at.folder, at.uid]);
  const places = new Set(
    facts.flatMap((fact) =>
      fact.fact === 'appeared' && purged.has(fact.message) ? [keyOfPlace(fact)] : [],
    ),
  );
  return batches.map((batch) => ({
    ...batch,
    records: batch.records.filter((record) => {
      if (record.kind === 'message') return !purged.has(record.id);
      if (record.kind !== 'fact' || !('uid' in record.fact)) return true;
      return !places.has(keyOfPlace(record.fact));
    }),
  }));
}

/** Indexes what is pending, as a daemon does in between. */
function indexSome(catalog: WritableCatalog): void {
  const documents = catalog.index
    .pending({ limit: 7 })
    .map(({ docid }) => ({ docid, extraction: extraction({ body: `text of ${docid}` }) }));
  catalog.index.index(documents);
}

async function withCatalog(
  act: (catalog: WritableCatalog, dir: string) => void | Promise<void>,
): Promise<void> {
  const room = temporaryDir();
  const catalog = await openCatalog(room.dir);
  try {
    await act(catalog, room.dir);
  } finally {
    catalog.close();
    room.remove();
  }
}

describe('random histories', () => {
  test('the list shows what the model holds, and as of a commit what it held then', async () => {
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'rename']), (played) =>
        withCatalog((catalog) => {
          const model = new Model();
          const then: { time: number; listed: string[]; deleted: string[] }[] = [];
          for (const step of [...played, { act: 'commit', a: 0, b: 0 } as const]) {
            if (!model.play(step)) continue;
            const batch = model.history.batches.at(-1);
            if (batch === undefined) continue;
            catalog.foldBatch(batch);
            const listed = lines(catalog.list({}));
            const deleted = lines(catalog.list({ deleted: true }));
            expect(listed.toSorted()).toEqual(model.current());
            expect(deleted.toSorted()).toEqual(model.ended());
            then.push({ time: batch.commit.time, listed, deleted });
          }
          for (const { time, listed, deleted } of then) {
            // Anywhere between this commit and the next one.
            expect(lines(catalog.list({ asOf: time }))).toEqual(listed);
            expect(lines(catalog.list({ asOf: time + 59_999 }))).toEqual(listed);
            expect(lines(catalog.list({ asOf: time, deleted: true }))).toEqual(deleted);
          }
          const { listed = [] } = then.at(-1) ?? {};
          const byFolder = FOLDERS.flatMap((key, i) =>
            lines(catalog.list({ mailbox: addressOf(key.mailbox), folder: model.paths[i] ?? '' })),
          );
          expect(byFolder.toSorted()).toEqual(listed.toSorted());
          expect(lines(catalog.list({ mailbox: 'ac1' }))).toEqual(
            listed.filter((line) => line.includes('one@example.net')),
          );
          expect(catalog.orphans()).toBe(0);
        }),
      ),
      { numRuns: 60 },
    );
  });

  test('folding again from scratch gives the same rows, however it was grouped and indexed', async () => {
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'rename', 'purge']), (played) =>
        withCatalog((live, liveDir) => {
          const model = new Model();
          for (const [i, step] of [...played, { act: 'commit', a: 0, b: 0 } as const].entries()) {
            const batch = model.play(step) ? model.history.batches.at(-1) : undefined;
            if (batch !== undefined) live.foldBatch(batch);
            if (i % 5 === 0) indexSome(live);
          }
          return withCatalog((again, againDir) => {
            again.foldBatches(model.history.batches);
            expect(dump(againDir)).toEqual(dump(liveDir));
            const totals = live.totals();
            expect(again.totals()).toEqual({ ...totals, pending: again.index.pendingCount() });
          });
        }),
      ),
      { numRuns: 60 },
    );
  });

  test('a log from which purged facts are gone gives the same lists and counts', async () => {
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'purge']), (played) =>
        withCatalog(async (live) => {
          const model = new Model();
          for (const step of [...played, { act: 'commit', a: 0, b: 0 } as const]) {
            const batch = model.play(step) ? model.history.batches.at(-1) : undefined;
            if (batch !== undefined) live.foldBatch(batch);
          }
          await withCatalog((again) => {
            again.foldBatches(withoutPurged(model.history.batches));
            for (const filter of [{}, { deleted: true }])
              expect(lines(again.list(filter))).toEqual(lines(live.list(filter)));
            for (const { id, ...key } of live.folders.all())
              expect(again.folders.counts(again.folders.find(key)?.id ?? -1)).toEqual(
                live.folders.counts(id),
              );
            expect(again.totals()).toEqual(live.totals());
            expect(again.orphans()).toBe(0);
          });
        }),
      ),
      { numRuns: 40 },
    );
  });

  test('a message ends and comes back with as many current places as it has', async () => {
    await fc.assert(
      fc.asyncProperty(steps(ACTS), (played) =>
        withCatalog((catalog, dir) => {
          const model = new Model();
          for (const step of [...played, { act: 'commit', a: 0, b: 0 } as const]) {
            const batch = model.play(step) ? model.history.batches.at(-1) : undefined;
            if (batch !== undefined) catalog.foldBatch(batch);
          }
          const db = new Database(catalogFile(dir), { readonly: true });
          const wrong = db
            .prepare(
              'SELECT docid FROM messages m WHERE open_places <> (SELECT count(*) FROM places p WHERE p.docid = m.docid AND to_commit IS NULL)',
            )
            .all();
          const overlaps = db
            .prepare(
              'SELECT s.id FROM spans s JOIN places p ON p.id = s.place_id WHERE s.from_commit > s.to_commit OR s.to_commit > p.from_commit',
            )
            .all();
          db.close();
          expect(wrong).toEqual([]);
          expect(overlaps).toEqual([]);
        }),
      ),
      { numRuns: 40 },
    );
  });
});
