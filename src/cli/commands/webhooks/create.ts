import { settingsOf } from '../../../engine/settings.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import type { CommandContext } from '../../context.ts';
import { type Clients, oneAccount, withClients } from '../../service/clients.ts';
import { namedMailbox } from '../../service/mailbox-id.ts';
import { SHORT_PATIENCE, testText } from './act.ts';
import { type NewWebhook, register, urlOf, webhookFields } from './register.ts';
import type { TestOutcome } from './surface.ts';

export interface CreateCommand {
  readonly mailbox: string;
  /** The configuration's webhook.publicUrl where it is not given. */
  readonly url: string | undefined;
  readonly name: string;
  readonly account: string | undefined;
  readonly test: boolean;
}

/**
 * `mailkeep webhooks create`: registers a webhook, stores its secret, which the service shows only now, and tests
 * it. The secret is in no output.
 *
 * @returns 1 when the test delivery failed; the webhook is there all the same
 */
export async function createWebhook(
  context: CommandContext,
  command: CreateCommand,
): Promise<ExitCode> {
  const settings = settingsOf(context);
  const account = oneAccount(settings, command.account);
  const url = urlOf(settings, command.url, 'webhooks create');
  const fields = webhookFields(command.name, url);
  return withClients(
    context,
    settings,
    account,
    async (clients) => {
      const at = await namedMailbox(clients, command.mailbox);
      const made = await register(context, clients, at, fields, settings.dataDir);
      return tested(context, clients, made, command.test);
    },
    SHORT_PATIENCE,
  );
}

/** Tells of the webhook first, whatever becomes of its test: where the secret is must not be lost. */
async function tested(
  { output }: CommandContext,
  { mailbox: client, options }: Clients,
  { hook, secretFile }: NewWebhook,
  wanted: boolean,
): Promise<ExitCode> {
  let test: TestOutcome | null = null;
  let failure: MailkeepError | null = null;
  try {
    const at = { mailbox: hook.mailboxId, webhookId: hook.id };
    const answer = wanted ? await client.testWebhook(at, options) : null;
    if (answer !== null) {
      test = { success: answer.success, httpStatus: answer.httpStatus, error: answer.error };
    }
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    failure = error;
  }
  const { id, mailbox, url } = hook;
  await output.object({ ...hook, secretFile, test }, () =>
    [
      `Webhook ${terminalLine(id)} tells ${terminalLine(url)} of mail that arrives for ${terminalLine(mailbox)}.`,
      `Its secret is in ${secretFile} (0600); the service will not show it again.`,
      ...(test === null ? [] : [`Test delivery: ${testText(test)}.`]),
      ...(test?.success === false
        ? [`Once the receiver is ready: mailkeep webhooks test ${terminalLine(id)}`]
        : []),
    ].join('\n'),
  );
  if (failure !== null) throw failure;
  return test?.success === false ? EXIT.failures : EXIT.done;
}
