import type { SearchNode } from '../catalog/query-ast.ts';
import type {
  FolderPages,
  HeldPages,
  Overview,
  QuarantinePages,
  Retention,
  RunPages,
  Verifications,
} from './health.ts';
import { within } from './mail-list.ts';
import type { ServedReader } from './served-archive.ts';
import { understandQuery } from './understood-query.ts';

/** How the archive is, as one of several tabs. */
export interface HealthContent {
  /** Milliseconds since the epoch, like all times here. */
  readonly now: number;
  /** False where only some mailboxes are shown: then nothing of the archive as a whole is. */
  readonly whole: boolean;
  /** When the last pass ended; null where none is known. */
  readonly lastPassAt: number | null;
  /** What the tabs count. */
  readonly quarantined: number;
  readonly held: number;
  readonly shown: HealthShown;
  /** The button that has the daemon look now; null for who may read some mailboxes only. */
  readonly look: Look | null;
  /** Whether a daemon runs for the archive; null for who may read some mailboxes only. */
  readonly hasDaemon: boolean | null;
}

export interface Look {
  /** Of the form, for this session. */
  readonly token: string;
  /** What became of the last request for a pass; null where none was made. */
  readonly said: LookAnswer | null;
}

const LOOK_ANSWERS = ['asked', 'nobody', 'version'] as const;
/** `nobody`: no daemon answers. `version`: one does, of another version of the program. */
export type LookAnswer = (typeof LOOK_ANSWERS)[number];

/** Returns what an address says became of a request for a pass. */
export function lookAnswer(typed: string | undefined): LookAnswer | null {
  return LOOK_ANSWERS.find((known) => known === typed) ?? null;
}

export type HealthShown =
  | ({ readonly tab: 'overview' } & Overview)
  | ({ readonly tab: 'folders' } & FolderPages)
  | ({ readonly tab: 'runs' } & RunPages)
  | ({ readonly tab: 'quarantine' } & QuarantinePages)
  | ({ readonly tab: 'held' } & HeldPages)
  | ({ readonly tab: 'verification' } & Verifications)
  | ({ readonly tab: 'retention' } & Retention);

export type HealthTab = HealthShown['tab'];

/** A number of messages with the query that finds exactly these. */
export interface Linked {
  readonly count: number;
  /** Null where the language cannot name them, or where there was no time to count them. */
  readonly query: string | null;
}

/** For all numbers of a page together, in milliseconds. */
const COUNTING_MS = 400;

/** Counts what queries find, so that each number is the one that its link shows. */
export class LinkedNumbers {
  readonly #mayContinue = within(COUNTING_MS);

  constructor(
    private readonly reader: Pick<ServedReader, 'catalog' | 'dataDir' | 'mailboxes'>,
    private readonly now: number,
    private readonly accounts: (node: SearchNode) => ReadonlyMap<string, string>,
  ) {}

  /** @param known what is shown without a link where the query was not counted */
  of(query: string, known: number): Linked {
    if (known === 0 || !this.#mayContinue()) return { count: known, query: null };
    const { request } = understandQuery(query, this.reader, this.now, this.accounts);
    if (request === null) return { count: known, query: null };
    const { count, complete } = this.reader.catalog.countHitsWhile(request, this.#mayContinue);
    return complete ? { count, query } : { count: known, query: null };
  }
}
