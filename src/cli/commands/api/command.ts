import type { Command } from 'commander';
import type { ParamValues } from '../../../api/request-url.ts';
import type { RawAnswer } from '../../../api/surface-client.ts';
import { Secret } from '../../../config/secret.ts';
import type { AccountSettings } from '../../../config/settings.ts';
import { reserveSecret, storedWebhooks } from '../../../config/webhook-secrets.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { operationError } from '../../../errors/operations.ts';
import { usageError } from '../../../errors/usage.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { webhookWithSecretRecord } from '../../../wire/mailbox-records.ts';
import type { Operation } from '../../../wire/operation.ts';
import { type Clients, namedMailbox, oneAccount, withClients } from '../../account-clients.ts';
import { confirmed } from '../../ask.ts';
import type { Body, CommandContext } from '../../context.ts';
import { collected } from '../../option-values.ts';
import { readBody } from './body.ts';
import { describeOperation, listOperations } from './describe.ts';
import { type GivenParams, namedOperation, readParams } from './params.ts';
import { showAnswer } from './show-answer.ts';

interface ApiLine {
  /** `name=value` each. */
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
    .option('-p, --param <name=value>', 'a parameter; repeatable', collected)
    .option('--body <file>', 'the request body, as JSON; - is standard input')
    .option('--account <name>', 'the account of the configuration, where there are several')
    .option('--output <file>', 'write the answer to this file')
    .option('--yes', 'do not ask for confirmation')
    .option('--list', 'list every operation with its parameters')
    .option('--describe', 'describe the operation, without calling it')
    .addHelpText('after', HELP)
    .action((operation: string | undefined, options: ApiLine) =>
      chosen(async (context) => {
        if (options.list === true) return listOperations(context);
        if (operation === undefined) throw missing();
        if (options.describe === true) return describeOperation(context, operation);
        return callOperation(context, operation, options);
      }),
    );
}

function missing(): Error {
  return usageError('usage-invalid', {
    command: 'api',
    problem: 'an operation is missing; "mailkeep api --list" lists them.',
  });
}

/** `mailkeep api OPERATION`: checks what was typed, asks where it must, calls, shows. */
async function callOperation(
  context: CommandContext,
  name: string,
  command: ApiLine,
): Promise<ExitCode> {
  const operation = namedOperation(name);
  const settings = settingsOf(context);
  const account = oneAccount(settings, command.account);
  const params = readParams(operation, command.param ?? [], filledBy(operation, account));
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
      if (operation.destructive && command.yes !== true) {
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
  if (platform === null) throw needsPlatform(operation, name);
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
  throw needsPlatform(operation, clients.account.name);
}

function needsPlatform({ name }: Operation, account: string): Error {
  return operationError('operation-needs-platform', { operation: name, account });
}

function valueLines(values: ParamValues): string[] {
  return Object.entries(values).map(([name, value]) => `  ${name}: ${terminalLine(String(value))}`);
}

const RENEWING: ReadonlySet<string> = new Set([
  'regenerateWebhookSecret',
  'platform.regenerateWebhookSecret',
]);

/**
 * Calls an operation; where it renews the secret of a webhook that is stored here, the new one takes the place of the
 * old, which is dead from then on. The place for it is made before the service is asked.
 *
 * @param webhookId as the operation was given it
 * @param onKept hears of the file
 * @throws webhook-secrets-unwritable, webhook-secret-lost, webhook-secret-unreadable, and what `call` throws
 */
async function keepingSecret(
  dataDir: string,
  operation: Operation,
  webhookId: unknown,
  call: () => Promise<RawAnswer>,
  onKept: (file: string) => void,
): Promise<RawAnswer> {
  const known = RENEWING.has(operation.name)
    ? (await storedWebhooks(dataDir)).find(({ id }) => id === webhookId)
    : undefined;
  if (known === undefined) return call();
  const slot = await reserveSecret(dataDir);
  try {
    const answer = await call();
    const secret = secretIn(answer);
    if (secret !== null) onKept(await slot.keep({ ...known, secret: new Secret(secret) }));
    return answer;
  } finally {
    await slot.drop();
  }
}

const SECRET = webhookWithSecretRecord.pick({ secret: true });

/** The mailbox surface wraps it in `data`, the platform surface does not; null where it comes later (202). */
function secretIn(answer: RawAnswer): string | null {
  if (answer.kind !== 'json') return null;
  const { json } = answer;
  const wrapped: unknown =
    typeof json === 'object' && json !== null && 'data' in json ? json.data : json;
  return SECRET.safeParse(wrapped).data?.secret ?? null;
}
