import { defineErrors, reasonText } from '../core/errors.ts';

const COUNTED: Readonly<Record<string, string>> = { STORAGE: 'storage', MESSAGE: 'messages' };

export const daemonError = defineErrors({
  interrupted: {
    'daemon-stopped': () => [
      'The daemon stopped before the pass was finished. What was fetched is safe.',
      'Run the command again: it continues where this one stopped, with or without the daemon.',
    ],
    'daemon-failed': () => [
      'An internal error of the daemon ended this pass.',
      'Its log shows what happened.',
    ],
  },
  'in-use': {
    'daemon-version': ({ found, own }: { found: string; own: string }) => [
      `The archive is in use by a daemon of another version (${found === '' ? 'unknown' : found}; this is ${own}).`,
      'Restart the daemon and run the command again.',
    ],
    'daemon-answer': () => [
      'The daemon sent an unreadable answer over its control socket.',
      'Restart the daemon and run the command again.',
    ],
  },
  config: {
    'daemon-socket-foreign': ({ file }: { file: string }) => [
      `${file} does not point to a control socket in a private folder that you own.`,
      'Run the command as the user of the daemon. If no daemon uses the archive, remove that file.',
    ],
    'daemon-socket-failed': ({ file, reason }: { file: string; reason: string }) => [
      `The control socket ${file} cannot be created: ${reasonText(reason)}.`,
      'Check what is at this path, and whether this user may write there.',
    ],
  },
  origin: {
    /** `quota` is the service's own name, STORAGE or MESSAGE. `percent` is rounded down. */
    'mailbox-nearly-full': (f: { address: string; quota: string; percent: number }) => [
      `Mailbox ${f.address} is ${f.percent}% full (${COUNTED[f.quota] ?? f.quota}).`,
      'A full mailbox may refuse new mail. Delete mail at the service (the archive keeps it), or raise the quota.',
    ],
  },
});
