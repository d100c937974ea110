import { type CommandEntry, listCommands } from './context.ts';
import { inFleet } from './in-fleet.ts';
import { READ_ONLY_COMMANDS } from './reading-commands.ts';
import { type ProcessStreams, run } from './run.ts';

export const COMMANDS: readonly CommandEntry[] = [
  ...listCommands({
    init: ['write a configuration for your own mailboxes', () => import('./commands/init.ts')],
    sync: ['mirror what is new or changed at the service', () => import('./commands/sync.ts')],
    daemon: [
      'keep the archive up to date, by schedules and webhooks',
      () => import('./commands/daemon.ts'),
    ],
  }),
  ...READ_ONLY_COMMANDS.map(inFleet),
  ...listCommands({
    stats: ['count messages by time, place, people or type', () => import('./commands/stats.ts')],
    web: ['read and search the archive in a browser', () => import('./commands/web.ts')],
  }),
  ...listCommands({
    mcp: ['let an assistant on this machine read the archive', () => import('./commands/mcp.ts')],
  }).map(inFleet),
  ...listCommands({
    verify: [
      'verify that the archive is what was written to it',
      () => import('./commands/verify.ts'),
    ],
    checkpoint: [
      'sign a statement about the log, to keep elsewhere',
      () => import('./commands/checkpoint.ts'),
    ],
    copy: ['update a second copy of the archive', () => import('./commands/copy.ts')],
  }),
  ...listCommands({
    export: [
      'write messages as .eml files, zip, mbox or Maildir',
      () => import('./commands/export.ts'),
    ],
  }).map(inFleet),
  ...listCommands({
    restore: ['put messages back into a mailbox, over IMAP', () => import('./commands/restore.ts')],
    import: ['import mail from .eml, mbox and Maildir', () => import('./commands/import.ts')],
    quarantine: [
      'list what could not be fetched completely, and why',
      () => import('./commands/quarantine.ts'),
    ],
    rebuild: ['rebuild the catalog from the log', () => import('./commands/rebuild.ts')],
    compact: [
      'recompress old segments as the configuration says',
      () => import('./commands/compact.ts'),
    ],
    prune: [
      'remove what was deleted long ago, as the configuration says',
      () => import('./commands/prune.ts'),
    ],
  }),
  ...listCommands({
    forget: [
      'remove messages permanently, with every trace of them',
      () => import('./commands/forget.ts'),
    ],
    webhooks: [
      'list, test, pause and delete webhooks, and see their log',
      () => import('./commands/webhooks.ts'),
    ],
    notify: ['send a test notification', () => import('./commands/notify.ts')],
    token: [
      'create, list and revoke tokens of the API over the archive',
      () => import('./commands/token.ts'),
    ],
    account: ['sign in IMAP accounts, or move them', () => import('./commands/account.ts')],
    doctor: ['check everything that a sync needs', () => import('./commands/doctor.ts')],
    config: [
      'check the configuration, or show it with its defaults',
      () => import('./commands/config.ts'),
    ],
    service: ['write units for systemd', () => import('./commands/service.ts')],
    fleet: [
      'archives on several machines, from 1,000 mailboxes up',
      () => import('./commands/fleet.ts'),
    ],
    api: ['call any operation of the mail service', () => import('./commands/api.ts')],
    sandbox: [
      'run a local mail service with generated mail',
      () => import('./commands/sandbox.ts'),
    ],
    completion: ['print a script for shell completion', () => import('./commands/completion.ts')],
  }),
];

/** All commands, including internal ones: `complete` is called by completion scripts, and `manual` by the build. */
export const ALL_COMMANDS: readonly CommandEntry[] = [
  ...COMMANDS,
  ...listCommands({
    complete: ['what may stand next in a line', () => import('./commands/completion-answer.ts')],
    manual: ['the man page', () => import('./commands/manual.ts')],
  }).map((entry) => ({ ...entry, hidden: true as const })),
];

/** Runs a command line without affecting this process. */
export const runCommandLine = (args: readonly string[], surface: ProcessStreams) =>
  run(args, ALL_COMMANDS, surface);
