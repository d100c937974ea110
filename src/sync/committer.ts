import { hash } from 'node:crypto';
import type { Batch } from '../archive/batch.ts';
import type { Fact } from '../archive/format.ts';
import type { LogWriter } from '../archive/log-writer.ts';
import { MailkeepError } from '../core/errors.ts';
import type { BlobHash, Listing, MailboxKey, MessageId, Place } from '../core/types.ts';
import { docidBase } from '../mail/docid.ts';
import type { Mirror } from './mirror.ts';
import { type FetchedSource, isInvalidRequest } from './ports.ts';
import type {
  ExcludedFolder,
  FolderReconciliation,
  MailboxResult,
  ProgressListener,
  SyncFailure,
  SyncProgress,
  UnmatchedPattern,
} from './result.ts';

/** A batch closes at whichever limit it reaches first, usually `messages`. `bytes` bounds memory. */
const BATCH_LIMITS = { messages: 128, bytes: 4 * 1024 * 1024, ageMs: 1000, records: 2048 };

/** Maximum number of commits in progress while the next batch is being collected. */
const COMMITS_IN_FLIGHT = 1;

type Accepted = Extract<Fact, { fact: 'appeared' }>['accepted'];

interface StoreOptions {
  readonly accepted?: Accepted;
  readonly wasQuarantined?: boolean;
}

/** `size` is in bytes. Forgotten sources are not written. */
type PutSource =
  | {
      readonly is: 'stored';
      readonly id: MessageId;
      readonly docid: number;
      readonly size: number;
    }
  | { readonly is: 'forgotten'; readonly id: MessageId };

export interface CommitterDeps {
  readonly log: Pick<LogWriter, 'newBatch' | 'commit' | 'endThread'>;
  readonly mirror: Mirror;
  readonly now: () => number;
  readonly after: (ms: number, act: () => void) => () => void;
}

/**
 * Collects the results of sync runs in batches and makes them durable in order. For each batch, writes bytes and facts
 * to the log, updates the catalog, and then runs the batch's callbacks. Concurrent sync runs can share a committer; a
 * message found by two of them is stored once. The first failure is final: every later call throws it, so that nothing
 * is mistaken for stored after it.
 */
export class Committer {
  #batch: Batch;
  #callbacks: (() => void)[] = [];
  readonly #listeners = new Set<() => void>();
  #messages = new Map<MessageId, { docid: number; size: number }>();
  #inFlight = 0;
  #tail: Promise<void> = Promise.resolve();
  #failure: { readonly error: unknown } | undefined;
  #cancelTimer: (() => void) | undefined;
  /** Set while a large source is read from its file into the batch, since no commit may split it. */
  #large: Promise<void> | undefined;

  constructor(private readonly deps: CommitterDeps) {
    this.#batch = deps.log.newBatch();
  }

