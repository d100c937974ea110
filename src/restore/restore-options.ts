import type { LogReader } from '../archive/read/log-reader.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';
import type { Alteration } from './fit-message.ts';
import type { Rate, RestoreJournal } from './journal.ts';
import type {
  AlteredMessage,
  NamedMessage,
  RefusalReason,
  RefusedMessage,
  RestoreCounts,
} from './plan.ts';
import type { DoubledMessage } from './second-look.ts';
import type { Chosen, RestoreSelection } from './selection.ts';
import type { ServerConnection } from './server.ts';

/** Where the folders go: below a path named by the day, below one of the user's, or where they were. */
export type Destination =
  | { readonly kind: 'dated' }
  | { readonly kind: 'into'; readonly levels: readonly string[] }
  | { readonly kind: 'in-place' };

export interface RestoreOptions {
  /** The server and its user as one text, without a password: the journal's name for it. */
  readonly target: string;
  readonly host: string;
  /** @throws restore-login-refused, restore-certificate, restore-unreachable */
  readonly connect: () => Promise<ServerConnection>;
  readonly selection: RestoreSelection;
  readonly destination: Destination;
  /** Begins another plan, also where one of this selection is unfinished. */
  readonly fresh: boolean;
  /** Stops once it is known what would be done. */
  readonly dryRun: boolean;
  /** At most so many connections. */
  readonly jobs: number;
  readonly catalog: Chosen;
  readonly sources: Pick<LogReader, 'readMessage' | 'streamMessage'>;
  /** Undefined where there is none and nothing may be written. */
  readonly journal: RestoreJournal | undefined;
  /** Between two messages it stops there. */
  readonly signal: AbortSignal;
  readonly now: () => number;
  /** Resolves after so many milliseconds, or at once when the signal is aborted. */
  readonly sleep: (ms: number) => Promise<void>;
  readonly onProgress?: (progress: RestoreProgress) => void;
}

export type RestoreProgress =
  | { readonly step: 'looking'; readonly folder: string }
  | {
      readonly step: 'sending';
      readonly done: number;
      readonly of: number;
      readonly bytes: number;
      readonly ofBytes: number;
      /** Milliseconds since the first message. */
      readonly elapsed: number;
    };

/** A folder of the archive and what became of it. */
export interface RestoredFolder extends RestoreCounts {
  readonly mailbox: string;
  readonly folder: string;
  /** Its path on the server; null where the server takes it under no name. */
  readonly to: string | null;
  /** Characters of its name were replaced. */
  readonly replaced: boolean;
  /** It got a number because another folder has its name. */
  readonly numbered: boolean;
  /** Messages that this plan had appended to an earlier folder of that name, which was made again since. */
  readonly remade: number;
}

export interface RestoreResult extends RestoreCounts {
  readonly to: string;
  /** The plan's number in the journal; null for a dry run of a new one. */
  readonly plan: number | null;
  /** An earlier run of this plan was interrupted. */
  readonly continued: boolean;
  /** When the plan was made, ISO 8601 in UTC; null for a dry run of a new one. */
  readonly begun: string | null;
  readonly dryRun: boolean;
  readonly commit: { readonly number: number; readonly hash: string };
  /** ISO 8601 in UTC. */
  readonly asOf: string | null;
  readonly folders: readonly RestoredFolder[];
  readonly limits: { readonly appendLimit: number | null; readonly quotaLeft: number | null };
  /** What the server will refuse as it has announced: messages over its limit, and beyond its quota. */
  readonly expected: { readonly 'append-limit': number; readonly quota: number };
  /** How fast the server took messages, in this run or the last one that was measured. */
  readonly rate: Rate | null;
  readonly refusals: Readonly<Partial<Record<RefusalReason, number>>>;
  /** Each message that was refused, up to a limit. */
  readonly failures: readonly RefusedMessage[];
  /** Messages that are not exactly as in the archive; of a dry run, those whose flags and dates will not be. */
  readonly altered: {
    readonly messages: number;
    readonly reasons: Readonly<Partial<Record<Alteration, number>>>;
  };
  readonly alterations: readonly AlteredMessage[];
  /** Flags that are never restored. */
  readonly leftOut: { readonly recent: number; readonly deleted: number };
  /** What was looked at once everything was there. */
  readonly looked: { readonly compared: number; readonly fetched: number };
  readonly lost: readonly NamedMessage[];
  readonly doubled: readonly DoubledMessage[];
  readonly connections: number;
  readonly interrupted: boolean;
  /** What ended the run early. */
  readonly ended: MailkeepError | null;
}
