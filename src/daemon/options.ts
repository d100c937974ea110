import type { Narrowing } from '../engine/pass/selection.ts';
import type { DaemonClock, Observer, PassRunner } from './ports.ts';
import type { Scheduled, Timetable } from './timetable.ts';

/** What `sync` asks a running daemon for. */
export interface SyncRequest extends Narrowing {
  readonly full: boolean;
  readonly acceptEndings: boolean;
}

export interface DaemonOptions {
  readonly accounts: readonly string[];
  readonly runner: PassRunner;
  readonly clock: DaemonClock;
  readonly timetable: Timetable;
  /** Called when something of the timetable was begun, to remember when. */
  readonly begun: (name: Scheduled, at: number) => void;
  /** Scheduled work other than passes. Each chore reports its own result. */
  readonly chores: {
    /** Compares the archive with itself. */
    verify(signal: AbortSignal): Promise<void>;
    /** Lets go of what retention says, while nothing else writes. */
    prune(signal: AbortSignal): Promise<void>;
  };
  readonly observer: Observer;
  readonly random: () => number;
  /** The archive cannot go on, or there is a mistake in the program: the process has to end. */
  readonly onFatal: (error: unknown) => void;
}
