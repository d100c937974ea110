import { setImmediate as nextTurn } from 'node:timers/promises';
import { type FileLayer, realFiles } from '../archive/file-system.ts';
import type { Locator, Position } from '../archive/format.ts';
import { openLogReader, scanLog } from '../archive/log-reader.ts';
import { readAroundBadSectors } from '../archive/mend-segment.ts';
import { checkFormat } from '../archive/recovery.ts';
import type { SettledCounts } from '../catalog/comparison.ts';
import {
  type Finding,
  Findings,
  type MessageProblem,
  messageFinding,
  messagesInDamage,
  type SegmentDamage,
} from '../catalog/findings.ts';
import type { ComparedBatch } from '../catalog/fold.ts';
import {
  type ComparedCatalog,
  type ImpliedCatalog,
  openImpliedCatalog,
} from '../catalog/implied.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import type { BlobHash, MessageId } from '../core/types.ts';
import { type MessagesJob, type SegmentChecker, tryCatalog } from './check-segment.ts';
import {
  type CatalogFailure,
  type CatalogState,
  catalogFailure,
  compareCatalog,
  FindingLookup,
  type OpenedCatalog,
  openCheckedCatalog,
} from './fast-compare.ts';
import {
  type ConfirmedCommit,
  type LogReading,
  type LogTotals,
  NOTHING_READ,
  readLog,
  type VerifyProgress,
} from './read-log.ts';

type SettlingState = NonNullable<ReturnType<typeof settlingState>>;

/**
 * Returns the catalog state for settling messages; see `FastComparison`. If another process writes, threads see
 * different states. The version then differs at the end, and everything settled is disregarded.
 *
 * @returns `upTo`: messages from later commits are not settled
 */
function settlingState({ catalog, reached }: Pick<OpenedCatalog, 'catalog' | 'reached'>) {
  if (catalog === undefined || reached === undefined) return undefined;
  return tryCatalog(() =>
    catalog.settles() ? { catalog, upTo: reached.number, version: catalog.version() } : undefined,
  );
}

/**
 * Reports whether the catalog is unchanged since settling, contains exactly the settled and folded rows, and is
 * consistent. False proves nothing. The caller has frozen the catalog.
 *
 * @param contradicting result of `findContradictingTables`, requested after `settlingState`, so that an identical
 * version means the same state
 * @throws AbortError; errors from `contradicting` unrelated to the catalog
 */
async function agrees(
  { catalog, upTo, version }: SettlingState,
  implied: ImpliedCatalog,
  settled: SettledCounts,
  contradicting: Promise<readonly string[]>,
  signal: AbortSignal,
): Promise<boolean> {
  const comparing = tryCatalog(() => {
    const reached = [catalog, implied].map((side) => side.reached().number);
    const isSame = catalog.version() === version && reached.every((number) => number === upTo);
    return isSame ? implied.agrees(catalog, settled) : undefined;
  });
  for (;;) {
    const step = tryCatalog(() => comparing?.next());
    if (step === undefined) return false;
    if (step.done === true) return step.value && (await isConsistent(contradicting));
    await nextTurn();
    signal.throwIfAborted();
  }
}

async function isConsistent(contradicting: Promise<readonly string[]>): Promise<boolean> {
  try {
    return (await contradicting).length === 0;
  } catch (error) {
    // The row-by-row comparison reports why the catalog is unreadable.
    if (!(error instanceof MailkeepError) || hasCode(error, 'thread-ended')) throw error;
    return false;
  }
}

class LaterPositions {
  readonly #blobs = new Map<string, Position>();
  readonly #messages = new Map<string, Position>();

  note({ records }: ComparedBatch): void {
    for (const record of records) {
      if (record.kind === 'blob') this.#blobs.set(record.hash, record.position);
      else if (record.kind === 'message') this.#messages.set(record.id, record.position);
    }
  }

