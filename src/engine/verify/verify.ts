import { openLogReader } from '../../archive/read/log-reader.ts';
import { openCompared } from '../../catalog/implied.ts';
import { recalledVerification } from '../../health/verification.ts';
import { readState, stateDamage } from '../../state/state-file.ts';
import type { VerificationFacts } from '../../state/values.ts';
import { NEVER, type Sampling, type SegmentCheckup, verifySample } from '../../verify/sample.ts';
import type { SegmentChecker } from '../../verify/segment-checker.ts';
import { checkerOnThreads } from '../../verify/segment-threads.ts';
import {
  type Verification,
  type VerifyOptions,
  verifyArchive,
} from '../../verify/verify-archive.ts';
import type { EngineContext } from '../context.ts';
import { knownFindings, noting, remember } from './remember.ts';

/** How reading an archive is done. */
export type ReadArchive = Required<Omit<VerifyOptions, 'dir' | 'files' | 'checker'>>;

/**
 * Reads an archive from the first byte of its log to the last, and its state.
 *
 * @param checker closed at the end; threads of its own if not given
 */
export async function readArchive(
  dir: string,
  options: ReadArchive,
  checker: SegmentChecker = checkerOnThreads(),
): Promise<Verification> {
  try {
    const result = await verifyArchive({ dir, checker, ...options });
    const detail = stateDamage(dir);
    if (detail === undefined) return result;
    // First, since a damaged log has more findings than are shown.
    const findings = [{ what: 'state-file', detail } as const, ...result.findings];
    return { ...result, found: result.found + 1, findings };
  } finally {
    await checker.close();
  }
}

/** How many messages: a number, or a share of all. */
export type SampleSize = { readonly messages: number } | { readonly share: number };

export interface SampleOutcome {
  /** When it began: milliseconds since the epoch. */
  readonly at: number;
  readonly sampling: Sampling;
  readonly durationMs: number;
  /** Whether the archive's state has the result. */
  readonly remembered: boolean;
}

const SCOPE = 'verified';

/** Verifies some messages, least recently verified first, and remembers how far it came. */
export async function verifySome(
  context: EngineContext,
  dataDir: string,
  size: SampleSize,
): Promise<SampleOutcome> {
  const { now, signal } = context;
  const catalog = openCompared(dataDir);
  const reader = openLogReader({ dir: dataDir, locator: catalog.locator });
  const recalled = readState(dataDir);
  const checkups = new Map<number, SegmentCheckup>();
  try {
    const segments = catalog.segments();
    const all = segments.reduce((sum, { messages }) => sum + messages, 0);
    const startedAt = now();
    const known = messagesIn(recalledVerification(recalled));
    const sound = new Set<string>();
    const sampling = await verifySample({
      segments,
      messagesIn: (segment, from) => catalog.messagesIn(segment, from),
      reader,
      concerns: catalog,
      checkups: {
        get: (segment) => recalled?.get(SCOPE, String(segment)) ?? NEVER,
        set: (segment, checkup) => checkups.set(segment, checkup),
      },
      sound: (id) => {
        if (known.has(id)) sound.add(id);
      },
      wanted: 'share' in size ? Math.ceil(all * size.share) : size.messages,
      now: startedAt,
      signal,
    });
    const { found, findings, checked, of } = sampling;
    const durationMs = now() - startedAt;
    const remembered = remember(context, dataDir, {
      ...{ at: startedAt, endedAt: now(), mode: 'sample', checked, of, found },
      findings: knownFindings(context, findings),
      covers: ({ what, id }) => what === 'message' && id !== null && sound.has(id),
    });
    return { at: startedAt, sampling, durationMs, remembered };
  } finally {
    recalled?.close();
    reader.close();
    catalog.close();
    noteCheckups(context, dataDir, checkups);
  }
}

function noteCheckups(
  context: EngineContext,
  dataDir: string,
  checkups: ReadonlyMap<number, SegmentCheckup>,
): void {
  if (checkups.size === 0) return;
  noting(context, dataDir, 'sample', (state) => {
    for (const [segment, checkup] of checkups) state.set(SCOPE, String(segment), checkup);
  });
}

/** Messages that are known to be damaged. */
function messagesIn(last: VerificationFacts | null): ReadonlySet<string> {
  const ids = last?.damage?.findings.flatMap(({ id }) => (id === null ? [] : [id]));
  return new Set(ids ?? []);
}

/** Notes a complete run without findings as a checkup of every segment: samples continue from there. */
export function noteCheckup(context: EngineContext, dataDir: string, at: number): void {
  noting(context, dataDir, 'segments', (state) => {
    const catalog = openCompared(dataDir);
    try {
      for (const { segment, end } of catalog.segments()) {
        state.set(SCOPE, String(segment), { at, covered: end, next: 0, end });
      }
    } finally {
      catalog.close();
    }
  });
}
