import { MailkeepError } from './mailkeep-error.ts';

/** An extractor or reader was asked to work after it was closed. */
export function extractorClosed() {
  return new MailkeepError('mail', 'extractor-closed', {});
}

/** The worker thread cannot even start: the installation is broken, not the mail. */
export function mimeWorkerFailed(workerFile: string, cause: unknown) {
  const detail = cause instanceof Error ? cause.message : String(cause);
  return new MailkeepError('mail', 'mime-worker-failed', { worker: workerFile, detail }, { cause });
}

/** A message could not be read: it took too long or too much memory, or the parser gave up. */
export function mailUnreadable(reason: string) {
  return new MailkeepError('mail', 'mail-unreadable', { reason });
}
