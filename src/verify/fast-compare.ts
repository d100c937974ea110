import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FileLayer } from '../archive/file-system.ts';
import type { LogReader } from '../archive/log-reader.ts';
import { SegmentCache } from '../archive/segment-reader.ts';
import type { AffectedMessages, RowDifference } from '../catalog/comparison.ts';
import { Findings, messageFinding } from '../catalog/findings.ts';
import {
  type ComparedCatalog,
  type ImpliedCatalog,
  openComparedCatalog,
  type StoredSegment,
} from '../catalog/implied.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import type { ScopeValue } from '../core/state.ts';
import type { MessageId } from '../core/types.ts';

/**
 * Compares the catalog with the log row by row, yielding to the event loop regularly. Returns the number of rows that
 * differ.
 *
 * @throws AbortError; `catalog-damaged`
 */
export async function compareCatalog(options: {
  readonly dir: string;
  readonly files: FileLayer;
  readonly implied: ImpliedCatalog;
  readonly catalog: ComparedCatalog;
  readonly findings: Findings;
  readonly signal: AbortSignal;
}): Promise<number> {
  const { dir, files, implied, catalog, findings, signal } = options;
  const segments = new SegmentCache(files, dir);
  let differing = 0;
  try {
    for (const row of implied.differences(catalog)) {
      if (row === 'turn') {
        await nextTurn();
        signal.throwIfAborted();
        continue;
      }
      if (isPurged(segments, row)) continue;
      differing += 1;
      const message = findings.keeps ? findAffected(row, [catalog, implied]) : null;
      const { table, difference, columns, key } = row;
      findings.add({ what: 'catalog', table, difference, columns, key, message });
    }
  } finally {
    segments.forget();
  }
  return differing;
}

function isPurged(segments: SegmentCache, { table, difference, position }: RowDifference): boolean {
  if (table !== 'records' || difference !== 'surplus' || position === null) return false;
  try {
    return segments.fetch({ ...position, offset: 0 }).state === 'purged';
  } catch (error) {
    if (error instanceof MailkeepError) return false;
    throw error;
  }
}

function findAffected(
  { docid, key }: RowDifference,
  catalogs: readonly [ComparedCatalog, ImpliedCatalog],
) {
  for (const catalog of catalogs) {
    const found = docid === null ? undefined : catalog.byDocid(docid);
    if (found !== undefined) return found;
  }
  const { folder_id: folder, uid } = key;
  if (typeof folder !== 'number' || typeof uid !== 'number') return null;
  return (
    catalogs.map((catalog) => catalog.atPlace(folder, uid)).find((at) => at !== undefined) ?? null
  );
}

/**
 * `missing` and `other-version` are not damage, because the catalog can be rebuilt. `unreadable` means that the system
 * refused access, which proves nothing about the catalog.
 */
export type CatalogState =
  | 'equal'
  | 'different'
  | 'missing'
  | 'other-version'
  | 'damaged'
  | 'unreadable'
  | 'behind';

export type OpenedCatalog = ReturnType<typeof openCheckedCatalog>;

/**
 * Opens the catalog for checking, and adds damage to the findings.
 *
 * @returns `unread`: why it cannot be read, as a system or SQLite error name; `reached`: its last commit, which the log
 * must contain
 */
export function openCheckedCatalog(dir: string, findings: Findings) {
  const unavailable = (state: CatalogState, unread: string | null = null) => ({
    ...{ catalog: undefined, state, unread, reached: undefined },
  });
  let catalog: ComparedCatalog | undefined;
  try {
    catalog = openComparedCatalog(dir);
    return { catalog, state: undefined, unread: null, reached: catalog.reached() };
  } catch (error) {
    catalog?.close();
    if (hasCode(error, 'catalog-missing')) return unavailable('missing');
    if (hasCode(error, 'catalog-version')) return unavailable('other-version');
    const { state, detail } = catalogFailure(error);
    if (state === 'unreadable') return unavailable(state, detail);
    findings.add({ what: 'catalog-file', detail });
    return unavailable(state);
  }
}

/**
 * Looks up the messages of findings in the catalog. If the catalog fails, `trouble` keeps the error for the verdict,
 * and later findings have no names.
 */
export class FindingLookup implements AffectedMessages {
  failure: CatalogFailure | undefined;

  constructor(private readonly catalog: AffectedMessages) {}

  readonly byDocid = (docid: number) => this.#lookUp(() => this.catalog.byDocid(docid), undefined);
  readonly byId = (id: string) => this.#lookUp(() => this.catalog.byId(id), undefined);
  readonly atPlace = (...at: Parameters<AffectedMessages['atPlace']>) =>
    this.#lookUp(() => this.catalog.atPlace(...at), undefined);
  readonly recordsIn = (...span: Parameters<AffectedMessages['recordsIn']>) =>
    this.#lookUp(() => this.catalog.recordsIn(...span), []);
  readonly openPlaces = (id: string) => this.#lookUp(() => this.catalog.openPlaces(id), []);