  has(kind: 'message' | 'blob', hash: string): boolean {
    return (kind === 'message' ? this.#messages : this.#blobs).has(hash);
  }

  over(locator: Locator): Locator {
    return {
      blob: (hash) => this.#blobs.get(hash) ?? locator.blob(hash),
      message: (id) => this.#messages.get(id) ?? locator.message(id),
    };
  }
}

const MAX_REBUILT = 1_000;

interface DeferredMessages {
  readonly dir: string;
  readonly messages: ReadonlyMap<MessageId, readonly BlobHash[]>;
  readonly locator: Locator;
}

/**
 * Returns the messages that the checker cannot rebuild. They are read again to find the reason.
 *
 * @throws AbortError; system errors while reading
 */
async function notRebuilt(
  checker: SegmentChecker,
  deferred: DeferredMessages,
  signal: AbortSignal,
): Promise<readonly MessageId[]> {
  const failures: MessageId[] = [];
  const jobs = jobsOf(deferred, checker.width);
  const turn = async (): Promise<void> => {
    for (const job of jobs) {
      signal.throwIfAborted();
      failures.push(...(await checker.rebuild(job)));
    }
  };
  await Promise.all(Array.from({ length: checker.width }, turn));
  return failures;
}

/** Splits the work in log order, so that few blocks are read twice. Yields at least one job per thread. */
function* jobsOf(
  { dir, messages: deferred, locator }: DeferredMessages,
  width: number,
): Generator<MessagesJob, void, undefined> {
  const limit = Math.min(MAX_REBUILT, Math.ceil(deferred.size / width));
  let messages = new Map<MessageId, Position | undefined>();
  let blobs = new Map<BlobHash, Position>();
  for (const [id, hashes] of deferred) {
    messages.set(id, locator.message(id));
    for (const hash of hashes) {
      const blob = locator.blob(hash);
      if (blob !== undefined) blobs.set(hash, blob);
    }
    if (messages.size < limit) continue;
    yield { dir, messages, blobs };
    messages = new Map();
    blobs = new Map();
  }
  if (messages.size > 0) yield { dir, messages, blobs };
}

export interface VerifyOptions {
  readonly dir: string;
  readonly files?: FileLayer;
  readonly checker: SegmentChecker;
  /** Hashes every byte and rebuilds every message; otherwise, checks structure, chain, CRCs and catalog. */
  readonly full: boolean;
  readonly vouched?: readonly ConfirmedCommit[];
  readonly signal: AbortSignal;
  readonly progress?: (progress: VerifyProgress) => void;
}

export interface Verification extends LogTotals {
  readonly catalog: CatalogState;
  /** Why the catalog is `unreadable`, as a system or SQLite error name. */
  readonly catalogError: string | null;
  readonly rebuilt: number;
  /** Number of all findings; `findings` contains the first ones. */
  readonly found: number;
  readonly findings: readonly Finding[];
}

/**
 * Checks the whole archive: the log by its hashes, every message by its id, and the catalog against the log. Changes
 * nothing, and works while a writer runs. Never throws for damage or an unreadable catalog.
 *
 * @throws `archive-missing`, `archive-format-newer`; AbortError; system errors while reading
 */
export async function verifyArchive(options: VerifyOptions): Promise<Verification> {
  const { dir, signal } = options;
  const files = readAroundBadSectors(options.files ?? realFiles);
  const findings = new Findings();
  try {
    checkFormat(files, dir);
  } catch (error) {
    if (!hasCode(error, 'archive-format-unreadable')) throw error;
    const { found } = error.facts;
    findings.add({ what: 'format', found: typeof found === 'string' ? found : null });
    return withoutLog(findings);
  }
  const opened = openCheckedCatalog(dir, findings);
  const verifying = new Verifying(options, files, await openImpliedCatalog(), opened, findings);
  try {
    return await verifying.run(signal);
  } finally {
    verifying.close();
    opened.catalog?.close();
  }
}

class Verifying {
  readonly #damages: SegmentDamage[] = [];
  readonly #unsound = new Map<MessageId, MessageProblem>();
  readonly #deferred = new Map<MessageId, readonly BlobHash[]>();
  /** Messages that arrived after this run started, which are left for the next one. */
  readonly #beyond = new LaterPositions();
  readonly #upTo: number;
  readonly #witness: FindingLookup | undefined;
  #unread: string | null;
  #acrossGap = false;
  /** The catalog contains all rows, even though `implied` contains only the unsettled ones. */
  #agreed = false;
  #frozen = false;

  constructor(
    private readonly options: VerifyOptions,
    private readonly files: FileLayer,
    private implied: ImpliedCatalog,
    private readonly grown: OpenedCatalog,
    private readonly findings: Findings,
  ) {
    this.#upTo = grown.reached?.number ?? Number.POSITIVE_INFINITY;
    this.#witness = grown.catalog && new FindingLookup(grown.catalog);
    this.#unread = grown.unread;
  }