  /** Calls a listener after each durable batch. Returns a function that removes the listener. */
  onCommitted(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Adds a message and its appearance to the current batch. If the archive or a pending batch already contains the
   * bytes, or they are forgotten, only the place is recorded. Resolves once there is room for more, usually before the
   * bytes are durable. Calls `onDurable` once they are.
   */
  async storeSource(
    place: Place,
    listing: Listing,
    source: FetchedSource,
    { accepted, wasQuarantined = false }: StoreOptions,
    onDurable: (is: PutSource['is']) => void,
  ): Promise<PutSource> {
    const put = await this.putSource(place, listing, source);
    const { id, is } = put;
    if (put.is === 'forgotten') {
      this.noteForgotten(id, place, () => onDurable(is));
      return put;
    }
    const { docid, size } = put;
    const fact = { ...place, listing, docid, message: id, size };
    const how = accepted === undefined ? {} : { accepted };
    await this.addAppearance({ ...fact, ...how }, wasQuarantined, () => onDurable(is));
    return put;
  }

  /** Records the appearance of a message with known bytes. Resolves once there is room for more. */
  async addAppearance(
    fact: Omit<Extract<Fact, { fact: 'appeared' }>, 'fact'>,
    wasQuarantined: boolean,
    onDurable: () => void,
  ): Promise<void> {
    const { host, mailbox, folder, generation, uid } = fact;
    const place = { host, mailbox, folder, generation, uid };
    if (wasQuarantined) this.addFact({ fact: 'released', ...place, reason: 'stored' });
    this.addFact({ fact: 'appeared', ...fact }, onDurable);
    await this.#room();
  }

  /** Adds a message's bytes to the batch unless they are known, pending or forgotten. The caller adds the fact. */
  async putSource(
    mailbox: MailboxKey,
    listing: Listing,
    source: FetchedSource,
  ): Promise<PutSource> {
    const id = source.kind === 'buffer' ? hash('sha256', source.bytes) : source.sha256;
    while (this.#large !== undefined) await this.#large;
    this.#throwIfFailed();
    // Also if another mailbox has it.
    if (this.deps.mirror.forgottenAs(id, mailbox) !== undefined) return { is: 'forgotten', id };
    let entry = this.deps.mirror.message(id) ?? this.#messages.get(id);
    if (entry === undefined) {
      const size = await this.#addBytes(id, source);
      const docid = this.deps.mirror.docidFor(docidBase(listing.date, this.deps.now()));
      entry = { docid, size };
      this.#messages.set(id, entry);
    }
    return { is: 'stored', id, docid: entry.docid, size: entry.size };
  }

  /** Records where forgotten bytes appeared, so that they are not requested again. */
  noteForgotten(id: MessageId, place: Place, onDurable?: () => void): void {
    const { host, mailbox, folder, generation, uid } = place;
    const message = this.deps.mirror.forgottenAs(id, place) ?? id;
    const places = [{ host, mailbox, folder, generation, uid }];
    this.addFact({ fact: 'purged', message, reason: 'forgotten', places, again: true }, onDurable);
  }

  /** Adds an incomplete message's bytes as a blob for the fact that quarantines it. */
  keepAside(bytes: Buffer): BlobHash {
    this.#throwIfFailed();
    return this.#batch.addBlob(bytes);
  }

  addFact(fact: Fact, onDurable?: () => void): void {
    this.#throwIfFailed();
    this.#batch.addFact(fact);
    if (onDurable !== undefined) this.#callbacks.push(onDurable);
    if (this.#isFull()) this.#close();
    else this.#cancelTimer ??= this.deps.after(BATCH_LIMITS.ageMs, () => this.#close());
  }

  async flush(): Promise<void> {
    while (this.#large !== undefined) await this.#large;
    if (this.#batch.records > 0 && this.#failure === undefined) this.#close();
    await this.#tail;
    this.#throwIfFailed();
  }

  async #addBytes(id: MessageId, source: FetchedSource): Promise<number> {
    const isStored = (blob: BlobHash): boolean => this.deps.mirror.hasBlob(blob);
    if (source.kind === 'buffer') return this.#batch.addSource(source.bytes, id, isStored).size;
    const adding = this.#batch.addSourceFile(source.path, isStored, (blobs) =>
      this.#enqueue(blobs, []),
    );
    this.#large = adding.then(
      () => {},
      () => {},
    );
    try {
      return (await adding).size;
    } finally {
      this.#large = undefined;
    }
  }

  #isFull(): boolean {
    const { messages, bytes, records } = this.#batch;
    return (
      messages >= BATCH_LIMITS.messages ||
      bytes >= BATCH_LIMITS.bytes ||
      records >= BATCH_LIMITS.records
    );
  }

  #close(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    if (this.#large !== undefined) {
      this.#cancelTimer = this.deps.after(BATCH_LIMITS.ageMs, () => this.#close());
      return;
    }
    if (this.#batch.records === 0 || this.#failure !== undefined) return;
    const batch = this.#batch;
    const callbacks = this.#callbacks;
    this.#batch = this.deps.log.newBatch();
    this.#callbacks = [];
    void this.#enqueue(batch, callbacks);
  }

