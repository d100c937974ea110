import type { ReadingCommand } from './command-name.ts';
import { listCommands } from './context.ts';

export const READ_ONLY_COMMANDS = listCommands<ReadingCommand>({
  status: ['how fresh and how large the archive is', () => import('./commands/status.ts')],
  search: ['find messages by their text, offline', () => import('./commands/search.ts')],
  list: ['list the messages of mailboxes and folders', () => import('./commands/list.ts')],
  show: ['read a message, its headers or its exact source', () => import('./commands/show.ts')],
  attachments: [
    'list or save the attachments of a message',
    () => import('./commands/attachments.ts'),
  ],
  history: ['all that happened to a message', () => import('./commands/history.ts')],
});
