import type { RetentionSettings } from '../../../config/settings.ts';
import type { Reader } from '../../../engine/archive/reader.ts';
import type { ArchivePolicy } from '../../../engine/status/archive-policy.ts';
import { MailkeepError } from '../../../errors/mailkeep-error.ts';
import type { SearchNode } from '../../../search/ast.ts';
import type { StateFile } from '../../../state/state-file.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import { within } from '../mail-list.ts';
import { filterText } from '../query-text.ts';
import type { ServedReader } from '../served-archive.ts';
import { understandQuery } from '../understood-query.ts';
import type { Linked } from './linked-numbers.ts';

/** What retention lets go of, and what holds keep. */
export interface Retention {
  /** Null where no configuration of this archive was found. */
  readonly policy: {
    readonly settings: RetentionSettings;
    readonly schedule: string | null;
    readonly holds: readonly Hold[];
    readonly preview: Preview;
  } | null;
  readonly deleted: Linked;
}

export interface Hold {
  /** As the configuration has it. */
  readonly text: string;
  readonly isMailbox: boolean;
  /** How many messages it keeps; null where it could not be counted. */
  readonly kept: Linked | null;
  readonly problem: string | null;
}

export type Preview =
  /** More messages were deleted than can be judged while a page waits. */
  | { readonly kind: 'too-many'; readonly most: number }
  | { readonly kind: 'refused'; readonly problem: string; readonly hint: string | null }
  | {
      readonly kind: 'plan';
      readonly messages: number;
      readonly bytes: number;
      readonly removed: readonly PreviewedSum[];
      readonly kept: readonly PreviewedSum[];
      /** The first messages that would be removed. */
      readonly list: readonly PreviewedMessage[];
    };

/** Messages that are removed, or kept, for one reason. */
interface PreviewedSum {
  readonly reason: string;
  readonly messages: number;
  readonly bytes: number;
}

interface PreviewedMessage {
  readonly id: string;
  readonly subject: string | null;
  readonly size: number;
  readonly reason: string;
  /** When it was last deleted: milliseconds since the epoch. */
  readonly endedAt: number | null;
}

/** Deleted messages that are judged for a page: some 50 µs each. */
const MOST_JUDGED = 5_000;
const MOST_LISTED = 100;
const MOST_HOLDS = 100;
/** For the holds together, in milliseconds. */
const COUNTING_MS = 400;

export function retentionOf(
  reader: Pick<ServedReader, 'catalog' | 'dataDir' | 'mailboxes'>,
  state: Pick<StateFile, 'entries'> | undefined,
  policy: ArchivePolicy | null,
  now: number,
  accounts: (node: SearchNode) => ReadonlyMap<string, string>,
): Retention {
  const mayContinue = within(COUNTING_MS);
  const linked = (query: string): { linked: Linked | null; problem: string | null } => {
    const { request, problem } = understandQuery(query, reader, now, accounts);
    if (request === null) return { linked: null, problem: problem.message };
    const { count, complete } = reader.catalog.countHitsWhile(request, mayContinue);
    return { linked: complete ? { count, query } : null, problem: null };
  };
  const deleted = linked('is:deleted').linked ?? { count: 0, query: null };
  if (policy === null) return { policy: null, deleted };
  const { retention } = policy;
  const holds = retention.hold.slice(0, MOST_HOLDS).map((hold): Hold => {
    const isMailbox = 'mailbox' in hold;
    const text = isMailbox ? hold.mailbox : hold.query;
    const found = linked(isMailbox ? filterText('mailbox', text) : text);
    return { text, isMailbox, kept: found.linked, problem: found.problem };
  });
  const isTooMany = deleted.query === null || deleted.count > MOST_JUDGED;
  const preview = isTooMany
    ? ({ kind: 'too-many', most: MOST_JUDGED } as const)
    : previewOf(reader, state, policy);
  return {
    policy: { settings: retention, schedule: policy.pruneSchedule, holds, preview },
    deleted,
  };
}

function previewOf(
  reader: Pick<Reader, 'catalog'>,
  state: Pick<StateFile, 'entries'> | undefined,
  policy: ArchivePolicy,
): Preview {
  let plan: ReturnType<ArchivePolicy['plan']>;
  try {
    plan = policy.plan(reader, state);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    const { message, hint } = sentenceOf(error);
    return { kind: 'refused', problem: message, hint };
  }
  const { prune, byReason, kept } = plan;
  return {
    kind: 'plan',
    messages: prune.length,
    bytes: prune.reduce((sum, { size }) => sum + size, 0),
    removed: [...byReason].map(([reason, sum]) => ({ reason, ...sum })),
    kept: [...kept].map(([reason, sum]) => ({ reason, ...sum })),
    list: prune.slice(0, MOST_LISTED).map(({ id, subject, size, reason, places }) => ({
      ...{ id, subject, size, reason },
      endedAt: places.reduce<number | null>(
        (last, { endedAt }) => (endedAt === null ? last : Math.max(last ?? 0, endedAt)),
        null,
      ),
    })),
  };
}
