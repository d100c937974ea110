import { type CommandEntry, listCommands } from './context.ts';
import { inFleet } from './in-fleet.ts';
import { READ_ONLY_COMMANDS } from './reading-commands.ts';
import { type ProcessStreams, run } from './run.ts';

/** Commands that with `--fleet-account` read an account of a fleet. */
const IN_FLEET: ReadonlySet<string> = new Set([
  ...READ_ONLY_COMMANDS.map(({ name }) => name),
  'mcp',
  'export',
]);

/** In the order of the help. */
export const COMMANDS: readonly CommandEntry[] = [
  ...listCommands('Start', {
    init: ['write a configuration for your mailboxes', () => import('./commands/init.ts')],
    account: ['sign in IMAP accounts, or move them', () => import('./commands/account.ts')],
    sync: ['mirror what is new or changed', () => import('./commands/sync.ts')],
    daemon: ['keep the archive up to date', () => import('./commands/daemon.ts')],
    doctor: ['check everything that a sync needs', () => import('./commands/doctor.ts')],
    config: ['check or show the configuration', () => import('./commands/config.ts')],
  }),
  ...READ_ONLY_COMMANDS,
  ...listCommands('Read', {
    stats: ['count messages by time, folder, people or type', () => import('./commands/stats.ts')],
    web: ['read and search the archive in a browser', () => import('./commands/web.ts')],
    mcp: ['let an assistant read the archive', () => import('./commands/mcp.ts')],
  }),
  ...listCommands('Back up', {
    verify: ['verify the archive, a copy or the source', () => import('./commands/verify.ts')],
    copy: ['update a second copy of the archive', () => import('./commands/copy.ts')],
    checkpoint: ['sign a statement about the log', () => import('./commands/checkpoint.ts')],
    export: ['write messages as files', () => import('./commands/export.ts')],
    restore: ['put messages back into a mailbox', () => import('./commands/restore.ts')],
    import: ['import mail from .eml, mbox and Maildir', () => import('./commands/import.ts')],
  }),
  ...listCommands('Maintain', {
    quarantine: ['list incomplete messages, and why', () => import('./commands/quarantine.ts')],
    prune: ['remove messages that were deleted long ago', () => import('./commands/prune.ts')],
    forget: ['remove messages permanently', () => import('./commands/forget.ts')],
    rebuild: ['rebuild the index from the log', () => import('./commands/rebuild.ts')],
    compact: ['recompress old segments', () => import('./commands/compact.ts')],
    notify: ['send a test notification', () => import('./commands/notify.ts')],
    token: ['create, list and revoke API tokens', () => import('./commands/token.ts')],
  }),
  ...listCommands('Advanced', {
    webhooks: ['list, test, pause and delete webhooks', () => import('./commands/webhooks.ts')],
    api: ['call an operation of the mail service', () => import('./commands/api.ts')],
    fleet: ['run archives on several machines', () => import('./commands/fleet.ts')],
    sandbox: ['run a local mail service for tests', () => import('./commands/sandbox.ts')],
    completion: ['print a script for shell completion', () => import('./commands/completion.ts')],
  }),
].map((entry) => (IN_FLEET.has(entry.name) ? inFleet(entry) : entry));

/** All commands, including internal ones: `complete` is called by completion scripts, and `manual` by the build. */
export const ALL_COMMANDS: readonly CommandEntry[] = [
  ...COMMANDS,
  ...listCommands('Advanced', {
    complete: ['what may stand next in a line', () => import('./commands/completion-answer.ts')],
    manual: ['the man page', () => import('./commands/manual.ts')],
  }).map((entry) => ({ ...entry, hidden: true as const })),
];

/** Runs a command line without affecting this process. */
export const runCommandLine = (args: readonly string[], surface: ProcessStreams) =>
  run(args, ALL_COMMANDS, surface);
