import type { ReadingCommand } from './command-name.ts';
import { listCommands } from './context.ts';

export const READ_ONLY_COMMANDS = listCommands<ReadingCommand>('Read', {
  status: ['show how fresh and large the archive is', () => import('./commands/status.ts')],
  search: ['find messages by their text', () => import('./commands/search.ts')],
  list: ['list messages of mailboxes and folders', () => import('./commands/list.ts')],
  show: ['read a message', () => import('./commands/show.ts')],
  attachments: ['list or save attachments of a message', () => import('./commands/attachments.ts')],
  history: ["show a message's history", () => import('./commands/history.ts')],
});
