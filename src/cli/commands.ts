import { atAnyNode } from './at-any-node.ts';
import type { CommandEntry } from './context.ts';
import { FORGET, MCP, STATS } from './fleet-commands.ts';
import { READ_ONLY_COMMANDS } from './reading-commands.ts';
import { type ProcessStreams, run } from './run.ts';

const entry = (name: string, summary: string, load: CommandEntry['load']): CommandEntry => ({
  name,
  summary,
  load,
});

export const COMMANDS: readonly CommandEntry[] = [
  entry('init', 'write a configuration for your own mailboxes', () => import('./commands/init.ts')),
  entry('sync', 'mirror what is new or changed at the service', () => import('./commands/sync.ts')),
  entry(
    'daemon',
    'keep the archive up to date, by schedules and webhooks',
    () => import('./commands/daemon.ts'),
  ),
  atAnyNode(READ_ONLY_COMMANDS.status),
  atAnyNode(READ_ONLY_COMMANDS.search),
  atAnyNode(READ_ONLY_COMMANDS.list),
  atAnyNode(READ_ONLY_COMMANDS.show),
  atAnyNode(READ_ONLY_COMMANDS.attachments),
  atAnyNode(READ_ONLY_COMMANDS.history),
  atAnyNode(STATS),
  entry('web', 'read and search the archive in a browser', () => import('./commands/web.ts')),
  atAnyNode(MCP),
  entry(
    'verify',
    'verify that the archive is what was written to it',
    () => import('./commands/verify.ts'),
  ),
  entry(
    'checkpoint',
    'sign a statement about the log, to keep elsewhere',
    () => import('./commands/checkpoint.ts'),
  ),
  entry('copy', 'update a second copy of the archive', () => import('./commands/copy.ts')),
  entry(
    'export',
    'write messages as .eml files, zip, mbox or Maildir',
    () => import('./commands/export.ts'),
  ),
  entry(
    'restore',
    'put messages back into a mailbox, over IMAP',
    () => import('./commands/restore.ts'),
  ),
  entry('import', 'import mail from .eml, mbox and Maildir', () => import('./commands/import.ts')),
  entry(
    'quarantine',
    'list what could not be fetched completely, and why',
    () => import('./commands/quarantine.ts'),
  ),
  entry('rebuild', 'rebuild the catalog from the log', () => import('./commands/rebuild.ts')),
  entry(
    'compact',
    'recompress old segments as the configuration says',
    () => import('./commands/compact.ts'),
  ),
  entry(
    'prune',
    'remove what was deleted long ago, as the configuration says',
    () => import('./commands/prune.ts'),
  ),
  FORGET,
  entry(
    'webhooks',
    'list, test, pause and delete webhooks, and see their log',
    () => import('./commands/webhooks.ts'),
  ),
  entry('notify', 'send a test notification', () => import('./commands/notify.ts')),
  entry(
    'token',
    'create, list and revoke tokens of the API over the archive',
    () => import('./commands/token.ts'),
  ),
  entry('doctor', 'check everything that a sync needs', () => import('./commands/doctor.ts')),
  entry(
    'config',
    'check the configuration, or show it with its defaults',
    () => import('./commands/config.ts'),
  ),
  entry('service', 'write units for systemd', () => import('./commands/service.ts')),
  entry(
    'fleet',
    'archives on several machines, from 1,000 mailboxes up',
    () => import('./commands/fleet/command.ts'),
  ),
  entry('api', 'call any operation of the mail service', () => import('./commands/api.ts')),
  entry(
    'sandbox',
    'run a local mail service with generated mail',
    () => import('./commands/sandbox.ts'),
  ),
  entry(
    'completion',
    'print a script for shell completion',
    () => import('./commands/completion.ts'),
  ),
];

/** All commands, including internal ones: `complete` is called by completion scripts, and `manual` by the build. */
export const ALL_COMMANDS: readonly CommandEntry[] = [
  ...COMMANDS,
  {
    ...entry(
      'complete',
      'what may stand next in a line',
      () => import('./commands/completion-answer.ts'),
    ),
    hidden: true,
  },
  { ...entry('manual', 'the man page', () => import('./commands/manual.ts')), hidden: true },
];

/** Runs a command line without affecting this process. */
export const runCommandLine = (args: readonly string[], surface: ProcessStreams) =>
  run(args, ALL_COMMANDS, surface);
