import type { MailboxClient, WebhookRef } from '../../api/mailbox-client.ts';
import { Secret } from '../../config/secret.ts';
import { reserveSecret, type SecretSlot } from '../../config/webhook-secrets.ts';
import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';
import { usageError } from '../../errors/usage.ts';
import { webhookError } from '../../errors/webhooks.ts';
import { terminalLine } from '../../mail/terminal-safe.ts';
import { encodeBody } from '../../wire/encode.ts';
import type { WebhookWithSecretRecord } from '../../wire/mailbox-records.ts';
import { createWebhookRequest } from '../../wire/mailbox-requests.ts';
import { type Clients, oneAccount, withClients } from '../compose/clients.ts';
import { settingsOf } from '../compose/settings.ts';
import type { CommandContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-codes.ts';
import { type NamedMailbox, namedMailbox } from '../operations/mailbox-id.ts';
import { SHORT_PATIENCE, testText } from './act.ts';
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
  const url = command.url ?? settings.webhook?.publicUrl ?? undefined;
  if (url === undefined) {
    throw usageError('usage-invalid', {
      command: 'webhooks create',
      problem: 'an address is missing: give --url, or webhook.publicUrl in the configuration.',
    });
  }
  const fields = { name: command.name, url, events: ['message.received' as const] };
  encodeBody(createWebhookRequest, fields, 'createWebhook');
  return withClients(
    context,
    settings,
    account,
    async (clients) => {
      const at = await namedMailbox(clients, command.mailbox);
      const slot = await reserveSecret(settings.dataDir);
      try {
        const created = await clients.mailbox.createWebhook(at.resourceId, fields, clients.options);
        const secretFile = await kept(context, clients, at, slot, created);
        return await tested(context, clients, at, created, secretFile, command.test);
      } finally {
        await slot.drop();
      }
    },
    SHORT_PATIENCE,
  );
}

/** Stores the secret; a webhook whose secret is lost is taken back. */
async function kept(
  context: CommandContext,
  { account, mailbox: client }: Clients,
  { resourceId, address }: NamedMailbox,
  slot: SecretSlot,
  { id, url, secret, createdAt }: WebhookWithSecretRecord,
): Promise<string> {
  try {
    return await slot.keep({
      id,
      mailboxId: resourceId,
      mailbox: address,
      account: account.name,
      host: client.host,
      url,
      secret: new Secret(secret),
      createdAt: createdAt ?? new Date(context.now()).toISOString(),
    });
  } catch (error) {
    if (!hasCode(error, 'webhook-secret-lost')) throw error;
    const { file, reason } = error.facts;
    const deleted = await takenBack(client, { mailbox: resourceId, webhookId: id });
    const facts = { id, file: String(file), reason: String(reason), deleted };
    throw webhookError('webhook-secret-lost', facts, error);
  }
}

/** Without the signal: whoever interrupts now still wants no webhook that nobody can check. */
async function takenBack(client: MailboxClient, at: WebhookRef): Promise<boolean> {
  try {
    await client.deleteWebhook(at);
    return true;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    // The error that is about to be thrown says that the webhook is still there.
    return false;
  }
}

/** Tells of the webhook first, whatever becomes of its test: where the secret is must not be lost. */
async function tested(
  { output }: CommandContext,
  { account, mailbox: client, options }: Clients,
  { resourceId, address }: NamedMailbox,
  { id, name, url, status, events }: WebhookWithSecretRecord,
  secretFile: string,
  wanted: boolean,
): Promise<ExitCode> {
  let test: TestOutcome | null = null;
  let failure: MailkeepError | null = null;
  try {
    const at = { mailbox: resourceId, webhookId: id };
    const answer = wanted ? await client.testWebhook(at, options) : null;
    if (answer !== null) {
      test = { success: answer.success, httpStatus: answer.httpStatus, error: answer.error };
    }
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    failure = error;
  }
  const hook = { id, mailbox: address, mailboxId: resourceId, account: account.name, name, events };
  await output.object({ ...hook, status, url, secretFile, test }, () =>
    [
      `Webhook ${terminalLine(id)} tells ${terminalLine(url)} of mail that arrives for ${terminalLine(address)}.`,
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
