import { type CommandEntry, READING } from './reading-commands.ts';

/** Every command, in the order of the help. A command's file is loaded only when it is the one. */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'init',
    summary: 'write a configuration for your own mailboxes',
    load: () => import('./commands/init/command.ts'),
  },
  {
    name: 'sync',
    summary: 'mirror what is new or changed at the service',
    load: () => import('./commands/sync/command.ts'),
  },
  {
    name: 'daemon',
    summary: 'keep the archive fresh: by schedules and hints',
    load: () => import('./commands/daemon/command.ts'),
  },
  READING.status,
  READING.search,
  READING.list,
  READING.show,
  READING.attachments,
  READING.history,
  {
    name: 'verify',
    summary: 'prove that the archive is what was written to it',
    load: () => import('./commands/verify/command.ts'),
  },
  {
    name: 'checkpoint',
    summary: 'sign how far the log goes, to be kept elsewhere',
    load: () => import('./commands/checkpoint/command.ts'),
  },
  {
    name: 'copy',
    summary: 'bring a second copy of the archive to the same commits',
    load: () => import('./commands/copy/command.ts'),
  },
  {
    name: 'export',
    summary: 'write messages as .eml files, zip, mbox or Maildir',
    load: () => import('./commands/export/command.ts'),
  },
  {
    name: 'import',
    summary: 'bring mail from .eml, mbox and Maildir into the archive',
    load: () => import('./commands/import/command.ts'),
  },
  {
    name: 'quarantine',
    summary: 'what could not be fetched whole, and why',
    load: () => import('./commands/quarantine/command.ts'),
  },
  {
    name: 'rebuild',
    summary: 'rebuild the catalog from the log',
    load: () => import('./commands/rebuild/command.ts'),
  },
  {
    name: 'compact',
    summary: 'compress old segments as the configuration says now',
    load: () => import('./commands/compact/command.ts'),
  },
  {
    name: 'prune',
    summary: 'remove what ended long ago, as the configuration says',
    load: () => import('./commands/prune/command.ts'),
  },
  {
    name: 'forget',
    summary: 'remove messages for good, with every trace of them',
    load: () => import('./commands/forget/command.ts'),
  },
  {
    name: 'webhooks',
    summary: 'list, test, pause and delete webhooks, and see their log',
    load: () => import('./commands/webhooks/command.ts'),
  },
  {
    name: 'doctor',
    summary: 'look at all that a sync needs, and say what to do',
    load: () => import('./commands/doctor/command.ts'),
  },
  {
    name: 'config',
    summary: 'check the configuration, or show it with its defaults',
    load: () => import('./commands/config/command.ts'),
  },
  {
    name: 'service',
    summary: 'write units for systemd',
    load: () => import('./commands/service/command.ts'),
  },
  {
    name: 'api',
    summary: 'call any operation of the mail service',
    load: () => import('./commands/api/command.ts'),
  },
  {
    name: 'sandbox',
    summary: 'serve a mail service with generated mail on this machine',
    load: () => import('./commands/sandbox/command.ts'),
  },
  {
    name: 'completion',
    summary: 'print the script that lets a shell complete command lines',
    load: () => import('./commands/completion/command.ts'),
  },
];
