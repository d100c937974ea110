import { errnoOf, MailkeepError } from '../errors/mailkeep-error.ts';
import {
  hasState,
  openExistingState,
  openState,
  readState,
  type StateFile,
} from '../state/state-file.ts';
import { lastingSessions } from './access/lasting-sessions.ts';
import { type SessionStore, sessionsInMemory, storedSessions } from './access/sessions.ts';

export interface OpenedSessions {
  readonly store: SessionStore;
  /** The tokens of the API, and what the origin reported of mailboxes; null where there is no state. */
  readonly state: StateFile | null;
  /** False where the archive's state cannot be written: everybody signs in again after a restart. */
  readonly areKept: boolean;
  close(): void;
}

/** Opens the sessions of an archive: in its state, or in memory where that cannot be written. */
export function openSessions(dataDir: string): OpenedSessions {
  const state = writableState(dataDir);
  return state === undefined
    ? withoutWriting(dataDir)
    : {
        store: lastingSessions(storedSessions(state)),
        state,
        areKept: true,
        close: () => state.close(),
      };
}

/** Tokens that were made before the archive came to where it cannot be written are known there too. */
function withoutWriting(dataDir: string): OpenedSessions {
  const state = readState(dataDir) ?? null;
  return { store: sessionsInMemory(), state, areKept: false, close: () => state?.close() };
}

/**
 * Opens the archive's state for writing; undefined where that cannot be. A state that is there and cannot be read stays
 * as it is: to put it aside is for a command that writes.
 */
export function writableState(dataDir: string): StateFile | undefined {
  const known = openExistingState(dataDir);
  if (known !== undefined || hasState(dataDir)) return known;
  try {
    return openState(dataDir);
  } catch (error) {
    // The folder cannot be written, or its disk is full.
    if (error instanceof MailkeepError || errnoOf(error) !== undefined) return undefined;
    throw error;
  }
}
