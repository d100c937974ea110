import { type CommandEntry, READING } from './reading-commands.ts';

/** Every command, in the order of the help. A command's file is loaded only when it is the one. */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'init',
    summary: 'write a configuration for your own mailboxes',
    load: () => import('./commands/init.ts'),
  },
  {
    name: 'sync',
    summary: 'mirror what is new or changed at the service',
    load: () => import('./commands/sync.ts'),
  },
  {
    name: 'daemon',
    summary: 'keep the archive fresh: by schedules and hints',
    load: () => import('./commands/daemon.ts'),
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
    load: () => import('./commands/verify.ts'),
  },
  {
    name: 'checkpoint',
    summary: 'sign how far the log goes, to be kept elsewhere',
    load: () => import('./commands/checkpoint.ts'),
  },
  {
    name: 'copy',
    summary: 'bring a second copy of the archive to the same commits',
    load: () => import('./commands/copy.ts'),
  },
  {
    name: 'export',
    summary: 'write messages as .eml files, zip, mbox or Maildir',
    load: () => import('./commands/export.ts'),
  },
  {
    name: 'import',
    summary: 'bring mail from .eml, mbox and Maildir into the archive',
    load: () => import('./commands/import.ts'),
  },
  {
    name: 'quarantine',
    summary: 'what could not be fetched whole, and why',
    load: () => import('./commands/quarantine.ts'),
  },
  {
    name: 'rebuild',
    summary: 'rebuild the catalog from the log',
    load: () => import('./commands/rebuild.ts'),
  },
  {
    name: 'compact',
    summary: 'compress old segments as the configuration says now',
    load: () => import('./commands/compact.ts'),
  },
  {
    name: 'prune',
    summary: 'remove what ended long ago, as the configuration says',
    load: () => import('./commands/prune.ts'),
  },
  {
    name: 'forget',
    summary: 'remove messages for good, with every trace of them',
    load: () => import('./commands/forget.ts'),
  },
  {
    name: 'webhooks',
    summary: 'list, test, pause and delete webhooks, and see their log',
    load: () => import('./commands/webhooks.ts'),
  },
  {
    name: 'doctor',
    summary: 'look at all that a sync needs, and say what to do',
    load: () => import('./commands/doctor.ts'),
  },
  {
    name: 'config',
    summary: 'check the configuration, or show it with its defaults',
    load: () => import('./commands/config.ts'),
  },
  {
    name: 'service',
    summary: 'write units for systemd',
    load: () => import('./commands/service.ts'),
  },
  {
    name: 'api',
    summary: 'call any operation of the mail service',
    load: () => import('./commands/api.ts'),
  },
  {
    name: 'sandbox',
    summary: 'serve a mail service with generated mail on this machine',
    load: () => import('./commands/sandbox.ts'),
  },
  {
    name: 'completion',
    summary: 'print the script that lets a shell complete command lines',
    load: () => import('./commands/completion.ts'),
  },
];
