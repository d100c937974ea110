import { defineErrors, endOfSentence } from '../core/errors.ts';

export const mailError = defineErrors({
  mail: {
    'extractor-closed': () => 'The message reader is already closed.',
    'mime-worker-failed': ({ worker, detail }: { worker: string; detail: string }) => [
      `The thread that reads messages cannot start (${worker}): ${endOfSentence(detail)}.`,
      'The installation is broken: reinstall mailkeep.',
    ],
    'mail-unreadable': ({ reason }: { reason: string }) => [
      `The message cannot be read as mail (${reason}).`,
      'Its exact source is safe: "mailkeep show --raw ID".',
    ],
  },
});

/** A worker that cannot start indicates a broken installation rather than broken mail. */
export function mimeWorkerFailed(workerFile: string, cause: unknown) {
  const detail = cause instanceof Error ? cause.message : String(cause);
  return mailError('mime-worker-failed', { worker: workerFile, detail }, cause);
}
