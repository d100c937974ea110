import { isImported } from '../mail/import-host.ts';
import type { VerificationFacts } from '../state/values.ts';
import type { CopyFacts } from './copies.ts';

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
  /** Requests a minute; null while no refusal taught any: then the configured rate holds. */
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
  readonly copies: readonly CopyFacts[];
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
  #known: { readonly at: number; readonly value: T } | undefined;

  constructor(
    private readonly everyMs: number,
    private readonly now: () => number,
    private readonly ask: () => T,
  ) {}

  get(): T {
    const at = this.now();
    const age = this.#known === undefined ? Number.POSITIVE_INFINITY : at - this.#known.at;
    // A clock that was set back must not keep what is old.
    if (this.#known === undefined || age >= this.everyMs || age < 0) {
      this.#known = { at, value: this.ask() };
    }
    return this.#known.value;
  }
}

/** A mailbox's quota of one kind: `STORAGE` in bytes, `MESSAGE` a count; no limit is null. */
export interface QuotaUse {
  readonly name: string;
  readonly usage: number;
  readonly limit: number | null;
}

export interface Fullness {
  /** The quota that is nearest to its limit. */
  readonly name: string;
  /** Share of the limit that is used: 1 is full. */
  readonly share: number;
}

/** How full a mailbox is, by the quota that is nearest to its limit; null where none has a limit. */
export function fullnessOf(quotas: readonly QuotaUse[]): Fullness | null {
  let fullest: Fullness | null = null;
  for (const { name, usage, limit } of quotas) {
    if (limit === null || limit <= 0) continue;
    const share = usage / limit;
    if (fullest === null || share > fullest.share) fullest = { name, share };
  }
  return fullest;
}

/** A share in whole percent, rounded down: what is nearly full is not called full. */
export function percentOf(share: number): number {
  return Math.floor(share * 100);
}
