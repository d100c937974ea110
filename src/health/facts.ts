import { isImported } from '../mail/imported.ts';

/** What the archive knows of a mailbox. Times are milliseconds since the epoch. */
export interface MailboxFacts {
  readonly host: string;
  readonly resourceId: string;
  readonly address: string;
  /** Left out by the configuration since it was synced. */
  readonly unwatched: boolean;
  /** When the folder that waited longest was last compared with the origin; null when one never was. */
  readonly provenAt: number | null;
  /** Whether everything added up then. */
  readonly complete: boolean;
  /** The time of the oldest certificate among its folders; null when none has one. */
  readonly certifiedAt: number | null;
  /** Current places. */
  readonly messages: number;
  readonly quarantined: number;
  readonly held: number;
  /** Share of its fullest quota that is used, 1 for full; null where none is known. */
  readonly full: number | null;
  /** The list of the platform surface shows it as suspended. */
  readonly suspended: boolean;
}

/** How fast a service was found to let itself be asked. */
export interface LimiterFacts {
  /** Host and port, and the label of the token. */
  readonly gate: string;
  /** Requests a minute; null while no refusal taught any. */
  readonly learnedPerMinute: number | null;
  /** Until when the service asked to be left alone; null when it does not. */
  readonly heldUntil: number | null;
}

/** What the archive is found to hold, from the catalog and the state alone. Sizes in bytes. */
export interface ArchiveFacts {
  /** Distinct messages, and the bytes of their raw sources. */
  readonly messages: number;
  readonly messageBytes: number;
  readonly logBytes: number;
  readonly catalogBytes: number;
  /** Stored, and not searchable yet. */
  readonly pending: number;
  readonly limiters: readonly LimiterFacts[];
  readonly mailboxes: readonly MailboxFacts[];
  readonly verification: VerificationFacts | null;
}

/** `full` and `repair` read every byte; `rebuild` found damage before anything was verified. */
export type VerificationMode = 'full' | 'quick' | 'sample' | 'drill' | 'repair' | 'rebuild';

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
  /** What is damaged: `log`, `message`, `missing`, `catalog`, `catalog-file`, `commit`, `checkpoint`, `format`, `drill`. */
  readonly what: string;
  /** The message's id, where one message is damaged. */
  readonly id: string | null;
  readonly text: string;
}

/**
 * Returns the mailboxes that were not completely compared with the origin since `since` (milliseconds since the epoch),
 * or never. Imported ones have no origin, and those that the configuration excludes are not synced: they are as fresh
 * as they will ever be.
 *
 * @param mailboxes `provenAt` in milliseconds or in ISO 8601
 */
export function staleMailboxes<M extends Watching & { readonly provenAt: number | string | null }>(
  mailboxes: readonly M[],
  since: number,
): M[] {
  return mailboxes.filter(
    (mailbox) =>
      isWatched(mailbox) &&
      (mailbox.provenAt === null || new Date(mailbox.provenAt).getTime() < since),
  );
}

type Watching = Pick<MailboxFacts, 'host' | 'unwatched'>;

/** Whether passes compare a mailbox with an origin. */
export function isWatched(mailbox: Watching): boolean {
  return !isImported(mailbox) && !mailbox.unwatched;
}

/** Asks for something at most once in a while: what monitoring asks for must not cost more than the work. */
export class Remembered<T> {
  readonly #everyMs: number;
  readonly #now: () => number;
  readonly #ask: () => T;
  #known: { readonly at: number; readonly value: T } | undefined;

  constructor(everyMs: number, now: () => number, ask: () => T) {
    this.#everyMs = everyMs;
    this.#now = now;
    this.#ask = ask;
  }

  get(): T {
    const at = this.#now();
    const age = this.#known === undefined ? Number.POSITIVE_INFINITY : at - this.#known.at;
    // A clock that was set back must not keep what is old.
    if (this.#known === undefined || age >= this.#everyMs || age < 0) {
      this.#known = { at, value: this.#ask() };
    }
    return this.#known.value;
  }
}
