import type { LogReader } from '../archive/read/log-reader.ts';
import type { Concerns } from '../catalog/concerned.ts';
import type { StoredSegment } from '../catalog/implied.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import type { MessageId } from '../mail/words.ts';
import { type Finding, Findings, messageFinding } from './findings.ts';

/** How far the messages of a segment were verified, and when. */
export interface SegmentCheckup {
  /** When all records below `covered` were last verified, milliseconds since the epoch; 0 for never. */
  readonly at: number;
  /** Ordinals below were verified at least once. */
  readonly covered: number;
  /** Where the current round continues; 0 when there is none. */
  readonly next: number;
  /** The ordinal behind the last message that it had then; 0 where an earlier version did not note it. */
  readonly end: number;
}

export const NEVER: SegmentCheckup = { at: 0, covered: 0, next: 0, end: 0 };

/** Where checkups are remembered between runs. */
export interface Checkups {
  get(segment: number): SegmentCheckup;
  set(segment: number, checkup: SegmentCheckup): void;
}

/** What was never verified comes first, then what was verified longest ago. Pure. */
export function leastRecentlyVerified(
  segments: readonly StoredSegment[],
  checkup: (segment: number) => SegmentCheckup,
): { readonly segment: StoredSegment; readonly from: number }[] {
  const fresh: { segment: StoredSegment; from: number }[] = [];
  const seen: { segment: StoredSegment; from: number; at: number }[] = [];
  for (const segment of segments) {
    const { at, covered, next } = checkup(segment.segment);
    if (covered < segment.end) fresh.push({ segment, from: covered });
    if (covered > 0) seen.push({ segment, from: next, at });
  }
  seen.sort((a, b) => a.at - b.at || a.segment.segment - b.segment.segment);
  return [...fresh, ...seen.map(({ segment, from }) => ({ segment, from }))];
}

export interface Sampling {
  readonly checked: number;
  readonly of: number;
  /** When the messages that wait longest were last verified; null where some never were. */
  readonly oldest: number | null;
  readonly found: number;
  readonly findings: readonly Finding[];
}

/** Rebuilds and hashes messages, least recently verified first, and remembers how far it came. */
export async function verifySample(options: {
  readonly segments: readonly StoredSegment[];
  /** Messages of a segment from an ordinal on, in order. */
  readonly messagesIn: (
    segment: number,
    from: number,
  ) => Iterable<{ readonly id: MessageId; readonly ordinal: number }>;
  readonly reader: LogReader;
  readonly concerns: Concerns;
  readonly checkups: Checkups;
  /** Hears the id of every message that is as it was stored. */
  readonly sound?: (id: MessageId) => void;
  /** How many messages. */
  readonly wanted: number;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly signal: AbortSignal;
}): Promise<Sampling> {
  const { segments, messagesIn, reader, concerns, checkups, wanted, now, signal } = options;
  const findings = new Findings();
  const known = new Map(segments.map(({ segment }) => [segment, checkups.get(segment)]));
  const of = segments.reduce((sum, { messages }) => sum + messages, 0);
  const most = Math.min(wanted, of);
  let checked = 0;
  for (const { segment, from } of leastRecentlyVerified(segments, (it) => known.get(it) ?? NEVER)) {
    if (checked >= most) break;
    let reached = segment.end;
    for (const { id, ordinal } of messagesIn(segment.segment, from)) {
      signal.throwIfAborted();
      if (checked >= most) {
        reached = ordinal;
        break;
      }
      if (await isSound(reader, id, concerns, findings)) options.sound?.(id);
      checked += 1;
    }
    const after = checkupAfter(known.get(segment.segment) ?? NEVER, segment, from, reached, now);
    known.set(segment.segment, after);
    checkups.set(segment.segment, after);
  }
  const times = segments.map(({ segment, end }) => {
    const { at, covered } = known.get(segment) ?? NEVER;
    return covered < end ? 0 : at;
  });
  const oldest = Math.min(...times);
  return {
    checked,
    of,
    oldest: times.length === 0 || oldest === 0 ? null : oldest,
    found: findings.count,
    findings: findings.kept,
  };
}

function checkupAfter(
  before: SegmentCheckup,
  { end }: StoredSegment,
  from: number,
  reached: number,
  now: number,
): SegmentCheckup {
  const first = from === before.covered && before.covered < end;
  if (first) return { at: before.at || now, covered: reached, next: before.next, end };
  return reached >= end
    ? { at: now, covered: end, next: 0, end }
    : { ...before, next: reached, end };
}

/** Reads a message; what keeps it from being read as it was stored becomes a finding. */
async function isSound(
  reader: LogReader,
  id: MessageId,
  concerns: Concerns,
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
