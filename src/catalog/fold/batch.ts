import type { Fact } from '../../archive/format/facts.ts';
import type { CommittedBatch } from '../../archive/format/records.ts';
import { catalogError } from '../../errors/catalog.ts';
import { named } from '../bound-sql.ts';
import type { Connection } from '../connection.ts';
import { FlagSets } from '../flag-sets.ts';
import { query, type Row } from '../query.ts';
import type { ComparedRecord, SettledRun } from '../settled-rows.ts';
import { FoldedChanges } from './changes.ts';
import { type FactOf, FoldedFolders } from './folders.ts';
import { FoldedMessages } from './messages.ts';
import { FoldedPlaceSets } from './place-sets.ts';
import { FoldedPlaces } from './places.ts';
import { FoldedPurges } from './purge.ts';
import { FoldedQuarantine } from './quarantine.ts';
import { FoldedRemovals } from './removal.ts';

const REACHED = query()((db) =>
  db.selectFrom('meta').select(['commit_number', 'commit_hash', 'commit_time', 'orphans']),
);
const REACH = query<
  Omit<Reached, 'hash'> & { hash: Buffer } & ReturnType<FoldedMessages['grown']>
>()((db, p) =>
  db.updateTable('meta').set((eb) => ({
    commit_number: p.number,
    commit_hash: p.hash,
    commit_time: p.time,
    orphans: eb('orphans', '+', p.orphans),
    messages: eb('messages', '+', p.messages),
    message_bytes: eb('message_bytes', '+', p.bytes),
  })),
);
const ADD_COMMIT = query<Row<'commits'>>()((db, p) =>
  db.insertInto('commits').values(named(p, 'number', 'time')),
);
const ADD_CERTIFICATE = query<Row<'certificates'>>()((db, p) =>
  db.replaceInto('certificates').values({
    ...named(p, 'folder_id', 'commit_number', 'generation', 'origin_total', 'stored', 'assumed'),
    ...named(p, 'quarantined', 'held', 'forgotten', 'complete', 'since'),
  }),
);

/** The commit a catalog has reached; number 0 and an empty hash before the first. */
export interface Reached {
  readonly number: number;
  readonly hash: string;
  readonly time: number;
  /** Facts about nothing known, so far. */
  readonly orphans: number;
}

export function reached(connection: Connection): Reached {
  const row = connection.get(REACHED, {});
  if (row === undefined)
    throw catalogError('catalog-damaged', { file: connection.file, reason: 'no meta row' });
  return {
    number: row.commit_number,
    hash: connection.hex(row.commit_hash),
    time: row.commit_time,
    orphans: row.orphans,
  };
}

/** A batch of which some messages are known to be in the catalog that it is compared with. */
export interface ComparedBatch extends Omit<CommittedBatch, 'records'> {
  readonly records: readonly ComparedRecord[];
}

/**
 * Folds batches of the log into rows: live after each commit, and one after the other in a rebuild. Given the
 * same batches it makes the same rows (invariant 3), so nothing here reads a clock or depends on what was
 * indexed in between.
 */
export class Fold {
  /** Runs of settled messages whose folder has another number here. */
  misplaced = 0;
  readonly #flagSets: FlagSets;
  readonly #folders: FoldedFolders;
  readonly #messages: FoldedMessages;
  readonly #places: FoldedPlaces;
  readonly #quarantine: FoldedQuarantine;
  readonly #purges: FoldedPurges;
  readonly #removals: FoldedRemovals;
  readonly #placeSets: FoldedPlaceSets | undefined;
  readonly #changes: FoldedChanges | undefined;

