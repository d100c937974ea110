import type { DamageReason } from '../archive/errors.ts';
import type { LogDamage } from '../archive/log-reader.ts';
import type { MailkeepError } from '../core/errors.ts';
import type { MessageId } from '../core/types.ts';
import type { AffectedMessage, AffectedMessages, RecordSpan } from './comparison.ts';

/** Damaged bytes. Their records are known if the segment's footer lists them. */
export interface SegmentDamage extends LogDamage {
  readonly generation: number;
  /** First and last ordinal; absent if the offsets are unknown or refer to generation 1. */
  readonly ordinals?: readonly [number, number];
}

export type MessageProblem = DamageReason | 'hash' | 'absent' | 'purged';

/** A problem found by verification. Any finding makes the exit code 3. */
export type Finding =
  /** Damaged bytes in the log. `messages` are stored there. */
  | {
      readonly what: 'log';
      readonly file: string;
      readonly segment: number;
      readonly offset: number;
      readonly end: number;
      readonly reason: DamageReason;
      readonly messages: readonly AffectedMessage[];
    }
  /** A message cannot be read. `blob` is the damaged part that it needs. */
  | {
      readonly what: 'message';
      readonly message: AffectedMessage;
      readonly reason: MessageProblem;
      readonly blob: string | null;
    }
  /** Bytes missing from every record, according to a repair or the log. */
  | {
      readonly what: 'missing';
      readonly kind: 'message' | 'blob';
      readonly hash: string;
      readonly message: AffectedMessage | null;
    }
  | {
      readonly what: 'catalog';
      readonly table: string;
      readonly difference: 'lacking' | 'surplus' | 'different';
      readonly columns: readonly string[];
      readonly key: Readonly<Record<string, string | number | null>>;
      readonly message: AffectedMessage | null;
    }
  /** The catalog's file is damaged; `rebuild` recreates it. */
  | { readonly what: 'catalog-file'; readonly detail: string }
  /** The state file is damaged. The next sync replaces it, but it also holds user data. */
  | { readonly what: 'state-file'; readonly detail: string }
  /** The log ends before a commit that the catalog or a checkpoint recorded, or has a different one in its place. */
  | {
      readonly what: 'commit';
      readonly by: 'catalog' | 'checkpoint';
      readonly reason: 'ends-early' | 'diverged' | 'other-archive';
      readonly number: number;
      readonly lastNumber: number;
    }
  /** The FORMAT file has the wrong content. */
  | { readonly what: 'format'; readonly found: string | null };

/** Maximum number of findings to keep. Any more are only counted: losing part of the log can cause one per message. */
export const MAX_FINDINGS = 10_000;

export class Findings {
  readonly kept: Finding[] = [];
  count = 0;

  add(finding: Finding): void {
    this.count += 1;
    if (this.kept.length < MAX_FINDINGS) this.kept.push(finding);
  }

  take({ kept, count }: Findings): void {
    for (const finding of kept) this.add(finding);
    this.count += count - kept.length;
  }

  /** False once further findings are only counted and their details need not be looked up. */
  get keeps(): boolean {
    return this.kept.length < MAX_FINDINGS;
  }
}

/** Maximum number of messages listed per damaged range. A block holds a few dozen. */
const MAX_NAMED = 100;

type Lookups = readonly (AffectedMessages | undefined)[];

/** Returns the messages in a damaged range, from the first catalog with records there. */
export function messagesInDamage(lookups: Lookups, damage: SegmentDamage): AffectedMessage[] {
  const span = spanOf(damage);
  if (span === undefined) return [];
  for (const lookup of lookups) {
    const records = lookup?.recordsIn(span, MAX_NAMED) ?? [];
    if (records.length === 0) continue;
    return records.flatMap(({ kind, hash, docid }) => {
      const message = docid === null ? undefined : lookup?.byDocid(docid);
      if (message !== undefined) return [message];
      return kind === 'message' ? [{ id: hash, subject: null, places: [] }] : [];
    });
  }
  return [];
}

function spanOf({
  segment,
  generation,
  ordinals,
  offset,
  end,
  reason,
}: SegmentDamage): RecordSpan | undefined {
  if (reason === 'segment-missing' || reason === 'segment-header') {
    return { segment, first: 0, last: Number.MAX_SAFE_INTEGER };
  }
  if (ordinals !== undefined) return { segment, first: ordinals[0], last: ordinals[1] };
  return generation === 1 ? { segment, from: offset, end } : undefined;
}

export function messageFinding(error: MailkeepError, id: MessageId, lookups: Lookups): Finding {
  const message = lookups
    .map((lookup) => lookup?.byId(id))
    .find((found) => found !== undefined) ?? { id, subject: null, places: [] };
  const { blob, hash } = error.facts;
  const blobHash = typeof blob === 'string' ? blob : typeof hash === 'string' ? hash : null;
  return {
    what: 'message',
    message,
    reason: problemOf(error),
    blob: blobHash === id ? null : blobHash,
  };
}

function problemOf({ code, facts }: MailkeepError): MessageProblem {
  if (code === 'bytes-purged') return 'purged';
  if (code === 'bytes-unknown') return 'absent';
  const { reason } = facts;
  return REASONS.find((problem) => problem === reason) ?? 'bytes';
}

const REASONS: readonly MessageProblem[] = ['bytes', 'payload', 'recipe', 'hash', 'absent'];
