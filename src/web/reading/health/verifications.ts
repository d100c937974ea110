import type { ArchiveStatus } from '../../../engine/status/archive-status.ts';
import type { KeptRun } from '../../../state/runs.ts';
import type { StateFile } from '../../../state/state-file.ts';

export interface Verifications {
  /** The last one, and the damage that is known; null while nothing was ever verified. */
  readonly last: ArchiveStatus['verification'];
  readonly messages: number;
  readonly bytes: number;
  /** Those that the daemon made, newest first. */
  readonly runs: readonly KeptRun[];
}

const ROWS = 50;

export function verificationsOf(
  { verification, messages, logBytes }: ArchiveStatus,
  state: Pick<StateFile, 'runs'> | undefined,
): Verifications {
  const runs = state?.runs.list({ limit: ROWS, kinds: ['verify'] }) ?? [];
  return { last: verification, messages, bytes: logBytes, runs };
}