  /** Commits and folds batches in order. Never rejects: later calls throw the failure. */
  #enqueue(batch: Batch, callbacks: readonly (() => void)[]): Promise<void> {
    this.#inFlight += 1;
    this.#tail = this.#tail
      .then(async () => {
        if (this.#failure !== undefined) return;
        const commit = await this.deps.log.commit(batch);
        this.deps.mirror.fold(commit);
        for (const record of commit.records) {
          if (record.kind === 'message') this.#messages.delete(record.id);
        }
        for (const callback of callbacks) callback();
        for (const listener of this.#listeners) listener();
      })
      .catch((error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(() => {
        this.#inFlight -= 1;
      });
    return this.#tail;
  }

  async #room(): Promise<void> {
    while (this.#inFlight > COMMITS_IN_FLIGHT && this.#failure === undefined) await this.#tail;
    this.#throwIfFailed();
  }

  #throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }
}

type Counter = Exclude<keyof MailboxResult, 'account' | 'address' | 'heldUntil' | 'comparison'>;

export const NO_WORK: Omit<MailboxResult, 'address'> = {
  folders: 0,
  added: 0,
  ended: 0,
  flagsChanged: 0,
  relinked: 0,
  verified: 0,
  corrected: 0,
  quarantined: 0,
  held: 0,
  heldUntil: null,
  bytes: 0,
  compared: 0,
  comparison: 'none',
};

const { heldUntil: _until, comparison: _comparison, ...NO_COUNTS } = NO_WORK;

type OfAnAccount = Extract<SyncProgress, { readonly account: string }>;
/** Progress of one account, without the account's name, which the ledger adds. */
type AccountProgress = OfAnAccount extends infer T
  ? T extends T
    ? Omit<T, 'account'>
    : never
  : never;

/** Counts, failures and reconciliations for one account's sync run. */
export class Ledger {
  readonly #mailboxes = new Map<string, Record<Counter, number>>();
  readonly #changed = new Set<string>();
  readonly #opened = new Set<string>();
  /** Expiry of the deletion guard's hold on each mailbox, in milliseconds since the epoch. */
  readonly #heldUntil = new Map<string, number>();
  /** Messages to fetch according to the folder listings. */
  #expected = 0;
  readonly failures: SyncFailure[] = [];
  readonly certificates: FolderReconciliation[] = [];
  readonly excluded: ExcludedFolder[] = [];
  readonly unmatched: UnmatchedPattern[] = [];

  constructor(
    private readonly account: string,
    private readonly progress: ProgressListener,
  ) {}

  /** Adds to one of a mailbox's counts. The first call adds the mailbox to the result. */
  count(address: string, counter: Counter, amount: number): void {
    const counts = this.#mailboxes.get(address) ?? { ...NO_COUNTS };
    counts[counter] += amount;
    this.#mailboxes.set(address, counts);
    this.#changed.add(address);
  }

  expect(messages: number): void {
    this.#expected += messages;
  }

  /** Returns what was fetched so far, and the messages that remain. */
  fetched() {
    const all = [...this.#mailboxes.values()];
    const messages = all.reduce((sum, { added }) => sum + added, 0);
    const bytes = all.reduce((sum, one) => sum + one.bytes, 0);
    return { messages, bytes, remaining: Math.max(0, this.#expected - messages) };
  }

  open(address: string, folders: number): void {
    this.count(address, 'folders', folders);
    this.#opened.add(address);
  }

  /** Records when the deletion guard's hold on a mailbox expires. The latest expiry among its held folders applies. */
  hold(address: string, until: number): void {
    this.#heldUntil.set(address, Math.max(until, this.#heldUntil.get(address) ?? 0));
  }

  exclude(mailbox: string, folders: readonly string[]): void {
    for (const folder of folders) this.excluded.push({ mailbox, folder });
  }

  report(progress: AccountProgress): void {
    this.progress({ ...progress, account: this.account });
  }

  announce(): void {
    for (const address of this.#changed) {
      const counts = this.#mailboxes.get(address);
      if (counts === undefined) continue;
      const { added: messages, bytes } = counts;
      this.report({ event: 'stored', address, messages, bytes });
    }
    this.#changed.clear();
  }

  /** Records a failure that does not stop the rest. Anything but a MailkeepError is a bug, and is rethrown. */
  fail(
    error: unknown,
    at: { readonly mailbox?: string; readonly folder?: string; readonly place?: Place } = {},
  ): void {
    if (!(error instanceof MailkeepError)) throw error;
    this.failures.push({
      account: this.account,
      mailbox: at.mailbox ?? null,
      folder: at.folder ?? at.place?.folder ?? null,
      uid: at.place?.uid ?? null,
      // The service chose a name that cannot be requested, so the user is not at fault.
      family: isInvalidRequest(error) ? 'origin' : error.family,
      code: error.code,
      facts: error.facts,
    });
  }

  results(): MailboxResult[] {
    return [...this.#mailboxes].map(([address, counts]) => {
      const until = this.#heldUntil.get(address);
      const all = this.#opened.has(address) && counts.compared >= counts.folders;
      return {
        account: this.account,
        address,
        ...counts,
        heldUntil: until === undefined ? null : new Date(until).toISOString(),
        comparison: all ? 'all' : counts.compared > 0 ? 'some' : 'none',
      };
    });
  }
}
