import type { ParamValues } from '../../../api/request-url.ts';
import type { AccountSettings } from '../../../config/settings.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { operationError } from '../../../errors/operations.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import type { Operation } from '../../../wire/operation.ts';
import { confirmed } from '../../ask.ts';
import type { CommandContext } from '../../context.ts';
import { type Clients, namedMailbox, oneAccount, withClients } from '../../service/clients.ts';
import { keepingSecret } from '../webhooks/act.ts';
import { readBody } from './body.ts';
import { type GivenParams, namedOperation, readParams } from './params.ts';
import { showAnswer } from './show-answer.ts';

export interface ApiCommand {
  readonly operation: string;
  /** `name=value` each. */
  readonly params: readonly string[];
  readonly body: string | undefined;
  readonly account: string | undefined;
  readonly output: string | undefined;
  readonly yes: boolean;
}

/** `mailkeep api OPERATION`: checks what was typed, asks where it must, calls, shows. */
export async function callOperation(
  context: CommandContext,
  command: ApiCommand,
): Promise<ExitCode> {
  const operation = namedOperation(command.operation);
  const settings = settingsOf(context);
  const account = oneAccount(settings, command.account);
  const params = readParams(operation, command.params, filledBy(operation, account));
  refuseTerminal(context, operation, command.output);
  const body = await readBody(operation, command.body, context);
  // The operation's own limit is reported instead of waited for: somebody is watching.
  const retries = operation.ownLimit ? { budgetMs: 0 } : {};
  return withClients(
    context,
    settings,
    account,
    async (clients) => {
      const values = await lookedUp(clients, params);
      if (operation.destructive && !command.yes) {
        // Where standard input gave the body, no answer can come from it.
        if (command.body === '-') {
          throw operationError('operation-needs-yes', { act: operation.name });
        }
        const lines = [`${operation.name}: ${operation.summary}.`, ...valueLines(values)];
        if (!(await confirmed(context, operation.name, lines))) return EXIT.failures;
      }
      if (operation.sideEffect === 'marks-seen') {
        context.notices.warn(`${operation.name} marks the message as read at the service.`);
      }
      const client = surfaceOf(operation, clients);
      const answer = await keepingSecret(
        settings.dataDir,
        operation,
        values.webhookId,
        () => client.call(operation, values, body, clients.options),
        (file) => context.notices.say(`The stored secret in ${file} was replaced.`),
      );
      const file = command.output === '-' ? null : (command.output ?? null);
      return showAnswer(context, operation, answer, file);
    },
    retries,
  );
}

function filledBy(operation: Operation, { name, platform }: AccountSettings): ParamValues {
  if (operation.surface === 'mailbox') return {};
  if (platform === null) {
    throw operationError('operation-needs-platform', { operation: operation.name, account: name });
  }
  return { orderId: platform.orderId };
}

/** Mail can hold sequences that a terminal obeys. */
function refuseTerminal(
  { output }: CommandContext,
  operation: Operation,
  file: string | undefined,
): void {
  if (operation.response.kind === 'bytes' && file === undefined && output.interactive) {
    throw operationError('operation-bytes-on-terminal', { operation: operation.name });
  }
}

async function lookedUp(clients: Clients, { values, address }: GivenParams): Promise<ParamValues> {
  if (address === null) return values;
  const { resourceId } = await namedMailbox(clients, address.address);
  return { ...values, [address.param]: resourceId };
}

function surfaceOf(operation: Operation, clients: Clients) {
  if (operation.surface === 'mailbox') return clients.mailbox;
  if (clients.platform !== null) return clients.platform;
  const { name } = clients.account;
  throw operationError('operation-needs-platform', { operation: operation.name, account: name });
}

function valueLines(values: ParamValues): string[] {
  return Object.entries(values).map(([name, value]) => `  ${name}: ${terminalLine(String(value))}`);
}
