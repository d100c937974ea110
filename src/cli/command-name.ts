/** Read-only commands. They start from a separate bundle: see src/cli/launcher/. */
export const READING_COMMANDS = [
  'status',
  'search',
  'list',
  'show',
  'attachments',
  'history',
] as const;
export type ReadingCommand = (typeof READING_COMMANDS)[number];

const WITH_VALUE = new Set(['--config', '--data']);

/** Returns the first word of a command line that is neither an option nor the value of one. */
export function commandName(args: readonly string[]): string | undefined {
  for (let i = 0; i < args.length; i += 1) {
    const arg = args[i] ?? '';
    if (WITH_VALUE.has(arg)) i += 1;
    else if (!arg.startsWith('-')) return arg;
  }
  return undefined;
}

export function readingCommand(name: string | undefined): ReadingCommand | undefined {
  return READING_COMMANDS.find((reading) => reading === name);
}
