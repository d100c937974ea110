import { settingsOf } from '../../catalog/archive-settings.ts';
import type { Settings } from '../../core/config-schema.ts';
import { usageError, webhookError } from '../../core/error-tables.ts';
import {
  combinedExit,
  EXIT,
  type ExitCode,
  hasCode,
  MailkeepError,
  sentenceOf,
} from '../../core/errors.ts';
import { selects } from '../../core/names.ts';
import {
  forgetSecret,
  reserveSecret,
  Secret,
  type SecretSlot,
  type StoredWebhook,
  storedSecretFile,
  storedWebhooks,
} from '../../core/secrets.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { count, counted } from '../../core/text.ts';
import {
  isSameAddress,
  type PlannedMailbox,
  planWebhooks,
  type WebhookStep,
} from '../../daemon/delivery-watch.ts';
import type { MailboxClient, WebhookRef } from '../../service/client.ts';
import { createWebhookRequest, type WebhookWithSecretRecord } from '../../service/mailbox-wire.ts';
import { encodeBody } from '../../service/wire.ts';
import {
  type Clients,
  type NamedMailbox,
  namedMailbox,
  oneAccount,
  SHORT_PATIENCE,
  withClients,
} from '../account-clients.ts';
import type { CommandContext } from '../context.ts';
import { present } from '../output.ts';
import {
  accountsWith,
  type Hook,
  type TestOutcome,
  testDelivery,
  testText,
  webhookSurface,
} from './webhooks.ts';

/** A webhook that was created now, without its secret. */
interface NewWebhook {
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

interface EnsureCommand extends NewCommand {
  /** Addresses or resource ids; none stands for all that the configuration mirrors. */
  readonly mailboxes: readonly string[];
  /** Only what is missing is created; webhooks that are paused stay so. */
  readonly createOnly: boolean;
}

type Step = WebhookStep<Hook>;
type Action = 'kept' | 'resumed' | 'created' | 'failed' | 'other';
type Tally = Record<Action, number>;

/**
 * `mailkeep webhooks ensure` and `create --all`: one webhook for each mailbox. What is there is kept, so that it can be
 * run again and again.
 *
 * @returns 1 when a mailbox failed, or the test delivery; the others are done all the same
 * @throws operation-mailbox-nowhere for a name that no account has; nothing was changed then
 */
export async function ensureWebhooks(
  context: CommandContext,
  command: EnsureCommand,
): Promise<ExitCode> {
  const settings = settingsOf(context);
  const name = command.createOnly ? 'webhooks create' : 'webhooks ensure';
  const url = urlOf(settings, command.url, name);
  const fields = webhookFields(command.name, url);
  const tally: Tally = { kept: 0, resumed: 0, created: 0, failed: 0, other: 0 };
  const asked = await accountsWith(context, settings, command);
  if (asked.accounts.length === 0) return combinedExit(asked.codes);
  const codes: ExitCode[] = [...asked.codes];
  let test = command.test;
  for (const { account, names } of asked.accounts) {
    const code = await withClients(
      context,
      settings,
      account,
      async (clients) => {
        const { dataDir } = settings;
        const mailboxes = await wantedMailboxes(clients, names);
        const results: ExitCode[] = [];
        const refused = new Set<PlannedMailbox>();
        const refuse = async (mailbox: PlannedMailbox, error: MailkeepError): Promise<void> => {
          refused.add(mailbox);
          tally.failed += 1;
          results.push(EXIT.failures);
          await reportFailure(context, account.name, mailbox, error);
        };
        const named = names.length > 0;
        const listed = await listedHooks(clients, mailboxes, named, refuse);
        const own = await ownHooks(clients, dataDir, { mailboxes, refused, listed, url }, refuse);
        const reached = mailboxes.filter((mailbox) => !refused.has(mailbox));
        const { steps, others } = planWebhooks(reached, own, listed, url);
        for (const step of steps) {
          const taken = { context, clients, dataDir, fields, createOnly: command.createOnly, test };
          const { action, code: one } = await take(taken, step);
          tally[action] += 1;
          results.push(one);
          // All deliver to one address: one test shows whether it answers.
          if (action === 'created') test = false;
        }
        for (const hook of others) {
          tally.other += 1;
          await context.output.line({ ...hook, action: 'other' }, () => line('other', hook));
        }
        return combinedExit(results);
      },
      SHORT_PATIENCE,
    );
    codes.push(code);
  }
  const { kept, resumed, created, failed, other } = tally;
  const all = kept + resumed + created + failed;
  // Nothing was done, and the reason is printed.
  if (all + other === 0 && combinedExit(codes) !== EXIT.done) return combinedExit(codes);
  const mailboxes = counted(all, 'mailbox', 'mailboxes');
  const parts = present([
    `${count(created)} created`,
    !command.createOnly && `${count(resumed)} resumed`,
    `${count(kept)} ${command.createOnly ? 'there already' : 'in order'}`,
    failed > 0 && `${count(failed)} failed`,
    other > 0 && `${counted(other, 'other webhook')} left alone`,
  ]);
  context.notices.say(`${mailboxes}: ${parts.join(', ')}.`);
  return combinedExit(codes);
}

async function wantedMailboxes(
  clients: Clients,
  names: readonly string[],
): Promise<PlannedMailbox[]> {
  if (names.length > 0) {
    const named = await Promise.all(names.map((name) => namedMailbox(clients, name)));
    return [...new Map(named.map((mailbox) => [mailbox.resourceId, mailbox])).values()];
  }
  const { mailboxes } = await clients.reach();
  const { mailboxes: selection } = clients.account;
  return mailboxes.filter(({ address }) => selects(selection, address));
}

/**
 * The webhooks of these mailboxes: all at once over the platform surface, else those of each.
 *
 * @param named only some mailboxes are meant
 * @param refuse called for mailboxes whose webhooks the service does not list
 */
async function listedHooks(
  clients: Clients,
  mailboxes: readonly PlannedMailbox[],
  named: boolean,
  refuse: (mailbox: PlannedMailbox, error: MailkeepError) => Promise<void>,
): Promise<Hook[]> {
  const surface = webhookSurface(clients);
  const listed: Hook[] = [];
  if (clients.platform !== null && !named) {
    for await (const hook of surface.list({})) listed.push(hook);
    return listed;
  }
  for (const mailbox of mailboxes) {
    try {
      for await (const hook of surface.list({ mailbox: mailbox.address })) listed.push(hook);
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.family !== 'origin') throw error;
      await refuse(mailbox, error);
    }
  }
  return listed;
}

