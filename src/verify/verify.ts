import { accessSync, constants, existsSync } from 'node:fs';
import { acquireLock } from '../archive/lock.ts';
import { type LogReader, openLogReader } from '../archive/log-reader.ts';
import type { AffectedMessages } from '../catalog/comparison.ts';
import { type Finding, Findings, messageFinding } from '../catalog/findings.ts';
import { openComparedCatalog, type StoredSegment } from '../catalog/implied.ts';
import type { EngineContext, UnwrittenState } from '../catalog/open-reader.ts';
import { catalogError } from '../core/error-tables.ts';
import { errnoOf, hasCode, MailkeepError } from '../core/errors.ts';
import {
  type KnownFinding,
  openExistingState,
  openState,
  readState,
  type ScopeValue,
  type StateFile,
  type StoredFinding,
  stateDamage,
  stateFile,
  type VerificationFacts,
  type VerificationMode,
} from '../core/state.ts';
import type { MessageId } from '../core/types.ts';
import { type SegmentChecker, threadedChecker } from './check-segment.ts';
import type { ConfirmedCommit } from './read-log.ts';
import {
  type FoundFinding,
  recallVerification,
  recordDamage,
  recordVerification,
} from './verification.ts';
import {
  couldNotRead,
  type Verification,
  type VerifyOptions,
  verifyArchive,
} from './verify-archive.ts';

/**
 * Writes to the archive's state. A failure is only a warning, so that the verdict is not lost.
 *
 * @param what describes the data in the warning
 * @param holdsLock whether the caller holds the archive's lock
 * @returns whether the data was written
 */
export function writeStateOrWarn(
  { report }: Pick<EngineContext, 'report'>,
  dataDir: string,
  what: UnwrittenState,
  act: (state: StateFile) => void,
  holdsLock = false,
): boolean {
  const movedAside = (file: string): void => report({ event: 'state-put-aside', file });
  try {
    try {
      withState(stateToWrite(dataDir, holdsLock, movedAside), act);
    } catch (error) {
      if (!holdsLock || !hasCode(error, 'catalog-damaged')) throw error;
      withState(openState(dataDir, movedAside), act);
    }
    return true;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    report({ event: 'state-not-written', what, error });
    return false;
  }
}

function withState(state: StateFile, act: (state: StateFile) => void): void {
  try {
    act(state);
  } finally {
    state.close();
  }
}

/**
 * Returns the state to write. A copied or unpacked archive has none until the first write. Only the archive's writer
 * sets a damaged state aside, because it can contain data that cannot be recovered.
 */
function stateToWrite(
  dataDir: string,
  holdsLock: boolean,
  movedAside: (file: string) => void,
): StateFile {
  const state = openExistingState(dataDir);
  if (state !== undefined) return state;
  if (holdsLock) return openState(dataDir, movedAside);
  const file = stateFile(dataDir);
  try {
    accessSync(existsSync(file) ? file : dataDir, constants.W_OK);
    const damage = stateDamage(dataDir);
    if (damage !== undefined) throw catalogError('catalog-damaged', { file, reason: damage });
    const lock = acquireLock(dataDir);
    try {
      return openState(dataDir);
    } finally {
      lock.release();
    }
  } catch (error) {
    const opened = hasCode(error, 'archive-in-use') ? openExistingState(dataDir) : undefined;
    if (opened !== undefined) return opened;
    const reason = errnoOf(error);
    if (error instanceof MailkeepError || reason === undefined) throw error;
    throw catalogError('catalog-io', { file, reason }, error);
  }
}

/** Prepares findings for storage, without subjects, folders and addresses, which could be forgotten later. */
function knownFindings(
  { words }: Pick<EngineContext, 'words'>,
  findings: readonly Finding[],
): FoundFinding[] {
  return findings.map((finding) => ({
    what: finding.what === 'commit' && finding.by === 'checkpoint' ? 'checkpoint' : finding.what,
    id: finding.what === 'message' ? finding.message.id : null,
    text: words.finding(withoutNames(finding)),
    commit: finding.what === 'commit' ? finding.number : null,
    segment: finding.what === 'log' ? finding.segment : null,
  }));
}

