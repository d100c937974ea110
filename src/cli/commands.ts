import type { CommandFile } from './command-file.ts';

export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<CommandFile>;
}

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
    name: 'status',
    summary: 'how fresh and how large the archive is',
    load: () => import('./commands/status.ts'),
  },
  {
    name: 'search',
    summary: 'find messages by their text, offline',
    load: () => import('./commands/search.ts'),
  },
  {
    name: 'list',
    summary: 'list the messages of mailboxes and folders',
    load: () => import('./commands/list.ts'),
  },
  {
    name: 'show',
    summary: 'read a message, its headers or its exact source',
    load: () => import('./commands/show.ts'),
  },
  {
    name: 'attachments',
    summary: 'list or save the attachments of a message',
    load: () => import('./commands/attachments.ts'),
  },
  {
    name: 'history',
    summary: 'all that happened to a message',
    load: () => import('./commands/history.ts'),
  },
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
