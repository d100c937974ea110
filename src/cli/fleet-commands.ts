import type { CommandEntry } from './context.ts';
import { READ_ONLY_COMMANDS } from './reading-commands.ts';

export const STATS: CommandEntry = {
  name: 'stats',
  summary: 'count messages by time, place, people or type',
  load: () => import('./commands/stats.ts'),
};

export const MCP: CommandEntry = {
  name: 'mcp',
  summary: 'let an assistant on this machine read the archive',
  load: () => import('./commands/mcp.ts'),
};

export const FORGET: CommandEntry = {
  name: 'forget',
  summary: 'remove messages permanently, with every trace of them',
  load: () => import('./commands/forget.ts'),
};

/** The commands that a worker of a fleet runs for other nodes: see `READABLE` for what they may be given. */
export const ANSWERED: readonly CommandEntry[] = [
  ...Object.values(READ_ONLY_COMMANDS),
  STATS,
  MCP,
  FORGET,
  {
    name: 'web',
    summary: 'answer HTTP requests on standard input and output',
    load: () => import('./commands/web-answer.ts'),
  },
  {
    name: 'export',
    summary: 'give another node what it exports',
    load: () => import('./commands/export-answer.ts'),
  },
];