/**
 * The webhooks whose secrets are stored here. One that the list lacks is asked for by its id: a list may be wrong, and a
 * secret that was forgotten cannot be had again. Those that answer are added to the list.
 *
 * @param refuse called for mailboxes of which the service does not say whether the webhook is there: another one would
 *   deliver everything twice
 */
async function ownHooks(
  { account, mailbox: client, options }: Clients,
  dataDir: string,
  {
    mailboxes,
    refused,
    listed,
    url,
  }: {
    readonly mailboxes: readonly PlannedMailbox[];
    readonly refused: ReadonlySet<PlannedMailbox>;
    readonly listed: Hook[];
    readonly url: string;
  },
  refuse: (mailbox: PlannedMailbox, error: MailkeepError) => Promise<void>,
): Promise<StoredWebhook[]> {
  const wanted = new Map(mailboxes.map((mailbox) => [mailbox.resourceId, mailbox]));
  const known = new Set(listed.map(({ id }) => id));
  const own: StoredWebhook[] = [];
  for (const hook of await storedWebhooks(dataDir)) {
    if (hook.account !== account.name || hook.host !== client.host) continue;
    const { id, mailboxId, mailbox } = hook;
    const mailboxOf = wanted.get(mailboxId);
    if (known.has(id) || mailboxOf === undefined || !isSameAddress(hook.url, url)) {
      own.push(hook);
      continue;
    }
    if (refused.has(mailboxOf)) continue;
    try {
      const { name, description, events, status, createdAt, updatedAt, ...found } =
        await client.getWebhook({ mailbox: mailboxId, webhookId: id }, options);
      const times = { createdAt, updatedAt };
      const there = { id, mailbox, mailboxId, account: account.name, name, description, events };
      listed.push({ ...there, ...times, status, url: found.url });
      own.push(hook);
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.family !== 'origin') throw error;
      // Only "no such webhook" says that it is gone; another refusal leaves its secret where it is.
      if (error.facts.status === 404) own.push(hook);
      else await refuse(mailboxOf, error);
    }
  }
  return own;
}

