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
  READING.status,
  READING.search,
  READING.list,
  READING.show,
  READING.attachments,
  READING.history,
  {
    name: 'rebuild',
    summary: 'make the catalog anew from the log',
    load: () => import('./commands/rebuild.ts'),
  },
  {
    name: 'webhooks',
    summary: 'list, test, pause and delete webhooks, and see their log',
    load: () => import('./commands/webhooks.ts'),
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
];
