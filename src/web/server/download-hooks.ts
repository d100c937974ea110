import type { DownloadHooks } from '../reading/downloads.ts';
import type { ArchiveParts, RequestContext } from './request-context.ts';

/** Returns what a download obeys while it is sent: it breaks off where its session ends. */
export function downloadHooks(
  context: RequestContext,
  { sessions, now, onError }: Pick<ArchiveParts, 'sessions' | 'now' | 'onError'>,
  release: () => void,
): DownloadHooks {
  const { key } = context.get('session');
  const { signal } = context.req.raw;
  return {
    release,
    mayContinue: () => sessions.isOpen(key, now()),
    breakOff: context.env.breakOff,
    failed(error) {
      // That a browser left is no failure.
      if (!signal.aborted) onError(error);
    },
  };
}
