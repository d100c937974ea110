import type { ProgressListener } from '../../sync/progress.ts';
import type { Notices } from '../notices.ts';
import { plainProgress } from './live-progress.ts';

export interface ShownProgress {
  readonly listen: ProgressListener;
  /** Leaves the terminal as it was. */
  stop(): void;
}

/** Bars on a terminal, lines elsewhere, nothing where nobody reads. */
export async function showProgress(
  notices: Notices,
  now: () => number,
  requestsPerMinute: number,
): Promise<ShownProgress> {
  if (!notices.live) return plainProgress(notices, now, requestsPerMinute);
  const { liveProgress } = await import('./live-progress.ts');
  return liveProgress(notices, now, requestsPerMinute);
}