  #lookUp<T>(ask: () => T, fallback: T): T {
    if (this.failure !== undefined) return fallback;
    try {
      return ask();
    } catch (error) {
      this.failure = catalogFailure(error);
      return fallback;
    }
  }
}

export interface CatalogFailure {
  readonly state: 'damaged' | 'unreadable';
  readonly detail: string;
}

const UNREADABLE: ReadonlySet<string> = new Set([
  'catalog-io',
  'catalog-busy',
  'catalog-disk-full',
]);

/** Returns the catalog failure behind an error. Rethrows all other errors. */
export function catalogFailure(error: unknown): CatalogFailure {
  if (!(error instanceof MailkeepError)) throw error;
  const detail = String(error.facts.reason ?? error.code);
  if (error.family === 'damage') return { state: 'damaged', detail };
  if (UNREADABLE.has(error.code)) return { state: 'unreadable', detail };
  throw error;
}

/**
 * Verification progress of a segment. All records below the ordinal `covered` were verified, last at `at`. `next` is
 * the next ordinal in the current round, or 0 between rounds. `end` is the ordinal after the last message at that time;
 * 0 if an earlier version did not record it.
 */
export type SegmentVerification = Readonly<ScopeValue<'verified'>>;

export const NEVER: SegmentVerification = { at: 0, covered: 0, next: 0, end: 0 };

interface Checkups {
  get(segment: number): SegmentVerification;
  set(segment: number, checkup: SegmentVerification): void;
}

/** Sorts segments for verification: first those never verified, then the least recently verified. */
export function leastRecentlyVerified(
  segments: readonly StoredSegment[],
  checkup: (segment: number) => SegmentVerification,
): { readonly segment: StoredSegment; readonly from: number }[] {
  const unverified: { segment: StoredSegment; from: number }[] = [];
  const verified: { segment: StoredSegment; from: number; at: number }[] = [];
  for (const segment of segments) {
    const { at, covered, next } = checkup(segment.segment);
    if (covered < segment.end) unverified.push({ segment, from: covered });
    if (covered > 0) verified.push({ segment, from: next, at });
  }
  verified.sort((a, b) => a.at - b.at || a.segment.segment - b.segment.segment);
  return [...unverified, ...verified.map(({ segment, from }) => ({ segment, from }))];
}

/** Rebuilds and hashes messages, least recently verified first, and records the progress. */
export async function verifySample(options: {
  readonly segments: readonly StoredSegment[];
  readonly messagesIn: (
    segment: number,
    from: number,
  ) => Iterable<{ readonly id: MessageId; readonly ordinal: number }>;
  readonly reader: LogReader;
  readonly concerns: AffectedMessages;
  readonly checkups: Checkups;
  readonly sound?: (id: MessageId) => void;
  readonly wanted: number;
  readonly now: number;
  readonly signal: AbortSignal;
}) {
  const { segments, messagesIn, reader, concerns, checkups, wanted, now, signal } = options;
  const findings = new Findings();
  const state = new Map(segments.map(({ segment }) => [segment, checkups.get(segment)]));
  const total = segments.reduce((sum, { messages }) => sum + messages, 0);
  const limit = Math.min(wanted, total);
  let checked = 0;
  for (const { segment, from } of leastRecentlyVerified(segments, (it) => state.get(it) ?? NEVER)) {
    if (checked >= limit) break;
    let reached = segment.end;
    for (const { id, ordinal } of messagesIn(segment.segment, from)) {
      signal.throwIfAborted();
      if (checked >= limit) {
        reached = ordinal;
        break;
      }
      if (await isSound(reader, id, concerns, findings)) options.sound?.(id);
      checked += 1;
    }
    const after = checkupAfter(state.get(segment.segment) ?? NEVER, segment, from, reached, now);
    state.set(segment.segment, after);
    checkups.set(segment.segment, after);
  }
  const times = segments.map(({ segment, end }) => {
    const { at, covered } = state.get(segment) ?? NEVER;
    return covered < end ? 0 : at;
  });
  const oldest = Math.min(...times);
  return {
    checked,
    of: total,
    /** Time of the oldest verification of any message; null if some have never been verified. */
    oldest: times.length === 0 || oldest === 0 ? null : oldest,
    found: findings.count,
    findings: findings.kept,
  };
}

function checkupAfter(
  previous: SegmentVerification,
  { end }: StoredSegment,
  from: number,
  reached: number,
  now: number,
): SegmentVerification {
  const first = from === previous.covered && previous.covered < end;
  if (first) return { at: previous.at || now, covered: reached, next: previous.next, end };
  return reached >= end
    ? { at: now, covered: end, next: 0, end }
    : { ...previous, next: reached, end };
}

async function isSound(
  reader: LogReader,
  id: MessageId,
  concerns: AffectedMessages,
  findings: Findings,
): Promise<boolean> {
  try {
    for await (const _piece of reader.streamMessage(id));
    return true;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    findings.add(messageFinding(error, id, [concerns]));
    return false;
  }
}