interface Taking {
  readonly context: CommandContext;
  readonly clients: Clients;
  readonly dataDir: string;
  readonly fields: ReturnType<typeof webhookFields>;
  readonly createOnly: boolean;
  readonly test: boolean;
}

/** Takes a step and reports it. A mailbox that the service refuses does not stop the others. */
async function take(
  taking: Taking,
  step: Step,
): Promise<{ readonly action: Action; readonly code: ExitCode }> {
  const { context, clients, createOnly } = taking;
  const { output } = context;
  try {
    if (step.act === 'create') return await create(taking, step);
    await forget(taking.dataDir, step);
    if (step.act === 'keep' || createOnly) {
      // A thousand lines of what is as it should be would hide the rest.
      if (output.json) await output.line({ ...step.hook, action: 'kept' }, () => '');
      return { action: 'kept', code: EXIT.done };
    }
    const changed = await webhookSurface(clients).setStatus(step.hook, 'active');
    const hook = changed === 'accepted' ? step.hook : changed;
    const accepted = changed === 'accepted' ? { accepted: true } : {};
    await output.line({ ...hook, ...accepted, action: 'resumed' }, () => line('resumed', hook));
    return { action: 'resumed', code: EXIT.done };
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'origin') throw error;
    await reportFailure(context, clients.account.name, step.mailbox, error);
    return { action: 'failed', code: EXIT.failures };
  }
}

async function reportFailure(
  { output }: CommandContext,
  account: string,
  { address: mailbox, resourceId: mailboxId }: PlannedMailbox,
  error: MailkeepError,
): Promise<void> {
  const { code, message, hint } = sentenceOf(error);
  const failed = { mailbox, mailboxId, account, action: 'failed', error: { code, message, hint } };
  await output.line(failed, () => `failed    ${terminalLine(mailbox)}: ${message}`);
}

async function create(
  { context, clients, dataDir, fields, test: wanted }: Taking,
  step: Step,
): Promise<{ readonly action: Action; readonly code: ExitCode }> {
  const made = await register(context, clients, step.mailbox, fields, dataDir);
  await forget(dataDir, step);
  const test = wanted ? await testedWebhook(clients, made) : null;
  const { secretFile } = made;
  const hook = { ...made.hook, secretFile, test, replaces: step.missing, action: 'created' };
  await context.output.line(hook, () =>
    present([
      line('created', made.hook),
      test !== null && `          test delivery: ${testText(test)}`,
    ]).join('\n'),
  );
  return { action: 'created', code: test?.success === false ? EXIT.failures : EXIT.done };
}

/** The secrets of webhooks that are gone open nothing any more. */
async function forget(dataDir: string, { missing }: Step): Promise<void> {
  for (const id of missing) await forgetSecret(dataDir, id);
}

/** The webhook is there, whatever becomes of its test. */
async function testedWebhook(clients: Clients, { hook }: NewWebhook): Promise<TestOutcome> {
  try {
    return await testDelivery(clients, hook);
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'origin') throw error;
    return { success: false, httpStatus: null, error: sentenceOf(error).message };
  }
}

function line(
  action: Action,
  { mailbox, url, id, status }: Pick<Hook, 'mailbox' | 'url' | 'id' | 'status'>,
): string {
  const state = action === 'other' ? ` (${terminalLine(status)})` : '';
  return `${action.padEnd(9)} ${terminalLine(mailbox)} -> ${terminalLine(url)}, ${terminalLine(id)}${state}`;
}
