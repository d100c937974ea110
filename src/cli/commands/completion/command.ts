import { Argument, type Command } from 'commander';
import { EXIT } from '../../../errors/exit-codes.ts';
import type { Body } from '../../context.ts';
import { SHELLS, type Shell, shellScript } from './shell-script.ts';

const HELP = `
Prints a script that lets a shell complete mailkeep's commands, options, mailboxes, folders and search
operators. Names come from the archive, which is only read.

EXAMPLES
  source <(mailkeep completion bash)                                     in ~/.bashrc
  source <(mailkeep completion zsh)                                      in ~/.zshrc, after compinit
  mailkeep completion fish >~/.config/fish/completions/mailkeep.fish     once
  mailkeep completion powershell | Out-String | Invoke-Expression        in $PROFILE`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText('after', HELP)
    .action((shell: Shell) =>
      chosen(async ({ output }) => {
        await output.text(shellScript(shell));
        return EXIT.done;
      }),
    );
}
