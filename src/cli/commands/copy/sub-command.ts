import type { Command } from 'commander';

/**
 * Adds a command below another, described as the commands of `copy` are. Its help lists the options of the program as
 * global ones, but not those of `copy`: there, the same names mean something else.
 */
export function sub(command: Command, name: string, summary: string): Command {
  const added = command.command(name).summary(summary).description(summary);
  let program = command;
  while (program.parent !== null) program = program.parent;
  const visibleGlobalOptions = () => program.options.filter(({ hidden }) => !hidden);
  return added.configureHelp({ ...added.configureHelp(), visibleGlobalOptions });
}
