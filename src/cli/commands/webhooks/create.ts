import type { MailboxClient, WebhookRef } from '../../../api/mailbox-client.ts';
import { Secret } from '../../../config/secret.ts';
import type { Settings } from '../../../config/settings.ts';
import {
  reserveSecret,
  type SecretSlot,
  storedSecretFile,
} from '../../../config/webhook-secrets.ts';
import { isSameAddress } from '../../../delivery-watch/own-webhooks.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { hasCode, MailkeepError } from '../../../errors/mailkeep-error.ts';
import { webhookError } from '../../../errors/small-families.ts';
import { usageError } from '../../../errors/usage.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { encodeBody } from '../../../wire/codec.ts';
import type { WebhookWithSecretRecord } from '../../../wire/mailbox-records.ts';
import { createWebhookRequest } from '../../../wire/mailbox-requests.ts';
import {
  type Clients,
  type NamedMailbox,
  namedMailbox,
  oneAccount,
  SHORT_PATIENCE,
  withClients,
} from '../../account-clients.ts';
import type { CommandContext } from '../../context.ts';
import { present } from '../../output.ts';
import { testText } from './act.ts';
import { type Hook, type TestOutcome, testDelivery } from './surface.ts';

/** A webhook that was created now, without its secret. */
export interface NewWebhook {
  readonly hook: Omit<Hook, 'description' | 'createdAt' | 'updatedAt'>;
  /** The file that holds its secret. */
  readonly secretFile: string;
}

/**
 * Where deliveries go: as the command says, else as the configuration does.
 *
 * @throws usage-invalid where neither does
 */
export function urlOf(settings: Settings, given: string | undefined, command: string): string {
  const url = given ?? settings.webhook?.publicUrl ?? undefined;
  if (url !== undefined) return url;
  throw usageError('usage-invalid', {
    command,
    problem: 'an address is missing: give --url, or webhook.publicUrl in the configuration.',
  });
}

/** What a webhook of ours is created with. @throws request-invalid */
export function webhookFields(name: string, url: string) {
  const fields = { name, url, events: ['message.received' as const] };
  encodeBody(createWebhookRequest, fields, 'createWebhook');
  return fields;
}

/**
 * Creates a webhook and stores its secret, which the service shows only now. The secret is in nothing that is returned.
 *
 * @throws webhook-secrets-unwritable, webhook-secret-lost, and what the service refuses
 */
export async function register(
  context: CommandContext,
  clients: Clients,
  at: NamedMailbox,
  fields: ReturnType<typeof webhookFields>,
  dataDir: string,
): Promise<NewWebhook> {
  const slot = await reserveSecret(dataDir);
  try {
    const created = await clients.mailbox.createWebhook(at.resourceId, fields, clients.options);
    const secretFile = await kept(context, clients, at, slot, created);
    const { id, name, events, status, url } = created;
    const { resourceId: mailboxId, address: mailbox } = at;
    const account = clients.account.name;
    return { hook: { id, mailbox, mailboxId, account, name, events, status, url }, secretFile };
  } finally {
    await slot.drop();
  }
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

/** What new webhooks are made of. */
export interface NewCommand {
  /** The configuration's webhook.publicUrl where it is not given. */
  readonly url?: string;
  readonly name: string;
  readonly account?: string;
  readonly test: boolean;
}

/**
 * `mailkeep webhooks create`: registers a webhook, stores its secret, which the service shows only now, and tests
 * it. The secret is in no output. A webhook that does the same is shown instead of a second one.
 *
 * @returns 1 when the test delivery failed; the webhook is there all the same
 */
export async function createWebhook(
  context: CommandContext,
  command: NewCommand & { readonly mailbox: string },
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
      const existing = await sameHook(clients, at, fields);
      if (existing !== undefined) return printExisting(context, settings.dataDir, existing);
      const made = await register(context, clients, at, fields, settings.dataDir);
      return tested(context, clients, made, command.test);
    },
    SHORT_PATIENCE,
  );
}

/** Finds a webhook of a mailbox that delivers the same events to the same address. */
async function sameHook(
  { account, mailbox: client, options }: Clients,
  { resourceId, address }: NamedMailbox,
  { url, events }: ReturnType<typeof webhookFields>,
): Promise<NewWebhook['hook'] | undefined> {
  const wanted = [...events].sort().join(' ');
  let same: NewWebhook['hook'] | undefined;
  for await (const hook of client.eachWebhook(resourceId, options)) {
    if (!isSameAddress(hook.url, url) || [...hook.events].sort().join(' ') !== wanted) continue;
    if (same !== undefined && hook.status !== 'active') continue;
    const { id, name, status } = hook;
    const at = { mailbox: address, mailboxId: resourceId, account: account.name };
    same = { id, ...at, name, events: hook.events, status, url: hook.url };
  }
  return same;
}

/** A second webhook would deliver everything twice. */
async function printExisting(
  { output }: CommandContext,
  dataDir: string,
  hook: NewWebhook['hook'],
): Promise<ExitCode> {
  const { id, mailbox, url, status } = hook;
  const secretFile = await storedSecretFile(dataDir, id);
  await output.object({ ...hook, secretFile, test: null, existing: true }, () =>
    present([
      `Webhook ${terminalLine(id)} reports new mail for ${terminalLine(mailbox)} to ${terminalLine(url)} already. Nothing was created.`,
      secretFile === null
        ? `Its secret is not stored here, so deliveries to this archive are refused. To replace it: mailkeep webhooks delete ${terminalLine(id)}, then create it again.`
        : `Its secret is in ${secretFile}.`,
      status !== 'active' &&
        `It is ${terminalLine(status)}. To resume it: mailkeep webhooks resume ${terminalLine(id)}`,
    ]).join('\n'),
  );
  return EXIT.done;
}

/** Prints the webhook even if its test fails: the path of its secret must not be lost. */
async function tested(
  { output }: CommandContext,
  clients: Clients,
  { hook, secretFile }: NewWebhook,
  wanted: boolean,
): Promise<ExitCode> {
  let test: TestOutcome | null = null;
  let failure: MailkeepError | null = null;
  try {
    if (wanted) test = await testDelivery(clients, hook);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    failure = error;
  }
  const { id, mailbox, url } = hook;
  await output.object({ ...hook, secretFile, test }, () =>
    present([
      `Webhook ${terminalLine(id)} reports new mail for ${terminalLine(mailbox)} to ${terminalLine(url)}.`,
      `Its secret is in ${secretFile} (0600); the service will not show it again.`,
      test !== null && `Test delivery: ${testText(test)}.`,
      test?.success === false &&
        `Once the receiver is ready: mailkeep webhooks test ${terminalLine(id)}`,
    ]).join('\n'),
  );
  if (failure !== null) throw failure;
  return test?.success === false ? EXIT.failures : EXIT.done;
}
