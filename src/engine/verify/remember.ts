import { accessSync, constants, existsSync } from 'node:fs';
import { acquireLock } from '../../archive/write/lock.ts';
import { catalogError } from '../../errors/catalog.ts';
import { errnoOf } from '../../errors/errno.ts';
import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';
import type { KnownFinding } from '../../health/facts.ts';
import {
  type FoundFinding,
  rememberVerification,
  type VerificationOutcome,
} from '../../health/verification.ts';
import { openState, openStateBeside, type StateFile, stateFile } from '../../state/state-file.ts';
import type { Finding } from '../../verify/findings.ts';
import type { EngineContext, Remembered } from '../context.ts';

/**
 * Writes something down in the archive's state. A state that cannot be written costs no verdict: that is a warning.
 *
 * @param act what is written
 * @param what names it in the report of a failure
 * @param holdsLock whether the caller holds the archive's lock
 * @returns whether it was written
 */
export function noting(
  { report }: Pick<EngineContext, 'report'>,
  dataDir: string,
  what: Remembered,
  act: (state: StateFile) => void,
  holdsLock = false,
): boolean {
  const opened: Opening = {
    holdsLock,
    movedAside: (file) => report({ event: 'state-put-aside', file }),
  };
  try {
    try {
      using(stateToWrite(dataDir, opened), act);
    } catch (error) {
      if (!hasCode(error, 'catalog-damaged')) throw error;
      using(stateOfWriter(dataDir, opened), act);
    }
    return true;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    report({ event: 'state-not-written', what, error });
    return false;
  }
}

function using(state: StateFile, act: (state: StateFile) => void): void {
  try {
    act(state);
  } finally {
    state.close();
  }
}

interface Opening {
  readonly holdsLock: boolean;
  /** Hears where a state that cannot be read went. */
  readonly movedAside: (file: string) => void;
}

/** Remembers a verification for `status`, `doctor`, `sync` and the daemon; false where it cannot be. */
export function remember(
  context: Pick<EngineContext, 'report'>,
  dataDir: string,
  outcome: VerificationOutcome,
  holdsLock = false,
): boolean {
  const act = (state: StateFile): void => rememberVerification(state, outcome);
  return noting(context, dataDir, 'result', act, holdsLock);
}

/** An archive that was copied or unpacked has no state until something is to be remembered. */
function stateToWrite(dataDir: string, opening: Opening): StateFile {
  const stored = openStateBeside(dataDir);
  if (stored !== undefined) return stored;
  try {
    accessSync(existsSync(stateFile(dataDir)) ? stateFile(dataDir) : dataDir, constants.W_OK);
    return stateOfWriter(dataDir, opening);
  } catch (error) {
    // A writer has made it by now.
    const opened = hasCode(error, 'archive-in-use') ? openStateBeside(dataDir) : undefined;
    if (opened !== undefined) return opened;
    const reason = errnoOf(error);
    if (error instanceof MailkeepError || reason === undefined) throw error;
    throw catalogError('catalog-io', { file: stateFile(dataDir), reason }, error);
  }
}

/** Only the writer of the archive makes a state, or puts a damaged one aside. @throws archive-in-use */
function stateOfWriter(dataDir: string, { holdsLock, movedAside }: Opening): StateFile {
  if (holdsLock) return openState(dataDir, movedAside);
  const lock = acquireLock(dataDir);
  try {
    return openState(dataDir, movedAside);
  } finally {
    lock.release();
  }
}

/** Returns findings as they are remembered: without subjects, folders and addresses, which may be forgotten one day. */
export function knownFindings(
  { words }: Pick<EngineContext, 'words'>,
  findings: readonly Finding[],
): FoundFinding[] {
  return findings.map((finding) => ({
    what: finding.what === 'commit' && finding.by === 'checkpoint' ? 'checkpoint' : finding.what,
    id: finding.what === 'message' ? finding.message.id : null,
    text: words.finding(withoutNames(finding)),
    commit: finding.what === 'commit' ? finding.number : null,
  }));
}

function withoutNames(finding: Finding): Finding {
  switch (finding.what) {
    case 'log':
      return { ...finding, messages: [] };
    case 'message':
      return { ...finding, message: { ...finding.message, subject: null, places: [] } };
    case 'missing':
      return { ...finding, message: null };
    case 'catalog':
      return { ...finding, key: {}, message: null };
    default:
      return finding;
  }
}

/** Whether a finding is about the catalog alone, which a rebuild replaces. */
export function isOfCatalog({ what }: KnownFinding): boolean {
  return what === 'catalog' || what === 'catalog-file';
}
