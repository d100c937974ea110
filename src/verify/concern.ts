import type { ConcernedMessage, Concerns, RecordSpan } from '../catalog/concerned.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';
import type { MessageId } from '../mail/words.ts';
import type { Finding, MessageTrouble } from './findings.ts';
import type { SegmentDamage } from './segment-report.ts';

/** Messages named at one damaged stretch; a block holds some dozens. */
const MOST_NAMED = 100;

type Asked = readonly (Concerns | undefined)[];

/** The messages that the first of the catalogs that can tell places in a damaged stretch. */
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
