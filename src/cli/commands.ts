import { atAnyNode } from './at-any-node.ts';
import { FORGET, MCP, STATS } from './fleet-commands.ts';
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
    summary: 'keep the archive up to date, by schedules and webhooks',
    load: () => import('./commands/daemon.ts'),
  },
  atAnyNode(READING.status),
  atAnyNode(READING.search),
  atAnyNode(READING.list),
  atAnyNode(READING.show),
  atAnyNode(READING.attachments),
  atAnyNode(READING.history),
  atAnyNode(STATS),
  {
    name: 'web',
    summary: 'read and search the archive in a browser',
    load: () => import('./commands/web.ts'),
  },
  atAnyNode(MCP),
  {
    name: 'verify',
    summary: 'verify that the archive is what was written to it',
    load: () => import('./commands/verify.ts'),
  },
  {
    name: 'checkpoint',
    summary: 'sign a statement about the log, to keep elsewhere',
    load: () => import('./commands/checkpoint.ts'),
  },
  {
    name: 'copy',
    summary: 'update a second copy of the archive',
    load: () => import('./commands/copy.ts'),
  },
  {
    name: 'export',
    summary: 'write messages as .eml files, zip, mbox or Maildir',
    load: () => import('./commands/export.ts'),
  },
  {
    name: 'restore',
    summary: 'put messages back into a mailbox, over IMAP',
    load: () => import('./commands/restore.ts'),
  },
  {
    name: 'import',
    summary: 'import mail from .eml, mbox and Maildir',
    load: () => import('./commands/import.ts'),
  },
  {
    name: 'quarantine',
    summary: 'list what could not be fetched completely, and why',
    load: () => import('./commands/quarantine.ts'),
  },
  {
    name: 'rebuild',
    summary: 'rebuild the catalog from the log',
    load: () => import('./commands/rebuild.ts'),
  },
  {
    name: 'compact',
    summary: 'recompress old segments as the configuration says',
    load: () => import('./commands/compact.ts'),
  },
  {
    name: 'prune',
    summary: 'remove what was deleted long ago, as the configuration says',
    load: () => import('./commands/prune.ts'),
  },
  FORGET,
  {
    name: 'webhooks',
    summary: 'list, test, pause and delete webhooks, and see their log',
    load: () => import('./commands/webhooks.ts'),
  },
  {
    name: 'notify',
    summary: 'send a test notification',
    load: () => import('./commands/notify.ts'),
  },
  {
    name: 'token',
    summary: 'create, list and revoke tokens of the API over the archive',
    load: () => import('./commands/token.ts'),
  },
  {
    name: 'doctor',
    summary: 'check everything that a sync needs',
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
    name: 'fleet',
    summary: 'archives on several machines, from 1,000 mailboxes up',
    load: () => import('./commands/fleet/command.ts'),
  },
  {
    name: 'api',
    summary: 'call any operation of the mail service',
    load: () => import('./commands/api.ts'),
  },
  {
    name: 'sandbox',
    summary: 'run a local mail service with generated mail',
    load: () => import('./commands/sandbox.ts'),
  },
  {
    name: 'completion',
    summary: 'print a script for shell completion',
    load: () => import('./commands/completion.ts'),
  },
];
