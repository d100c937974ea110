import type { Correspondent } from '../../../catalog/stats/correspondents.ts';
import type { Period, Range, Unit } from './periods.ts';

/** The numbers of a dashboard as plain data. Times are milliseconds since the epoch; queries are what finds a number. */
export interface DashboardData {
  readonly closing: Closing;
  readonly kept: Kept;
  readonly gigabytes: Gigabytes;
  readonly changes: ChangesOfTime;
  readonly proofs: readonly ProofAge[];
  readonly requests: Requests;
  readonly verification: Verified;
  readonly storage: Storage;
  readonly correspondents: Correspondents;
  readonly rhythm: Rhythm;
  readonly quarantine: Quarantined;
}

/** Does it add up. Places at the service; `ended` counts messages. */
export interface Closing {
  readonly open: number;
  readonly stored: number;
  readonly assumed: number;
  readonly held: number;
  readonly quarantined: number;
  readonly forgotten: number;
  readonly imported: number;
  readonly ended: number;
  readonly endedQuery: string;
  readonly mailboxes: number;
  readonly folders: number;
  /** Folders that were not complete when they were last compared. */
  readonly incomplete: number;
  /** When the folder that waits longest was compared; null where one never was, or there is none. */
  readonly comparedAt: number | null;
}

/** A number, and what finds exactly that many messages. */
export interface Counted {
  readonly count: number;
  readonly query: string;
}

/** Messages by period: the query of a series and the term of a period find exactly as many. */
export interface Series extends Counted {
  readonly name: string;
  /** Before the first period. */
  readonly before: number;
  readonly counts: readonly number[];
}

export interface Kept {
  readonly unit: Unit;
  readonly periods: readonly DatedPeriod[];
  /** Messages that are at the service, by mailbox. */
  readonly mailboxes: readonly Series[];
  /** Messages that are deleted there. */
  readonly ended: Series;
  /** All together, each message once. */
  readonly total: Series;
  /** Messages that count in several mailboxes. */
  readonly shared: number;
}

/** A period with the term that finds what was received in it. */
export interface DatedPeriod extends Period {
  readonly term: string;
}

export interface Gigabytes {
  readonly periods: readonly Period[];
  /** Bytes of mail received by the end of each period. */
  readonly mail: readonly number[];
  /** Bytes of log and catalog, one sample a day, from the first one that is remembered; whole archive. */
  readonly disk: readonly { readonly at: number; readonly bytes: number }[];
  readonly mailNow: number;
  /** Null where only some mailboxes are shown: the disk is that of all. */
  readonly diskNow: number | null;
}

export interface ChangesOfTime {
  readonly unit: Unit;
  readonly periods: readonly Period[];
  /** Null where it was not counted: before the first commit, and where there is more than one chart reads. */
  readonly stored: readonly (number | null)[];
  readonly ended: readonly (number | null)[];
  /** What finds the messages of each period. */
  readonly found: readonly FoundChanges[];
  /** What finds those of all periods that were counted. */
  readonly all: FoundChanges;
  /** What finds the archive as it was at the end of each period. */
  readonly asOf: readonly string[];
  /** When the archive began. */
  readonly since: number | null;
  /** Whether there is more than one chart reads. */
  readonly cut: boolean;
}

/** Queries for what was stored first, and for what was deleted. */
export interface FoundChanges {
  readonly stored: string;
  readonly ended: string;
}

export interface ProofAge {
  readonly address: string;
  readonly folder: string;
  /** Null where it never was compared. */
  readonly at: number | null;
  readonly complete: boolean;
  /** Null where the language cannot name the folder. */
  readonly query: string | null;
}

export interface Requests {
  readonly unit: Unit;
  readonly periods: readonly RequestPeriod[];
  /** When the first day that is remembered begins; null for none. */
  readonly since: number | null;
  /** Requests a minute that all gates together may make; null where none is known. */
  readonly perMinute: number | null;
  readonly gates: readonly {
    readonly gate: string;
    readonly requests: number;
    readonly refused: number;
  }[];
}

export interface RequestPeriod extends Period {
  /** Null where nothing is remembered. */
  readonly requests: number | null;
  /** Of these, what was refused for its rate (429), and what failed in another way. */
  readonly refused: number;
  readonly failed: number;
}

export type BrickState = 'recent' | 'earlier' | 'partly' | 'never' | 'open' | 'damaged';

export interface Brick {
  readonly segment: number;
  readonly bytes: number;
  readonly state: BrickState;
  /** When all of it was last read back; null where it never was. */
  readonly at: number | null;
}

export interface Verified {
  readonly bricks: readonly Brick[];
  /** When every byte was last read; null while it never was. */
  readonly fullAt: number | null;
  readonly findings: number;
}

export interface StoredBytes {
  readonly name: string;
  /** Which series of the mailboxes it belongs to, from 0; null for none. */
  readonly series: number | null;
  readonly bytes: number;
  readonly messages: number | null;
  /** Null for what is gathered, or what the language cannot name. */
  readonly query: string | null;
}

export interface Storage {
  readonly mailboxes: readonly StoredBytes[];
  readonly folders: readonly StoredBytes[];
  /** Null where a part of an archive is shown that has too many attachments to count those of the part. */
  readonly types: readonly StoredBytes[] | null;
}

export interface Correspondents {
  /** Such as `2025 and 2026`. */
  readonly years: string;
  readonly people: readonly Correspondent[];
  /** What the queries are limited to. */
  readonly term: string;
}

export interface Rhythm {
  /** Seven weekdays from Monday, 24 hours each. */
  readonly counts: readonly (readonly number[])[];
  readonly from: number;
  /** There are more messages than one chart reads: these are the newest. */
  readonly cut: boolean;
  /** What finds all of them; null where they are cut. */
  readonly query: string | null;
}

export interface Quarantined {
  readonly count: number;
  readonly entries: readonly {
    readonly since: number;
    readonly address: string;
    readonly folder: string;
    readonly uid: number;
    readonly reason: string;
    readonly detail: string;
    readonly tries: number;
  }[];
}

/** What a reader asked for. */
export interface DashboardAsk {
  /** Null: each chart shows the time that suits it. */
  readonly range: Range | null;
  /** IANA name; null for the zone of this machine. */
  readonly zone: string | null;
}
