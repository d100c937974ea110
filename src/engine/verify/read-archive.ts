import type { VerifyProgress, VouchedCommit } from '../../verify/read-log.ts';
import { checkerOnThreads } from '../../verify/segment-threads.ts';
import { type Verification, verifyArchive } from '../../verify/verify-archive.ts';

/** How reading an archive is done. */
export interface ReadArchive {
  /** Rebuilds and hashes every message; otherwise structure and catalog only. */
  readonly full: boolean;
  /** Commits that the log has to lead to. */
  readonly vouched: readonly VouchedCommit[];
  readonly signal: AbortSignal;
  readonly progress: (progress: VerifyProgress) => void;
}

/** Reads an archive from the first byte of its log to the last, on threads of its own. */
export async function readArchive(dir: string, options: ReadArchive): Promise<Verification> {
  const checker = checkerOnThreads();
  try {
    return await verifyArchive({ dir, checker, ...options });
  } finally {
    await checker.close();
  }
}
