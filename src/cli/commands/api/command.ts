import type { Command } from 'commander';
import { usageError } from '../../../errors/usage.ts';
import type { Body } from '../../context.ts';
import { collected } from '../../option-values.ts';

interface ApiLine {
  readonly param?: string[];
  readonly body?: string;
  readonly account?: string;
  readonly output?: string;
  readonly yes?: boolean;
  readonly list?: boolean;
  readonly describe?: boolean;
}

const HELP = `
Calls one operation of the service's interface, on either surface, and prints its answer unchanged: JSON as
one object, raw sources and attachments byte for byte. Parameters and body are checked before anything is
sent. Operations of the platform surface (platform.…) need accounts[].platform in the configuration.

mailbox= takes the address of a mailbox or its resource id. A body is JSON: from a file, from standard input
(-), or typed directly. Operations that cannot be undone ask for confirmation on a terminal and need --yes
elsewhere. An answer 207 (partial success) exits with code 1.

EXAMPLES
  mailkeep api --list
  mailkeep api listMessages --describe
  mailkeep api getCurrentAccount
  mailkeep api listMessages --param mailbox=anna@example.org --param folder=INBOX --param perPage=5
  mailkeep api createFolder --param mailbox=anna@example.org --body '{"name":"INBOX.Work"}'
  mailkeep api getMessageSource --param mailbox=anna@example.org --param folder=INBOX \\
      --param uid=7 --output message.eml
  mailkeep api deleteFolder --param mailbox=anna@example.org --param folder=INBOX.Work --yes`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('[operation]', 'name of the operation, as --list shows it')
    .option('-p, --param <name=value>', 'a parameter; may be given several times', collected)
    .option('--body <file>', 'the request body, as JSON; - is standard input')
    .option('--account <name>', 'the account of the configuration, where there are several')
    .option('--output <file>', 'write the answer to this file')
    .option('--yes', 'do not ask for confirmation')
    .option('--list', 'list every operation with its parameters')
    .option('--describe', 'describe the operation, without calling it')
    .addHelpText('after', HELP)
    .action((operation: string | undefined, options: ApiLine) =>
      chosen(async (context) => {
        if (operation === undefined || options.list === true) {
          if (options.list !== true) throw missing();
          const { listOperations } = await import('./describe.ts');
          return listOperations(context);
        }
        if (options.describe === true) {
          const { describeOperation } = await import('./describe.ts');
          return describeOperation(context, operation);
        }
        const { callOperation } = await import('./call-operation.ts');
        return callOperation(context, {
          operation,
          params: options.param ?? [],
          body: options.body,
          account: options.account,
          output: options.output,
          yes: options.yes ?? false,
        });
      }),
    );
}

function missing(): Error {
  return usageError('usage-invalid', {
    command: 'api',
    problem: 'an operation is missing; "mailkeep api --list" lists them.',
  });
}