  async run(signal: AbortSignal): Promise<Verification> {
    const { dir, checker, full, progress } = this.options;
    const { catalog } = this.grown;
    // Request this first: it takes as long as a segment, and would otherwise finish last on a single thread.
    const structure =
      full && catalog !== undefined
        ? checker.structure(dir)
        : Promise.resolve<readonly string[]>([]);
    // The error is handled when awaited. Until then, it must not count as unhandled.
    structure.catch(() => undefined);
    const fastComparison = full ? settlingState(this.grown) : undefined;
    const contradicting =
      fastComparison === undefined ? Promise.resolve([]) : checker.contradictions(dir);
    contradicting.catch(() => undefined);
    const { totals, settled } = await this.#readLog({
      full,
      signal,
      settleUpTo: fastComparison?.upTo,
      listener: {
        batches: (batches) => this.#fold(batches),
        damage: (damage) => {
          this.#damages.push(damage);
          this.#acrossGap = true;
        },
        message: (report) => {
          if (report.what === 'deferred') this.#deferred.set(report.message, report.blobs);
          else this.#unsound.set(report.message, report.reason);
        },
        vouched: ({ by, number }, reason, lastNumber) => {
          this.findings.add({ what: 'commit', by, reason, number, lastNumber });
          this.#acrossGap = true;
        },
        ...(progress === undefined ? {} : { progress }),
      },
    });
    if (fastComparison !== undefined) {
      const intact = !this.#acrossGap && this.#unsound.size === 0;
      tryCatalog(() => this.#freeze(fastComparison.catalog));
      this.#agreed =
        intact && (await agrees(fastComparison, this.implied, settled, contradicting, signal));
      if (!this.#agreed) await this.#foldAll(signal);
    }
    for (const damage of this.#damages) {
      const { file, segment, offset, end, reason } = damage;
      const messages = this.findings.keeps ? messagesInDamage(this.#lookups(), damage) : [];
      this.findings.add({ what: 'log', file, segment, offset, end, reason, messages });
    }
    // Other threads rebuild while this one compares. Their findings come first.
    const rebuilding = this.#rebuildDeferred(signal);
    rebuilding.catch(() => undefined);
    const rows = new Findings();
    const compared = await this.#compareRows(totals, rows, signal).finally(() => rebuilding);
    this.#reportMissing();
    const state = await this.#judged(compared, rows, structure);
    const rebuilt = full ? totals.messages - this.#unsound.size : 0;
    const { kept, count } = this.findings;
    const catalogError = state === 'unreadable' ? this.#unread : null;
    return { ...totals, catalog: state, catalogError, rebuilt, found: count, findings: kept };
  }

  close(): void {
    this.implied.close();
  }

  #readLog(how: Pick<LogReading, 'full' | 'settleUpTo' | 'listener' | 'signal'>) {
    const { dir, checker, vouched = [] } = this.options;
    const { reached } = this.grown;
    const byCatalog = reached === undefined ? [] : [{ ...reached, by: 'catalog' as const }];
    return readLog({
      dir,
      files: this.files,
      checker,
      vouched: [...byCatalog, ...vouched],
      ...how,
    });
  }

  /** Reads the log again for the rows of all messages, in order to locate a difference. */
  async #foldAll(signal: AbortSignal): Promise<void> {
    const intact = !this.#acrossGap && this.#unsound.size === 0;
    this.implied.close();
    this.implied = await openImpliedCatalog();
    this.#agreed = false;
    this.#acrossGap = false;
    const isGap = (): void => {
      this.#acrossGap = true;
    };
    const batches = (some: readonly ComparedBatch[]) => this.#fold(some);
    const listener = { batches, damage: isGap, vouched: isGap, message: () => undefined };
    // Correct hashes need no second check, but a record with a wrong hash must not be folded.
    await this.#readLog({ full: !intact, signal, listener });
  }

  #freeze(catalog: ComparedCatalog): void {
    if (this.#frozen) return;
    this.#frozen = true;
    catalog.freeze();
  }