  /** @param sums whether sums over the rows are kept, which comparing does without */
  constructor(
    private readonly connection: Connection,
    sums: 'sums' | 'rows' = 'sums',
  ) {
    this.#placeSets = sums === 'sums' ? new FoldedPlaceSets(connection) : undefined;
    this.#changes = sums === 'sums' ? new FoldedChanges(connection) : undefined;
    this.#flagSets = new FlagSets(connection);
    this.#folders = new FoldedFolders(connection);
    this.#messages = new FoldedMessages(connection, this.#placeSets);
    this.#places = new FoldedPlaces(
      connection,
      this.#folders,
      this.#messages,
      this.#flagSets,
      this.#changes,
    );
    this.#quarantine = new FoldedQuarantine(connection, this.#folders, this.#flagSets);
    this.#purges = new FoldedPurges(connection, this.#folders, this.#messages, this.#changes);
    this.#removals = new FoldedRemovals(
      connection,
      this.#folders,
      this.#messages,
      this.#placeSets,
      this.#changes,
    );
  }

  /**
   * Batches in one transaction with the commit they reach (invariant 2): one when live, some dozens in a rebuild,
   * where a transaction each would write the same pages again and again.
   *
   * @param acrossGap accept a batch that does not follow the reached commit: only for a rebuild from a damaged
   *   log, where a batch in between cannot be read
   * @throws `catalog-out-of-step` when a batch does not follow the commit before it; nothing changes then
   */
  batches(batches: readonly CommittedBatch[], acrossGap = false): void {
    try {
      this.connection.transaction(() => {
        this.within(batches, acrossGap);
        this.#placeSets?.write();
      });
    } catch (error) {
      const parts = [this.#flagSets, this.#folders, this.#messages, this.#purges];
      for (const part of parts) part.forget();
      this.#placeSets?.forget();
      this.#changes?.forget();
      throw error;
    }
  }

  /** The same within a transaction of the caller, who gives up the catalog when this throws. */
  within(batches: readonly ComparedBatch[], acrossGap: boolean): void {
    for (const batch of batches) this.#apply(batch, acrossGap);
  }

  #apply({ commit, previousHash, records }: ComparedBatch, acrossGap: boolean): void {
    const before = reached(this.connection);
    const follows =
      commit.number === before.number + 1 && (before.number === 0 || previousHash === before.hash);
    if (!follows && !(acrossGap && commit.number > before.number))
      throw catalogError('catalog-out-of-step', {
        reached: before.number,
        reachedHash: before.hash,
        batch: commit.number,
        previousHash,
      });
    this.connection.run(ADD_COMMIT, { number: commit.number, time: commit.time });
    let orphans = 0;
    for (const record of records) {
      if (record.kind === 'blob') this.#messages.blob(record.hash, record.size, record.position);
      else if (record.kind === 'message')
        this.#messages.message(record.id, record.size, record.position);
      else if (record.kind === 'settled') this.#settled(record, commit.number);
      else if (!this.#fact(record.fact, commit.number, commit.time)) orphans += 1;
    }
    this.#purges.finish();
    this.#placeSets?.finish();
    this.#changes?.finish();
    this.#messages.finish();
    this.#folders.finish();
    const hash = Buffer.from(commit.hash, 'hex');
    this.connection.run(REACH, {
      number: commit.number,
      hash,
      time: commit.time,
      orphans,
      ...this.#messages.grown(),
    });
  }

  #settled({ place, folderId, messages, bytes }: SettledRun, commit: number): void {
    const { folder } = this.#folders.ofArrival(place, commit);
    if (folder.id !== folderId) this.misplaced += 1;
    this.#messages.counted(messages, bytes);
  }

  /** Folds one fact; false for a fact that names an unknown place. */
  #fact(fact: Fact, commit: number, time: number): boolean {
    switch (fact.fact) {
      case 'mailbox':
        this.#folders.mailbox(fact, commit);
        return true;
      case 'folder':
        this.#folders.folder(fact, commit);
        return true;
      case 'folder-renamed':
        this.#folders.renamed(fact, commit);
        return true;
      case 'folder-gone':
        this.#folders.gone(fact, commit);
        return true;
      case 'generation':
        this.#folders.generation(fact, commit);
        return true;
      case 'appeared':
        return this.#places.appeared(fact, commit);
      case 'flags':
        return this.#places.flags(fact, commit);
      case 'ended':
        return this.#places.ended(fact, commit);
      case 'reopened':
        return this.#places.reopened(fact, commit);
      case 'held':
        return this.#places.held(fact, commit);
      case 'verified':
        return this.#places.verified(fact, commit);
      case 'quarantined':
        return this.#quarantine.quarantined(fact, commit, time);
      case 'released':
        return this.#quarantine.released(fact, commit);
      case 'acknowledged':
        return this.#quarantine.acknowledged(fact, commit);
      case 'certificate':
        return this.#certificate(fact, commit);
      case 'missing':
        this.#messages.missing(fact.kind, fact.hash, fact.size);
        return true;
      case 'purged':
        for (const part of fact.removed ?? []) this.#removals.remove(part);
        this.#purges.purged(fact, commit);
        return true;
      default:
        return unknownFact(fact);
    }
  }

  #certificate(fact: FactOf<'certificate'>, commit: number): boolean {
    const { generation, stored, assumed, quarantined, held, forgotten, since } = fact;
    this.connection.run(ADD_CERTIFICATE, {
      folder_id: this.#folders.of(fact, commit),
      commit_number: commit,
      origin_total: fact.originTotal,
      complete: fact.complete ? 1 : 0,
      ...{ generation, stored, assumed, quarantined, held, forgotten, since },
    });
    return true;
  }
}

/** A newer program may write facts that this one does not know: they are counted, not guessed at. */
function unknownFact(_fact: never): boolean {
  return false;
}
