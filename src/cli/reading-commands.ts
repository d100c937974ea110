import type { ReadingCommand } from './command-name.ts';
import type { CommandEntry } from './context.ts';

export const READ_ONLY_COMMANDS: {
  readonly [Name in ReadingCommand]: CommandEntry & { readonly name: Name };
} = {
  status: {
    name: 'status',
    summary: 'how fresh and how large the archive is',
    load: () => import('./commands/status.ts'),
  },
  search: {
    name: 'search',
    summary: 'find messages by their text, offline',
    load: () => import('./commands/search.ts'),
  },
  list: {
    name: 'list',
    summary: 'list the messages of mailboxes and folders',
    load: () => import('./commands/list.ts'),
  },
  show: {
    name: 'show',
    summary: 'read a message, its headers or its exact source',
    load: () => import('./commands/show.ts'),
  },
  attachments: {
    name: 'attachments',
    summary: 'list or save the attachments of a message',
    load: () => import('./commands/attachments.ts'),
  },
  history: {
    name: 'history',
    summary: 'all that happened to a message',
    load: () => import('./commands/history.ts'),
  },
};
