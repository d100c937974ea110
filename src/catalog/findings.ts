import type { DamageReason } from '../archive/errors.ts';
import type { LogDamage } from '../archive/log-reader.ts';
import type { MailkeepError } from '../core/errors.ts';
import type { MessageId } from '../core/types.ts';
import type { ConcernedMessage, Concerns, RecordSpan } from './comparison.ts';

/** A damaged stretch, and which records of the segment it contains if the file's footer shows that. */
export interface SegmentDamage extends LogDamage {
  readonly generation: number;
  /** First and last ordinal; absent where offsets are those of generation 1, or where they are unknown. */
  readonly ordinals?: readonly [number, number];
}

/** Why a message cannot be given back as it was stored. */
export type MessageTrouble = DamageReason | 'hash' | 'absent' | 'purged';

/** Something that is not as it should be. Each makes the exit code 3. */
export type Finding =
  /** Bytes of the log are not what was written; `messages` are those the catalog places there. */
  | {
      readonly what: 'log';
      readonly file: string;
      readonly segment: number;
      readonly offset: number;
      readonly end: number;
      readonly reason: DamageReason;
      readonly messages: readonly ConcernedMessage[];
    }
  /** A message cannot be given back; `blob` names the bytes that it needs and that are damaged. */
  | {
      readonly what: 'message';
      readonly message: ConcernedMessage;
      readonly reason: MessageTrouble;
      readonly blob: string | null;
    }
  /** Bytes that no record has any more, as a repair recorded or the log shows. */
  | {
      readonly what: 'missing';
      readonly kind: 'message' | 'blob';
      readonly hash: string;
      readonly message: ConcernedMessage | null;
    }
  /** The catalog says something else than the log. */
  | {
      readonly what: 'catalog';
      readonly table: string;
      readonly difference: 'lacking' | 'surplus' | 'different';
      readonly columns: readonly string[];
      readonly key: Readonly<Record<string, string | number | null>>;
      readonly message: ConcernedMessage | null;
    }
  /** The catalog's file is damaged; `rebuild` recreates it. */
  | { readonly what: 'catalog-file'; readonly detail: string }
  /** The state's file is damaged; the next sync replaces it. What people made is in it. */
  | { readonly what: 'state-file'; readonly detail: string }
  /** A commit that was vouched for is not in the log: it ends before it, or has another in its place. */
  | {
      readonly what: 'commit';
      readonly by: 'catalog' | 'checkpoint';
      readonly reason: 'ends-early' | 'diverged' | 'other-archive';
      readonly number: number;
      readonly lastNumber: number;
    }
  /** The FORMAT file does not say what it should. */
  | { readonly what: 'format'; readonly found: string | null };

/** Findings that are kept; all are counted. A log with a lost middle has as many as it has messages. */
export const MOST_FINDINGS = 10_000;

export class Findings {
  readonly kept: Finding[] = [];
  count = 0;

  add(finding: Finding): void {
    this.count += 1;
    if (this.kept.length < MOST_FINDINGS) this.kept.push(finding);
  }

  /** Adds what others found, behind what is here. */
  take({ kept, count }: Findings): void {
    for (const finding of kept) this.add(finding);
    this.count += count - kept.length;
  }

  /** False once more would only be counted: not worth looking anything up for. */
  get keeps(): boolean {
    return this.kept.length < MOST_FINDINGS;
  }
}

/** Messages named at one damaged stretch; a block holds some dozens. */
const MOST_NAMED = 100;

type Asked = readonly (Concerns | undefined)[];

/** Returns the messages in a damaged stretch, according to the first catalog that knows. */
export function concernedIn(asked: Asked, damage: SegmentDamage): ConcernedMessage[] {
  const span = spanOf(damage);
  if (span === undefined) return [];
  for (const concerns of asked) {
    const records = concerns?.recordsIn(span, MOST_NAMED) ?? [];
    if (records.length === 0) continue;
    return records.flatMap(({ kind, hash, docid }) => {
      const message = docid === null ? undefined : concerns?.byDocid(docid);
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

/** A message that could not be read, as a finding. */
export function messageFinding(error: MailkeepError, id: MessageId, asked: Asked): Finding {
  const message = asked
    .map((concerns) => concerns?.byId(id))
    .find((found) => found !== undefined) ?? { id, subject: null, places: [] };
  const { blob, hash } = error.facts;
  const needed = typeof blob === 'string' ? blob : typeof hash === 'string' ? hash : null;
  return {
    what: 'message',
    message,
    reason: troubleOf(error),
    blob: needed === id ? null : needed,
  };
}

function troubleOf({ code, facts }: MailkeepError): MessageTrouble {
  if (code === 'bytes-purged') return 'purged';
  if (code === 'bytes-unknown') return 'absent';
  const { reason } = facts;
  return REASONS.find((known) => known === reason) ?? 'bytes';
}

const REASONS: readonly MessageTrouble[] = ['bytes', 'payload', 'recipe', 'hash', 'absent'];
