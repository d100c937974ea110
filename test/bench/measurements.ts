import type { ImapSpeed } from './imap-speed.ts';
import type { SearchTerms } from './search-terms.ts';

/** A peer's figure, or why there is none. */
export type Measured<T> = { readonly value: T } | { readonly missing: string };

export type TermName = keyof SearchTerms;
export const TERM_NAMES: readonly TermName[] = ['common', 'rare', 'phrase'];

/** A figure for each of the three searches. */
export type PerTerm<T> = Readonly<Record<TermName, T>>;

export function perTerm<T>(figure: (name: TermName) => T): PerTerm<T> {
  return { common: figure('common'), rare: figure('rare'), phrase: figure('phrase') };
}

/** The first sync of a mailbox into nothing, and a pass that finds nothing new. */
export interface MirrorFigures {
  readonly firstMs: readonly number[];
  readonly againMs: readonly number[];
  readonly peakBytes: number | undefined;
  readonly stored: number;
}

export interface IndexerFigures {
  readonly name: string;
  readonly wallMs: readonly number[];
  readonly peakBytes: number | undefined;
  readonly diskBytes: number;
  readonly hits: PerTerm<number>;
}

/** A first sync that was confined to some cores. */
export interface CoreFigures {
  readonly cores: number;
  readonly fetchMs: number;
  readonly searchableMs: number;
  /** Sealed. */
  readonly wallMs: number;
  readonly peakBytes: number | undefined;
}

export interface MailkeepFigures {
  /** Whole process of the first sync, sealing the log included. */
  readonly wallMs: readonly number[];
  /** From the start of the process until everything could be found. */
  readonly searchableMs: readonly number[];
  /** Until all bytes and places were durable. */
  readonly fetchMs: readonly number[];
  readonly indexMs: readonly number[];
  /** Processor time of all threads. */
  readonly cpuMs: readonly number[];
  /** The same by the names of threads. */
  readonly threadMs: readonly Readonly<Record<string, number>>[];
  /** The first sync on fewer cores than the machine has, if it has more than two. */
  readonly onCores: readonly CoreFigures[];
  /** As the units start it. */
  readonly peakBytes: number | undefined;
  /** As a shell starts it. */
  readonly shellPeakBytes: number | undefined;
  readonly stored: number;
  /** Counted by the service. */
  readonly firstRequests: number;
  readonly againMs: readonly number[];
  readonly againRequests: number;
  /** Until one deletion among the old messages was found; absent when the pass did not find it. */
  readonly deletionRequests?: number;
  /** With all segments sealed. */
  readonly logBytes: number;
  readonly catalogBytes: number;
  readonly sealMs: number;
  readonly rebuildMs: readonly number[];
  /** Of these, the text of attachments. */
  readonly rebuildAttachmentsMs: readonly number[];
  readonly hits: PerTerm<number>;
  readonly inProcessMs: PerTerm<number>;
}

/** The newest 20 hits from a command line, median milliseconds; absent where the program is. */
export interface ColdFigures {
  /** `node -e 0`. */
  readonly node: number;
  readonly mailkeep?: PerTerm<number>;
  readonly mu?: PerTerm<number>;
  readonly notmuch?: PerTerm<number>;
}

/** Searches in one made-up catalog, in process; milliseconds, medians but for the slowest. */
export interface SearchSpeed {
  readonly messages: number;
  readonly kinds: readonly { readonly name: string; readonly ms: number }[];
  readonly relevance: { readonly hits: number; readonly ms: number };
  readonly slowest: {
    readonly ms: number;
    readonly query: string;
    readonly queries: number;
    /** Of what was put together by chance. */
    readonly seed: number;
    /** Of four ways to ask each: newest, oldest, by relevance, counted. */
    readonly refused: number;
  };
}

export interface ExportSpeed {
  readonly format: string;
  readonly ms: readonly number[];
  /** What one export has. */
  readonly messages: number;
  readonly bytes: number;
}

/** Work with an archive that is there, sealed; whole processes. */
export interface ArchiveSpeed extends VerifySpeed {
  readonly exports: readonly ExportSpeed[];
  /** Rewriting of the whole sealed log, whole processes. */
  readonly compaction: { readonly logBytes: number; readonly ms: readonly number[] };
  readonly rebuildMs: readonly number[];
  /** Of these, the text of attachments. */
  readonly rebuildAttachmentsMs: readonly number[];
  /** Full verification of another archive, of messages that are nearly all attachment. */
  readonly heavy?: VerifySpeed;
}

/** Full verification of a sealed archive; whole processes. */
export interface VerifySpeed {
  /** Of the messages' sources. */
  readonly rawBytes: number;
  readonly verifyMs: readonly number[];
  readonly verifyPeakBytes: number | undefined;
}

/** Everything one run measured. Lists hold one figure per repetition. */
export interface Measurements {
  readonly messages: number;
  readonly rawBytes: number;
  readonly maildirBytes: number;
  readonly folderCounts: readonly number[];
  /** Small files a second that were made durable one by one, in each round. */
  readonly durableFiles: readonly number[];
  readonly mbsync: Measured<MirrorFigures>;
  readonly mu: Measured<IndexerFigures>;
  readonly notmuch: Measured<IndexerFigures>;
  readonly mailkeep: Measured<MailkeepFigures>;
  readonly cold: ColdFigures;
  /** Absent when it failed. */
  readonly archive?: ArchiveSpeed;
  readonly imap?: ImapSpeed;
  /** From a message's arrival until the daemon, notified by a webhook, has it durable and searchable; by message. */
  readonly webhookMs?: readonly number[];
  /** Peak memory of a first sync by number of messages, with --full. */
  readonly memory?: readonly { readonly messages: number; readonly peakBytes: number }[];
  /** By size of the made-up catalog, the smallest first; empty with --no-search. */
  readonly search: readonly SearchSpeed[];
}