function withoutNames(finding: Finding): Finding {
  switch (finding.what) {
    case 'log':
      return { ...finding, messages: [] };
    case 'message':
      return { ...finding, message: { ...finding.message, subject: null, places: [] } };
    case 'missing':
      return { ...finding, message: null };
    case 'catalog':
      return { ...finding, key: {}, message: null };
    default:
      return finding;
  }
}

export function concernsCatalogOnly({ what }: KnownFinding): boolean {
  return what === 'catalog' || what === 'catalog-file';
}

/**
 * Records the result of reading the whole archive. Ignores a run that found nothing but could not read the catalog. A
 * run that could not read the log clears no earlier findings.
 *
 * @param holdsLock whether the caller holds the archive's lock
 * @returns whether the result was recorded
 */
export function recordRead(
  context: EngineContext,
  dataDir: string,
  {
    at,
    mode,
    checkpoint,
  }: {
    readonly at: number;
    readonly mode: Extract<VerificationMode, 'full' | 'quick' | 'repair'>;
    readonly checkpoint: ConfirmedCommit | null;
  },
  result: Verification,
  holdsLock = false,
): boolean {
  const { found, findings, catalog, rebuilt, messages } = result;
  if (found === 0 && catalog === 'unreadable') return false;
  const relevant = findings.filter(
    (finding) => finding.what !== 'commit' || finding.reason !== 'other-archive',
  );
  const unreadable = couldNotRead(result);
  const complete = mode !== 'quick' && !unreadable;
  const number = checkpoint !== null && isIntact(result) ? checkpoint.number : 0;
  const outcome = {
    at,
    endedAt: context.now(),
    found: found - (findings.length - relevant.length),
    findings: knownFindings(context, relevant),
    covers: (known: StoredFinding) =>
      complete &&
      (catalog !== 'unreadable' || !concernsCatalogOnly(known)) &&
      (known.what !== 'checkpoint' || (known.commit ?? 1) <= number),
  };
  const act = (state: StateFile): void =>
    unreadable
      ? recordDamage(state, outcome, 'quick')
      : recordVerification(state, { ...outcome, mode, checked: rebuilt, of: messages });
  return writeStateOrWarn(context, dataDir, 'result', act, holdsLock);
}

function isIntact({ findings }: Verification): boolean {
  return !findings.some((finding) => finding.what === 'commit' && finding.by === 'checkpoint');
}

type ReadArchive = Required<Omit<VerifyOptions, 'dir' | 'files' | 'checker'>>;

/** Reads an archive's whole log and its state. @param checker closed at the end; default: new worker threads */
export async function readArchive(
  dir: string,
  options: ReadArchive,
  checker: SegmentChecker = threadedChecker(),
): Promise<Verification> {
  try {
    const result = await verifyArchive({ dir, checker, ...options });
    const detail = stateDamage(dir);
    if (detail === undefined) return result;
    const findings = [{ what: 'state-file', detail } as const, ...result.findings];
    return { ...result, found: result.found + 1, findings };
  } finally {
    await checker.close();
  }
}

/** A number of messages, or a fraction of all (from 0 to 1). */
export type SampleSize = { readonly messages: number } | { readonly share: number };

const SCOPE = 'verified';

/**
 * Verification progress of a segment. All records below the ordinal `covered` were verified, last at `at`. `next` is
 * the next ordinal in the current round, or 0 between rounds. `end` is the ordinal after the last message at that time;
 * 0 if an earlier version did not record it.
 */
type SegmentVerification = Readonly<ScopeValue<typeof SCOPE>>;

export const NEVER: SegmentVerification = { at: 0, covered: 0, next: 0, end: 0 };

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

/**
 * Verifies some messages, least recently verified first, and records the progress.
 *
 * @returns `at`: start time, milliseconds since the epoch; `remembered`: whether the state contains the result
 */