  #fold(batches: readonly ComparedBatch[]): void {
    const comparable = batches.filter(({ commit }) => commit.number <= this.#upTo);
    // After damage the chain has gaps, but commits that are repeated or out of order cannot be folded.
    let last = this.implied.reached().number;
    const rising = comparable.filter(({ commit }) => {
      const rises = commit.number > last;
      if (rises) last = commit.number;
      return rises;
    });
    if (rising.length > 0) this.implied.fold(rising, this.#acrossGap);
    for (const batch of batches.slice(comparable.length)) this.#beyond.note(batch);
  }

  async #rebuildDeferred(signal: AbortSignal): Promise<void> {
    for (const [id, reason] of this.#unsound) {
      this.findings.add({ what: 'message', message: this.#named(id), reason, blob: null });
    }
    const { dir, checker } = this.options;
    const deferred = { dir, messages: this.#deferred, locator: this.#locator() };
    const failures = await notRebuilt(checker, deferred, signal);
    if (failures.length === 0) return;
    if (this.#agreed) await this.#foldAll(signal);
    const reader = openLogReader({ dir, locator: this.#locator(), files: this.files });
    try {
      for (const id of failures) {
        signal.throwIfAborted();
        try {
          for await (const _piece of reader.streamMessage(id));
        } catch (error) {
          if (!(error instanceof MailkeepError)) throw error;
          this.#unsound.set(id, 'hash');
          this.findings.add(messageFinding(error, id, this.#lookups()));
        }
      }
    } finally {
      reader.close();
    }
  }

  #locator(): Locator {
    const { locator } = this.implied;
    const grown = this.#agreed ? this.grown.catalog?.locator : undefined;
    return this.#beyond.over({
      blob: (hash) => locator.blob(hash) ?? tryCatalog(() => grown?.blob(hash)),
      message: (id) => locator.message(id) ?? tryCatalog(() => grown?.message(id)),
    });
  }

  #lookups() {
    return [this.#witness, this.implied];
  }

  #named(id: MessageId) {
    for (const lookup of this.#lookups()) {
      const found = lookup?.byId(id);
      if (found !== undefined) return found;
    }
    return { id, subject: null, places: [] };
  }

  #reportMissing(): void {
    for (const { kind, hash } of this.implied.withoutBytes()) {
      if (this.#beyond.has(kind, hash)) continue;
      const message = kind === 'message' && this.findings.keeps ? this.#named(hash) : null;
      this.findings.add({ what: 'missing', kind, hash, message });
    }
  }

  async #compareRows(
    { last }: LogTotals,
    findings: Findings,
    signal: AbortSignal,
  ): Promise<CatalogState> {
    const { catalog, state } = this.grown;
    if (catalog === undefined) return state ?? 'missing';
    const { dir } = this.options;
    if (this.#agreed) return this.#upTo < (last?.number ?? 0) ? 'behind' : 'equal';
    try {
      this.#freeze(catalog);
      const now = catalog.reached();
      await this.#foldUpTo(now.number);
      const { files, implied } = this;
      const differing = await compareCatalog({ dir, files, implied, catalog, findings, signal });
      if (differing > 0) return 'different';
      return now.number < (last?.number ?? 0) ? 'behind' : 'equal';
    } catch (error) {
      const failure = catalogFailure(error);
      if (failure.state === 'unreadable') return this.#unreadable(failure);
      findings.add({ what: 'catalog-file', detail: failure.detail });
      return 'damaged';
    }
  }

  #unreadable({ detail }: CatalogFailure): CatalogState {
    this.#unread = detail;
    return 'unreadable';
  }

  /**
   * Returns the catalog's state. Damage to the file outranks differing rows. Must be called last, because name lookups
   * can reveal more damage.
   */
  async #judged(
    compared: CatalogState,
    rows: Findings,
    structure: Promise<readonly string[]>,
  ): Promise<CatalogState> {
    const inFile = await structure.then(
      (found) => found.map((detail): CatalogFailure => ({ state: 'damaged', detail })),
      (error: unknown) => [catalogFailure(error)],
    );
    const damaged = inFile.some(({ state }) => state === 'damaged') || compared === 'damaged';
    const failure = this.#witness?.failure;
    const troubles = damaged || failure === undefined ? inFile : [...inFile, failure];
    const damage = troubles.filter(({ state }) => state === 'damaged');
    for (const { detail } of damage) this.findings.add({ what: 'catalog-file', detail });
    if (damage.length > 0) return 'damaged';
    this.findings.take(rows);
    const [unread] = troubles;
    const isKnown = unread === undefined || compared === 'damaged' || compared === 'different';
    return isKnown ? compared : this.#unreadable(unread);
  }

  async #foldUpTo(number: number): Promise<void> {
    const from = this.implied.reached();
    if (from.number >= number || this.#acrossGap) return;
    const { dir } = this.options;
    for await (const event of scanLog({ dir, files: this.files, after: from })) {
      if (event.what !== 'batch' || event.batch.commit.number > number) break;
      this.implied.fold([event.batch], false);
    }
  }
}

/** Reports whether the FORMAT file kept a verification from reading the log. */
export function couldNotRead({ findings }: Pick<Verification, 'findings'>): boolean {
  return findings.some(({ what }) => what === 'format');
}

function withoutLog({ kept, count }: Findings): Verification {
  const empty = { ...NOTHING_READ, catalog: 'missing', catalogError: null, rebuilt: 0 } as const;
  return { ...empty, found: count, findings: kept };
}
