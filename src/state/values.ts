import {
  count,
  fields,
  flag,
  integer,
  list,
  listOfAll,
  nullable,
  number,
  oneOf,
  otherwise,
  type Read,
  record,
  text,
} from './shape.ts';

const MODES = ['full', 'quick', 'sample', 'drill', 'repair', 'rebuild'] as const;

/** `full` and `repair` read every byte; `rebuild` found damage before anything was verified. */
export type VerificationMode = (typeof MODES)[number];

/** The last verification, and the damage that is known. Times are milliseconds since the epoch. */
export interface VerificationFacts {
  readonly at: number;
  readonly mode: VerificationMode;
  /** Messages whose bytes it read and compared, of all in the archive. */
  readonly checked: number;
  readonly of: number;
  /** When every byte was last read; null while it never was. */
  readonly fullAt: number | null;
  /** Whether no damage is known. */
  readonly ok: boolean;
  readonly damage: KnownDamage | null;
  /** The last drill; null where there was none. */
  readonly drill: DrillFacts | null;
}

/** The last drill: when it began, and how many messages of how many it exported and read back. */
export interface DrillFacts {
  readonly at: number;
  readonly checked: number;
  readonly of: number;
}

/** What verifications found, until a repair, or a clean verification that covered it, clears it. */
export interface KnownDamage {
  /** When the first of it was found. */
  readonly since: number;
  /** All findings; `findings` holds the first ones. */
  readonly found: number;
  readonly findings: readonly KnownFinding[];
}

/** A finding without anything that could identify mail but its hash: what is forgotten leaves no trace here. */
export interface KnownFinding {
  /** What is damaged: `log`, `message`, `missing`, `catalog`, `catalog-file`, `state-file`, `commit`, `checkpoint`, `format`, `drill`. */
  readonly what: string;
  /** The message's id, where one message is damaged. */
  readonly id: string | null;
  readonly text: string;
}

/** A finding as the state holds it. */
export interface RememberedFinding extends KnownFinding {
  /** When it was last found: milliseconds since the epoch. */
  readonly at: number;
  /** The commit that a checkpoint vouches for, where that is what is damaged. */
  readonly commit: number | null;
  /** The segment of the log that is damaged, where its bytes are. */
  readonly segment: number | null;
}

export interface RememberedDamage extends Omit<KnownDamage, 'findings'> {
  readonly findings: readonly RememberedFinding[];
  /** Findings of which only the number is remembered, by what is damaged. */
  readonly counted: Readonly<Record<string, number>>;
  /** When these were last found: milliseconds since the epoch. */
  readonly countedAt: number;
}

export interface RememberedVerification extends Omit<VerificationFacts, 'damage' | 'drill'> {
  readonly damage: RememberedDamage | null;
}

/** What the scope holds: the last verification under one key, the last drill under another. */
export const verification: Read<RememberedVerification | DrillFacts> = (value) =>
  lastVerification(value) ?? earlierVerification(value) ?? drill(value);

const drill: Read<DrillFacts> = fields({ at: number, checked: number, of: number });

const lastVerification: Read<RememberedVerification> = fields({
  at: number,
  mode: oneOf(MODES),
  checked: number,
  of: number,
  fullAt: nullable(number),
  ok: flag,
  damage: nullable(damageIn),
});

/** Earlier versions remembered complete verifications alone, and of those only the verdict. */
function earlierVerification(value: unknown): RememberedVerification | undefined {
  const verdict = fields({ at: number, ok: flag })(value);
  if (verdict === undefined || Object.hasOwn(Object(value), 'mode')) return undefined;
  const { at, ok } = verdict;
  const last = { at, mode: 'full', checked: 0, of: 0, fullAt: at, ok } as const;
  if (ok) return { ...last, damage: null };
  const told = 'an earlier version found damage: "mailkeep verify" names it';
  const finding = { what: 'log', id: null, text: told, at, commit: null, segment: null };
  return {
    ...last,
    damage: { since: at, found: 1, findings: [finding], counted: {}, countedAt: at },
  };
}

function damageIn(value: unknown): RememberedDamage | undefined {
  const since = fields({ since: number })(value)?.since ?? 0;
  const damage = fields({
    since: number,
    found: number,
    findings: list(
      fields({
        what: text,
        id: nullable(text),
        text,
        // An earlier version did not remember it.
        at: otherwise(number, since),
        commit: otherwise(number, null),
        segment: otherwise(number, null),
      }),
    ),
    countedAt: otherwise(number, since),
  })(value);
  if (damage === undefined) return undefined;
  const counted = fields({ counted: record(number) })(value)?.counted;
  return { ...damage, counted: counted ?? { log: damage.found - damage.findings.length } };
}

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

/** A browser that is signed in to the web interface. Times are milliseconds since the epoch. */
export interface WebSession {
  readonly createdAt: number;
  readonly usedAt: number;
  /** What the browser calls itself. */
  readonly agent: string;
  /** Keys of the mailboxes that it may read, as `mailboxKey` makes them; null for all. */
  readonly mailboxes: readonly string[] | null;
}

/** A scope that cannot be read must not become a wider one: the whole session is undefined then. */
export const webSession: Read<WebSession> = fields({
  createdAt: number,
  usedAt: number,
  agent: text,
  mailboxes: nullable(listOfAll(text)),
});

/** A token of the API over the mirror. Times are milliseconds since the epoch. */
export interface ApiToken {
  /** What lists call it; it opens nothing. */
  readonly id: string;
  readonly name: string;
  readonly createdAt: number;
  readonly usedAt: number | null;
  readonly expiresAt: number | null;
  /** Keys of the mailboxes that it reaches, as `mailboxKey` makes them; null for all. */
  readonly mailboxes: readonly string[] | null;
}

/** A scope that cannot be read must not become a wider one: the whole token is undefined then. */
export const apiToken: Read<ApiToken> = fields({
  id: text,
  name: text,
  createdAt: number,
  usedAt: nullable(number),
  expiresAt: nullable(number),
  mailboxes: nullable(listOfAll(text)),
});
