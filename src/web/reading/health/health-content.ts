import type { FolderPages } from './folder-rows.ts';
import type { Overview } from './overview.ts';
import type { Retention } from './retention.ts';
import type { RunPages } from './run-pages.ts';
import type { Verifications } from './verifications.ts';
import type { HeldPages, QuarantinePages } from './waiting.ts';

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
