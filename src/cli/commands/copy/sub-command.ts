import type { Command } from 'commander';
import { EXIT_STATUS_HELP } from '../../../errors/exit-codes.ts';

/** Adds a command below another, described as the commands of `copy` are. */
export function sub(command: Command, name: string, summary: string): Command {
  return command
    .command(name)
    .summary(summary)
    .description(summary)
    .addHelpText('after', EXIT_STATUS_HELP);
}
