import {
  count,
  fields,
  flag,
  integer,
  list,
  listOfAll,
  nullable,
  number,
  otherwise,
  type Read,
  text,
} from './shape.ts';

/** When a folder was last compared with the origin, and what that showed. Times in ISO 8601 UTC. */
export interface Proof {
  /** When its newest page was requested. The proof says nothing about later mail. */
  readonly at: string;
  readonly complete: boolean;
  readonly generation: number;
  /** The origin's own counts: all messages, and those it calls unread. */
  readonly originTotal: number;
  readonly unread: number;
  /** Since when every flag of the folder was answered for; null for never. */
  readonly flagsAt: string | null;
  /** The UTC day whose certificate the log has; null when it has none. */
  readonly certifiedOn: string | null;
  /** Passes in a row whose sums did not add up. */
  readonly incomplete: number;
}

export const proof: Read<Proof> = fields({
  at: text,
  complete: flag,
  generation: otherwise(number, 1),
  originTotal: number,
  unread: otherwise(number, -1),
  flagsAt: otherwise(text, null),
  certifiedOn: otherwise(text, null),
  incomplete: otherwise(number, 0),
});

const uidPair: Read<readonly [lo: number, hi: number]> = (value) => {
  const [lo, hi, ...more] = listOfAll(integer)(value) ?? [];
  return lo === undefined || hi === undefined || more.length > 0 ? undefined : [lo, hi];
};

/** Intervals of uids, each as its lowest and its highest uid. */
export const uidPairs = listOfAll(uidPair);

/** What a folder's flags were last compared at. */
export interface FlagCounts {
  /** Unread messages by the origin's listing and by the archive, when nothing more could be found. */
  readonly theirs: number;
  readonly ours: number;
  /** When starred and answered messages were last compared, milliseconds since the epoch. */
  readonly askedAt: number;
}

export const flagCounts: Read<FlagCounts> = fields({
  theirs: number,
  ours: number,
  askedAt: otherwise(number, Number.NEGATIVE_INFINITY),
});

/** A mailbox that an account has listed. */
export interface RememberedMailbox {
  readonly resourceId: string;
  readonly address: string;
  /** Milliseconds since the epoch; null while the account lists the mailbox. */
  readonly unreachableSince: number | null;
}

export const mailboxes: Read<RememberedMailbox[]> = list(
  fields({ resourceId: text, address: text, unreachableSince: otherwise(number, null) }),
);

/** Usage and limits of a mailbox, and when the service reported them: milliseconds since the epoch. */
export const quota = fields({
  at: number,
  resources: listOfAll(fields({ name: text, usage: number, limit: nullable(number) })),
});

/** What the last listing of an account's order cost, or that it failed. */
export interface ListingCost {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly pages: number;
  readonly failed: boolean;
}

export const listingCost: Read<ListingCost> = fields({
  at: number,
  pages: number,
  failed: otherwise(flag, false),
});

export const sizeLessons = fields({
  lf: count,
  crlf: count,
  offset: fields({ bytes: integer, count }),
});

export const deliveries = listOfAll(
  fields({
    at: number,
    mailbox: text,
    url: text,
    success: flag,
    attempts: number,
    mostAttempts: number,
    durationMs: number,
  }),
);