export async function verifySampleOf(context: EngineContext, dataDir: string, size: SampleSize) {
  const { now, signal } = context;
  const catalog = openComparedCatalog(dataDir);
  const reader = openLogReader({ dir: dataDir, locator: catalog.locator });
  const recalled = readState(dataDir);
  const checkups = new Map<number, SegmentVerification>();
  const checkup = (segment: number): SegmentVerification =>
    checkups.get(segment) ?? recalled?.get(SCOPE, String(segment)) ?? NEVER;
  try {
    const segments = catalog.segments();
    const of = segments.reduce((sum, { messages }) => sum + messages, 0);
    const limit = Math.min('share' in size ? Math.ceil(of * size.share) : size.messages, of);
    const startedAt = now();
    const known = messagesIn(recallVerification(recalled));
    const sound = new Set<string>();
    const findings = new Findings();
    let checked = 0;
    for (const { segment, from } of leastRecentlyVerified(segments, checkup)) {
      if (checked >= limit) break;
      let reached = segment.end;
      for (const { id, ordinal } of catalog.messagesIn(segment.segment, from)) {
        signal.throwIfAborted();
        if (checked >= limit) {
          reached = ordinal;
          break;
        }
        if ((await isSound(reader, id, catalog, findings)) && known.has(id)) sound.add(id);
        checked += 1;
      }
      const before = checkup(segment.segment);
      checkups.set(segment.segment, checkupAfter(before, segment, from, reached, startedAt));
    }
    const times = segments.map(({ segment, end }) => {
      const { at, covered } = checkup(segment);
      return covered < end ? 0 : at;
    });
    /** Time of the oldest verification of any message; null if some have never been verified. */
    const oldest = times.length === 0 ? null : Math.min(...times) || null;
    const { count: found, kept } = findings;
    const durationMs = now() - startedAt;
    const remembered = writeStateOrWarn(context, dataDir, 'result', (state) =>
      recordVerification(state, {
        ...{ at: startedAt, endedAt: now(), mode: 'sample', checked, of, found },
        findings: knownFindings(context, kept),
        covers: ({ what, id }) => what === 'message' && id !== null && sound.has(id),
      }),
    );
    const sampling = { checked, of, oldest, found, findings: kept };
    return { at: startedAt, sampling, durationMs, remembered };
  } finally {
    recalled?.close();
    reader.close();
    catalog.close();
    if (checkups.size > 0) {
      writeStateOrWarn(context, dataDir, 'sample', (state) => {
        for (const [segment, checkup] of checkups) state.set(SCOPE, String(segment), checkup);
      });
    }
  }
}

function checkupAfter(
  before: SegmentVerification,
  { end }: StoredSegment,
  from: number,
  reached: number,
  now: number,
): SegmentVerification {
  const first = from === before.covered && before.covered < end;
  if (first) return { at: before.at || now, covered: reached, next: before.next, end };
  return reached >= end
    ? { at: now, covered: end, next: 0, end }
    : { ...before, next: reached, end };
}

async function isSound(
  reader: LogReader,
  id: MessageId,
  catalog: AffectedMessages,
  findings: Findings,
): Promise<boolean> {
  try {
    for await (const _piece of reader.streamMessage(id));
    return true;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    findings.add(messageFinding(error, id, [catalog]));
    return false;
  }
}

function messagesIn(last: VerificationFacts | null): ReadonlySet<string> {
  const ids = last?.damage?.findings.flatMap(({ id }) => (id === null ? [] : [id]));
  return new Set(ids ?? []);
}

/** Records that a complete run without findings has verified every segment, so that samples continue from there. */
export function recordCheckup(context: EngineContext, dataDir: string, at: number): void {
  writeStateOrWarn(context, dataDir, 'segments', (state) => {
    const catalog = openComparedCatalog(dataDir);
    try {
      for (const { segment, end } of catalog.segments()) {
        state.set(SCOPE, String(segment), { at, covered: end, next: 0, end });
      }
    } finally {
      catalog.close();
    }
  });
}
