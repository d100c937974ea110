import { loadSettings } from '../../catalog/archive-settings.ts';
import type { ApiAccount, Settings } from '../../core/config-schema.ts';
import { webhookError } from '../../core/error-tables.ts';
import {
  combineExitCodes,
  describeError,
  EXIT,
  type ExitCode,
  errnoOf,
  hasCode,
  MailkeepError,
  shortList,
} from '../../core/errors.ts';
import { nearestAddress, selects } from '../../core/names.ts';
import {
  forgetSecret,
  reserveSecret,
  Secret,
  type StoredWebhook,
  storedSecretFile,
  storedWebhooks,
} from '../../core/secrets.ts';
import { hasState, readState, stateFile } from '../../core/state.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { count, counted, localTime } from '../../core/text.ts';
import {
  countAttempts,
  errorOf,
  fetchDeliveries,
  isSameAddress,
  judgeWebhooks,
  type LoggedDelivery,
  mergeDeliveries,
  type PlannedMailbox,
  planWebhooks,
  storedDeliveries,
  type WebhookFinding,
  type WebhookStep,
} from '../../daemon/delivery-watch.ts';
import type { MailboxClient, WebhookRef } from '../../service/client.ts';
import {
  createWebhookRequest,
  type WebhookRecord,
  type WebhookTestRecord,
} from '../../service/mailbox-wire.ts';
import type { DeliveryLogRecord, PlatformWebhookRecord } from '../../service/platform-wire.ts';
import { Accepted } from '../../service/surface-client.ts';
import { encodeBody } from '../../service/wire.ts';
import {
  type Clients,
  chooseAccount,
  chooseApiAccounts,
  findNamedMailbox,
  matchMailbox,
  type NamedMailbox,
  orderOf,
  SHORT_RETRIES,
  withClients,
  withEachClients,
} from '../account-clients.ts';
import { confirm } from '../ask.ts';
import { type CommandContext, type Flags, invalidUsage, type Values } from '../context.ts';
import { operationError } from '../errors.ts';
import { withoutUndefined } from '../option-values.ts';
import { joinReport, tableText } from '../output.ts';

type Act = 'test' | 'pause' | 'resume' | 'delete';
type OfAccount = Values<'account'>;
export type ActOptions = OfAccount & Values<'mailbox'> & Flags<'yes'>;
type LogOptions = OfAccount & Values<'mailbox'> & { readonly limit: number };

/** The webhook fields that both APIs return, without the secret. */
interface Hook
  extends Pick<
    WebhookRecord,
    'id' | 'name' | 'description' | 'events' | 'status' | 'url' | 'createdAt' | 'updatedAt'
  > {
  readonly mailbox: string;
  readonly mailboxId: string | null;
  readonly account: string;
}

interface HookFilter {
  /** Address or resource id. */
  readonly mailbox?: string | undefined;
  readonly status?: 'active' | 'paused' | 'disabled' | undefined;
}

/** `success` is null if the service did not report the outcome. */
type TestOutcome = Pick<WebhookTestRecord, 'httpStatus' | 'error'> & {
  readonly success: boolean | null;
};

/** `accepted` means that the service will complete the request later (202). */
type OrAccepted<T> = T | 'accepted';

async function testDelivery(
  { mailbox: client, options }: Clients,
  hook: Pick<Hook, 'id' | 'mailboxId'>,
): Promise<TestOutcome> {
  const { success, httpStatus, error } = await client.testWebhook(refOf(hook), options);
  return { success, httpStatus, error };
}

function refOf({ id, mailboxId }: Pick<Hook, 'id' | 'mailboxId'>) {
  return { mailbox: mailboxId ?? '', webhookId: id };
}

async function testHook(clients: Clients, hook: Hook): Promise<OrAccepted<TestOutcome>> {
  const { platform, options } = clients;
  if (platform === null) return testDelivery(clients, hook);
  const answer = await platform.testWebhook(hook.id, options);
  if (answer instanceof Accepted) return 'accepted';
  const { is_successful: success, http_status: httpStatus, error } = answer;
  return { success, httpStatus, error };
}

/** Lists webhooks. Prefers the Platform API, which lists all of an order's webhooks in one request. */
async function listHooks(clients: Clients, { mailbox, status }: HookFilter): Promise<Hook[]> {
  const { platform, mailbox: client } = clients;
  const options = { ...clients.options, ...withoutUndefined({ status }) };
  const hooks: Hook[] = [];
  if (platform !== null) {
    const query = { ...options, ...(await mailboxIdOf(clients, mailbox)) };
    for await (const hook of platform.eachWebhook(await orderOf(clients), query))
      hooks.push(platformHook(clients, hook));
    return hooks;
  }
  const mailboxes =
    mailbox === undefined
      ? (await clients.reach()).mailboxes
      : [await findNamedMailbox(clients, mailbox)];
  for (const { resourceId, address } of mailboxes)
    for await (const hook of client.eachWebhook(resourceId, options))
      hooks.push(hookOf(clients, hook, resourceId, address));
  return hooks;
}

async function setStatus(
  clients: Clients,
  hook: Hook,
  status: 'active' | 'paused',
): Promise<OrAccepted<Hook>> {
  const { platform, mailbox: client, options } = clients;
  if (platform === null) {
    const changed = await client.updateWebhook(refOf(hook), { status }, options);
    return hookOf(clients, changed, hook.mailboxId, hook.mailbox);
  }
  const answer = await platform.updateWebhook(hook.id, { status }, options);
  return answer instanceof Accepted ? 'accepted' : platformHook(clients, answer);
}

async function removeHook(
  { platform, mailbox: client, options }: Clients,
  hook: Hook,
): Promise<OrAccepted<'done'>> {
  if (platform !== null)
    return (await platform.deleteWebhook(hook.id, options)) instanceof Accepted
      ? 'accepted'
      : 'done';
  await client.deleteWebhook(refOf(hook), options);
  return 'done';
}

async function mailboxIdOf(clients: Clients, mailbox: string | undefined) {
  if (mailbox === undefined) return {};
  const isAddress = mailbox.includes('@');
  return { mailboxId: isAddress ? (await findNamedMailbox(clients, mailbox)).resourceId : mailbox };
}

function hookOf(
  { account }: Clients,
  hook: Omit<Hook, 'mailbox' | 'mailboxId' | 'account'>,
  mailboxId: string | null,
  mailbox: string,
): Hook {
  const { id, name, description, events, status, url, createdAt, updatedAt } = hook;
  const at = { mailbox, mailboxId, account: account.name };
  return { id, ...at, name, description, events, status, url, createdAt, updatedAt };
}

function platformHook(
  clients: Clients,
  { mailbox, created_at: createdAt, updated_at: updatedAt, ...hook }: PlatformWebhookRecord,
): Hook {
  const times = { createdAt, updatedAt };
  return hookOf(clients, { ...hook, ...times }, mailbox?.id ?? null, mailbox?.address ?? '');
}

interface AccountSelection {
  /** Accounts with their requested mailboxes. An empty list means all mailboxes. */
  readonly accounts: readonly {
    readonly account: ApiAccount;
    readonly names: readonly string[];
  }[];
  readonly codes: readonly ExitCode[];
}

/**
 * Finds the accounts that have the requested mailboxes, before changing anything. Sends one request per account, or
 * none if there is only one account or no mailboxes were requested. If an account does not respond and a mailbox was
 * not found elsewhere, prints the failure and returns no accounts, because it may be in that account.
 * @throws operation-mailbox-nowhere if all responded and none has the mailbox
 */
async function accountsWith(
  context: CommandContext,
  settings: Settings,
  command: EnsureCommand,
): Promise<AccountSelection> {
  const { mailbox: names = [] } = command;
  const candidates = chooseApiAccounts(settings, command.account);
  if (names.length === 0 || candidates.length === 1) {
    return { accounts: candidates.map((account) => ({ account, names })), codes: [] };
  }
  const accounts: AccountSelection['accounts'][number][] = [];
  const addresses = new Set<string>();
  const addAccount = async ({ account, reach }: Clients): Promise<ExitCode> => {
    const { mailboxes } = await reach();
    for (const { address } of mailboxes) addresses.add(address);
    const matches = names.filter((name) => matchMailbox(mailboxes, name) !== undefined);
    if (matches.length > 0) accounts.push({ account, names: matches });
    return EXIT.done;
  };
  const codes = await withEachClients(context, settings, candidates, SHORT_RETRIES, addAccount);
  const found = new Set(accounts.flatMap((chosen) => chosen.names));
  const missing = names.find((name) => !found.has(name));
  if (missing === undefined) return { accounts, codes };
  if (codes.some((code) => code !== EXIT.done)) return { accounts: [], codes };
  throw operationError('operation-mailbox-nowhere', {
    address: missing,
    known: [...addresses],
    suggestion: nearestAddress(missing, [...addresses]),
  });
}

/** `delivery` is null if nothing is known about deliveries. */
type JudgedHook = Hook & { readonly delivery: ReturnType<typeof deliveryOf> };

/** Returns the deliveries recorded by the daemon, by account. Warns if the state is unreadable. */
function readStoredLogs(
  { notices }: CommandContext,
  dataDir: string,
  accounts: readonly ApiAccount[],
): ReadonlyMap<string, readonly LoggedDelivery[]> {
  const warn = (reason: string, hint: string | null): void => {
    const message = `The deliveries stored by the daemon were not read. ${reason}`;
    notices.alert({ code: 'deliveries-unread', message, hint: hint ?? '' });
  };
  const state = readState(dataDir);
  try {
    if (state !== undefined)
      return new Map(accounts.map(({ name }) => [name, storedDeliveries(state, name)]));
    const hint = 'Check its permissions. "mailkeep verify" moves a damaged one aside.';
    if (hasState(dataDir)) warn(`The state ${stateFile(dataDir)} cannot be read.`, hint);
  } catch (error) {
    if (!hasCode(error, 'catalog-damaged')) throw error;
    const { message, hint } = describeError(error);
    warn(message, hint);
  } finally {
    state?.close();
  }
  return new Map();
}

/**
 * Judges listed webhooks by the daemon's rules, from its record and the Platform API's current delivery log. Webhooks
 * of ours that are missing from the list are findings too.
 */
async function judgeHooks(
  context: CommandContext,
  dataDir: string,
  clients: Clients,
  filter: HookFilter,
  log: readonly LoggedDelivery[],
): Promise<{ hooks: JudgedHook[]; findings: WebhookFinding[] }> {
  const listed = await listHooks(clients, filter);
  const hooks = listed.map((hook) => ({ ...hook, mailboxId: hook.mailboxId ?? '' }));
  const own = await findMissingHooks(context, dataDir, clients, listed, filter);
  const deliveries = await mergeKnownDeliveries(context, clients, hooks.length > 0, log);
  const findings = judgeWebhooks([...hooks, ...own], hooks, deliveries ?? [], context.now());
  const delivery = (id: string) =>
    deliveries && deliveryOf(findings.find(({ webhook }) => webhook.id === id));
  return { hooks: listed.map((hook) => ({ ...hook, delivery: delivery(hook.id) })), findings };
}

/**
 * Describes deliveries in the daemon's terms. `off` means paused or disabled, `failures` counts consecutive failures up
 * to the newest delivery, and `lastSuccessAt` (ISO 8601) is within the last day.
 */
function deliveryOf(finding: WebhookFinding | undefined) {
  if (finding === undefined || finding.state === 'missing') return null;
  const { state, failures, lastSuccessAt: at } = finding;
  return { state, failures, lastSuccessAt: at === null ? null : new Date(at).toISOString() };
}

/** Returns our webhooks that are missing from the list, or none if the list was filtered by status. */
async function findMissingHooks(
  context: CommandContext,
  dataDir: string,
  { account, mailbox: client }: Clients,
  listed: readonly Hook[],
  { mailbox, status }: HookFilter,
) {
  if (status !== undefined) return [];
  const ids = new Set(listed.map(({ id }) => id));
  const hooks = await orWarning(context, 'The stored webhooks were not checked', [], () =>
    storedWebhooks(dataDir),
  );
  return hooks.filter(
    (hook) =>
      hook.account === account.name &&
      hook.host === client.host &&
      (mailbox === undefined || mailbox === hook.mailbox || mailbox === hook.mailboxId) &&
      !ids.has(hook.id),
  );
}

/** Returns null if there is neither a delivery log nor a stored record. */
async function mergeKnownDeliveries(
  context: CommandContext,
  clients: Clients,
  anyListed: boolean,
  record: readonly LoggedDelivery[],
): Promise<readonly LoggedDelivery[] | null> {
  const { platform } = clients;
  const logged =
    platform === null || !anyListed
      ? null
      : await orWarning(context, 'The delivery log was not read', null, async () =>
          fetchDeliveries(platform, await orderOf(clients), record, context.now(), context.signal),
        );
  if (logged !== null) return mergeDeliveries(record, logged);
  return record.length === 0 ? null : record;
}

/** On failure, warns and returns `otherwise`, because the list is useful even without these details. */
async function orWarning<T>(
  { notices, signal }: CommandContext,
  problem: string,
  otherwise: T,
  act: () => Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (signal.aborted || !(error instanceof MailkeepError)) throw error;
    notices.warn(`${problem}. ${describeError(error).message}`);
    return otherwise;
  }
}

/** Maximum number of warnings printed. The table shows every webhook's state. */
const MAX_WARNED = 5;

export async function listWebhooks(
  context: CommandContext,
  command: HookFilter & OfAccount,
): Promise<ExitCode> {
  const settings = loadSettings(context);
  const accounts = chooseApiAccounts(settings, command.account);
  const found: JudgedHook[] = [];
  const problems: WebhookFinding[] = [];
  const { dataDir } = settings;
  const logs = readStoredLogs(context, dataDir, accounts);
  const codes = await withEachClients(context, settings, accounts, {}, async (clients) => {
    const log = logs.get(clients.account.name) ?? [];
    const { hooks, findings } = await judgeHooks(context, dataDir, clients, command, log);
    problems.push(...findings.filter(({ state }) => state === 'failing' || state === 'missing'));
    found.push(...hooks);
    if (context.output.json) for (const hook of hooks) await context.output.line(hook, () => '');
    return EXIT.done;
  });
  if (found.length > 0 && !context.output.json) {
    await context.output.text(webhooksText(found, accounts.length > 1, context));
  } else if (found.length === 0 && combineExitCodes(codes) === EXIT.done) {
    context.notices.say('There are no webhooks.');
  }
  warnOf(context, problems);
  return combineExitCodes(codes);
}

function warnOf({ notices }: CommandContext, findings: readonly WebhookFinding[]): void {
  for (const finding of findings.slice(0, MAX_WARNED)) {
    const error = errorOf(finding);
    if (error === null) continue;
    const { message, hint } = describeError(error);
    notices.warn(hint === null ? message : `${message} ${hint}`);
  }
  const more = findings.length - MAX_WARNED;
  if (more > 0)
    notices.say(
      `… and ${counted(more, 'more webhook')} that ${more === 1 ? 'does' : 'do'} not deliver.`,
    );
}

function webhooksText(
  hooks: readonly JudgedHook[],
  withAccount: boolean,
  { output }: CommandContext,
): string {
  const rows = hooks.map(({ account, status, delivery, mailbox, name, url, id }) => [
    ...(withAccount ? [account] : []),
    delivery?.state === 'failing' ? 'failing' : status,
    ...[mailbox, name, url, id],
  ]);
  const headings = [...(withAccount ? ['ACCOUNT'] : []), 'STATUS', 'MAILBOX', 'NAME', 'URL', 'ID'];
  return tableText(headings, rows, withAccount ? 4 : 3, output);
}

export async function showDeliveryLog(
  context: CommandContext,
  command: LogOptions,
): Promise<ExitCode> {
  const { output, notices } = context;
  const settings = loadSettings(context);
  const accounts = chooseApiAccounts(settings, command.account);
  const reached = accounts.filter(({ platform }) => platform !== null);
  if (reached.length === 0) {
    throw operationError('operation-needs-platform', {
      operation: 'platform.listDeliveryLogs',
      account: accounts[0]?.name ?? '',
    });
  }
  const entries: DeliveryLogRecord[] = [];
  const codes = await withEachClients(context, settings, reached, {}, async (clients) => {
    const { platform, options } = clients;
    let left = command.limit;
    const query = {
      ...options,
      perPage: Math.min(100, left),
      ...(await mailboxIdOf(clients, command.mailbox)),
    };
    for await (const entry of platform?.eachDeliveryLog(await orderOf(clients), query) ?? []) {
      if (output.json) await output.line(lineOf(entry), () => '');
      else entries.push(entry);
      left -= 1;
      if (left === 0) break;
    }
    return EXIT.done;
  });
  if (entries.length > 0) await output.text(logText(entries, context));
  else if (combineExitCodes(codes) === EXIT.done) notices.say('Nothing was delivered yet.');
  return combineExitCodes(codes);
}

function lineOf(entry: DeliveryLogRecord): object {
  return {
    createdAt: entry.created_at,
    mailbox: entry.mailbox_address,
    url: entry.webhook_url,
    success: entry.is_successful,
    durationMs: entry.duration,
    attempts: countAttempts(entry),
    retryCount: entry.retry_count,
    maxRetryCount: entry.max_retry_count,
  };
}

function logText(entries: readonly DeliveryLogRecord[], { output }: CommandContext): string {
  const headings = ['TIME', 'OUTCOME', 'TRIES', 'TOOK', 'MAILBOX', 'URL'];
  const rows = entries.map((entry) => {
    const at = Date.parse(entry.created_at);
    const outcome = entry.is_successful ? 'delivered' : 'failed';
    return [
      Number.isNaN(at) ? entry.created_at : localTime(at),
      countAttempts(entry) === 0 ? 'waiting' : outcome,
      `${countAttempts(entry)} of ${entry.max_retry_count + 1}`,
      `${count(entry.duration)} ms`,
      entry.mailbox_address,
      entry.webhook_url,
    ];
  });
  return tableText(headings, rows, 5, output);
}

/** Minimum length of an id prefix. A shorter one is probably a mistake or an unset variable. */
const MIN_BEGINNING = 4;

/** @param ids ids or prefixes; empty for all webhooks of the mailbox */
export async function actOnWebhooks(
  context: CommandContext,
  act: Act,
  ids: readonly string[],
  { mailbox, yes, account: accountName }: ActOptions,
): Promise<ExitCode> {
  if (ids.length === 0 && mailbox === undefined) {
    const problem = 'name webhooks by their ids, or all of a mailbox with --mailbox.';
    throw invalidUsage(`webhooks ${act}`, problem);
  }
  const settings = loadSettings(context);
  const account = chooseAccount(settings, accountName);
  const patience = act === 'test' ? SHORT_RETRIES : {};
  return withClients(context, settings, account, patience, async (clients) => {
    const all = await listHooks(clients, { mailbox });
    const hooks = ids.length === 0 ? all : findHooks(all, ids, mailbox, account.name);
    if (hooks.length === 0) context.notices.say(`There are no webhooks for ${mailbox}.`);
    else if (act === 'delete' && yes !== true) {
      const lines = hooks.map((hook) => `  ${about(hook)}`);
      const prompt = ['These webhooks would be deleted:', ...lines];
      await confirm(context, 'webhooks delete', prompt);
    }
    const codes: ExitCode[] = [];
    for (const hook of hooks) {
      codes.push(await actOn(context, clients, act, hook));
      if (act === 'delete') await forget(context, settings.dataDir, hook);
    }
    return combineExitCodes(codes);
  });
}

/** @throws webhook-unknown, webhook-ambiguous */
function findHooks(
  all: readonly Hook[],
  ids: readonly string[],
  mailbox: string | undefined,
  account: string,
): Hook[] {
  const found = ids.map((id) => {
    const beginning = id.length < MIN_BEGINNING ? null : id.toLowerCase();
    const exact = all.find((hook) => hook.id === id);
    if (exact !== undefined) return exact;
    const [first, ...others] = all.filter(
      (hook) => beginning !== null && hook.id.startsWith(beginning),
    );
    if (first === undefined)
      throw webhookError('webhook-unknown', { id, where: mailbox ?? `account "${account}"` });
    if (others.length > 0) {
      const candidates = [first, ...others].map((hook) => hook.id);
      throw webhookError('webhook-ambiguous', { id, candidates });
    }
    return first;
  });
  return [...new Set(found)];
}

async function actOn(
  { output }: CommandContext,
  clients: Clients,
  act: Act,
  hook: Hook,
): Promise<ExitCode> {
  if (act === 'test') {
    const outcome = await testHook(clients, hook);
    const { id, mailbox, url } = hook;
    const shown = outcome === 'accepted' ? { accepted: true } : outcome;
    const text = () => `${about(hook)}: ${testText(outcome)}`;
    await output.line({ id, mailbox, url, ...shown }, text);
    return outcome !== 'accepted' && outcome.success === false ? EXIT.failures : EXIT.done;
  }
  if (act === 'delete') {
    const isAccepted = (await removeHook(clients, hook)) === 'accepted';
    await output.line(
      { ...hook, ...(isAccepted ? { accepted: true } : { deleted: true }) },
      () => `${about(hook)}: ${isAccepted ? 'will be deleted' : 'deleted'}`,
    );
    return EXIT.done;
  }
  const changed = await setStatus(clients, hook, act === 'pause' ? 'paused' : 'active');
  await output.line(changed === 'accepted' ? { ...hook, accepted: true } : changed, () =>
    changed === 'accepted'
      ? `${about(hook)}: will be ${act}d`
      : `${about(changed)}: ${terminalLine(changed.status)}`,
  );
  return EXIT.done;
}

/** `error` can be the receiver's own text. */
function testText(outcome: TestOutcome | 'accepted'): string {
  if (outcome === 'accepted') return 'the test will be sent';
  const { success, httpStatus, error } = outcome;
  const status = httpStatus === null ? '' : ` with status ${httpStatus}`;
  const words = error === null || error === '' ? '' : `: ${terminalLine(error)}`;
  if (success === null) return `sent; the service does not report the result${words}`;
  return success ? `the receiver accepted it${status}` : `failed${status}${words}`;
}

function about({ id, name, mailbox, url }: Hook): string {
  return `${terminalLine(id)} "${terminalLine(name)}" (${terminalLine(mailbox)} -> ${terminalLine(url)})`;
}

async function forget(context: CommandContext, dataDir: string, { id }: Hook): Promise<void> {
  try {
    await forgetSecret(dataDir, id);
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    context.notices.warn(
      `the stored secret of ${terminalLine(id)} could not be removed (${reason})`,
    );
  }
}

/** A webhook as printed by `create` and `ensure`. */
type ShortHook = Omit<Hook, 'description' | 'createdAt' | 'updatedAt'>;
type NewWebhook = ShortHook & { readonly secretFile: string };

function shortHook(...about: Parameters<typeof hookOf>): ShortHook {
  const { description: _, createdAt: _created, updatedAt: _updated, ...shown } = hookOf(...about);
  return shown;
}

/** `url` defaults to `webhook.publicUrl` in the configuration. */
type NewCommand = Values<'url' | 'account'> & { readonly name: string; readonly test: boolean };

type Fields = ReturnType<typeof webhookFields>;

/** @throws usage-invalid without a URL, request-invalid */
function webhookFields(settings: Settings, { url, name }: NewCommand, command: string) {
  const address = url ?? settings.webhook?.publicUrl;
  if (address === undefined || address === null) {
    const problem = 'an address is missing: give --url, or webhook.publicUrl in the configuration.';
    throw invalidUsage(command, problem);
  }
  const fields = { name, url: address, events: ['message.received' as const] };
  encodeBody(createWebhookRequest, fields, 'createWebhook');
  return fields;
}

/**
 * Creates a webhook and stores its secret, which the service reveals only once. The result omits the secret. If the
 * secret cannot be stored, the webhook is deleted again.
 * @throws webhook-secrets-unwritable, webhook-secret-lost, and errors from the service
 */
async function registerWebhook(
  context: CommandContext,
  clients: Clients,
  { resourceId: mailboxId, address: mailbox }: NamedMailbox,
  fields: Fields,
  dataDir: string,
): Promise<NewWebhook> {
  const { account, mailbox: client, options } = clients;
  const slot = await reserveSecret(dataDir);
  try {
    const created = await client.createWebhook(mailboxId, fields, options);
    const { id, url, createdAt } = created;
    const secretFile = await slot
      .keep({
        ...{ id, mailbox, mailboxId, account: account.name, host: client.host, url },
        secret: new Secret(created.secret),
        createdAt: createdAt ?? new Date(context.now()).toISOString(),
      })
      .catch(async (error: unknown) => {
        if (!hasCode(error, 'webhook-secret-lost')) throw error;
        const { file, reason } = error.facts;
        const deleted = await tryDelete(client, { mailbox: mailboxId, webhookId: id });
        const facts = { id, file: String(file), reason: String(reason), deleted };
        throw webhookError('webhook-secret-lost', facts, error);
      });
    return { ...shortHook(clients, created, mailboxId, mailbox), secretFile };
  } finally {
    await slot.drop();
  }
}

/** Ignores interruption, because no webhook may be left behind without a stored secret. */
async function tryDelete(client: MailboxClient, at: WebhookRef): Promise<boolean> {
  try {
    await client.deleteWebhook(at);
    return true;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    // The caller's error states that the webhook still exists.
    return false;
  }
}

/**
 * Creates and tests a webhook, or shows an existing equivalent one. Returns 1 if the test delivery failed, even though
 * the webhook exists.
 */
export async function createWebhook(
  context: CommandContext,
  { all = false, mailbox, ...command }: NewCommand & Values<'mailbox'> & Flags<'all'>,
): Promise<ExitCode> {
  if ((mailbox === undefined) !== all) {
    const problem = 'give either --mailbox, or --all for each mailbox that is mirrored.';
    throw invalidUsage('webhooks create', problem);
  }
  if (mailbox === undefined) return ensureWebhooks(context, { ...command, createOnly: true });
  const settings = loadSettings(context);
  const account = chooseAccount(settings, command.account);
  const fields = webhookFields(settings, command, 'webhooks create');
  return withClients(context, settings, account, SHORT_RETRIES, async (clients) => {
    const at = await findNamedMailbox(clients, mailbox);
    const existing = await findEquivalentHook(clients, at, fields);
    if (existing !== undefined) return printExisting(context, settings.dataDir, existing);
    const webhook = await registerWebhook(context, clients, at, fields, settings.dataDir);
    return testAndPrint(context, clients, webhook, command.test);
  });
}

async function findEquivalentHook(
  clients: Clients,
  { resourceId, address }: NamedMailbox,
  { url, events }: Fields,
): Promise<ShortHook | undefined> {
  const eventKey = [...events].sort().join(' ');
  let match: ShortHook | undefined;
  for await (const hook of clients.mailbox.eachWebhook(resourceId, clients.options)) {
    if (!isSameAddress(hook.url, url) || [...hook.events].sort().join(' ') !== eventKey) continue;
    if (match !== undefined && hook.status !== 'active') continue;
    match = shortHook(clients, hook, resourceId, address);
  }
  return match;
}

/** Shows the existing webhook, because a second one would deliver everything twice. */
async function printExisting(
  { output }: CommandContext,
  dataDir: string,
  hook: ShortHook,
): Promise<ExitCode> {
  const { id, mailbox, url, status } = hook;
  const secretFile = await storedSecretFile(dataDir, id);
  await output.object({ ...hook, secretFile, test: null, existing: true }, () => [
    `Webhook ${terminalLine(id)} reports new mail for ${terminalLine(mailbox)} to ${terminalLine(url)} already. Nothing was created.`,
    secretFile === null
      ? `Its secret is not stored here, so deliveries to this archive are refused. To replace it: mailkeep webhooks delete ${terminalLine(id)}, then create it again.`
      : `Its secret is in ${secretFile}.`,
    status !== 'active' &&
      `It is ${terminalLine(status)}. To resume it: mailkeep webhooks resume ${terminalLine(id)}`,
  ]);
  return EXIT.done;
}

/** Prints the webhook even if its test fails, so that the path of its secret is not lost. */
async function testAndPrint(
  { output }: CommandContext,
  clients: Clients,
  webhook: NewWebhook,
  runTest: boolean,
): Promise<ExitCode> {
  let test: TestOutcome | null = null;
  let failure: MailkeepError | null = null;
  try {
    if (runTest) test = await testDelivery(clients, webhook);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    failure = error;
  }
  const { id, mailbox, url } = webhook;
  await output.object({ ...webhook, test }, () => [
    `Webhook ${terminalLine(id)} reports new mail for ${terminalLine(mailbox)} to ${terminalLine(url)}.`,
    `Its secret is in ${webhook.secretFile} (0600); the service will not show it again.`,
    test !== null && `Test delivery: ${testText(test)}.`,
    test?.success === false &&
      `Once the receiver is ready: mailkeep webhooks test ${terminalLine(id)}`,
  ]);
  if (failure !== null) throw failure;
  return test?.success === false ? EXIT.failures : EXIT.done;
}

interface EnsureCommand extends NewCommand {
  /** Addresses or resource ids. Defaults to all mailboxes in the configuration. */
  readonly mailbox?: readonly string[];
  /** Only creates missing webhooks; paused ones remain paused. */
  readonly createOnly?: boolean;
}

/**
 * Ensures that each mailbox has exactly one webhook. Existing ones are kept, so the command can be repeated. Returns 1
 * if a mailbox or the test delivery failed; other mailboxes are still processed.
 * @throws operation-mailbox-nowhere if no account has a requested mailbox; nothing has been changed
 */
export async function ensureWebhooks(
  context: CommandContext,
  command: EnsureCommand,
): Promise<ExitCode> {
  const { createOnly = false } = command;
  const settings = loadSettings(context);
  const name = createOnly ? 'webhooks create' : 'webhooks ensure';
  const fields = webhookFields(settings, command, name);
  const selection = await accountsWith(context, settings, command);
  if (selection.accounts.length === 0) return combineExitCodes(selection.codes);
  const ensurer = new Ensurer(context, settings.dataDir, fields, command);
  const codes: ExitCode[] = [...selection.codes];
  for (const { account, names } of selection.accounts) {
    const act = (clients: Clients) => ensurer.ensure(clients, names);
    codes.push(await withClients(context, settings, account, SHORT_RETRIES, act));
  }
  const { kept, resumed, created, failed, other } = ensurer.tally;
  const all = kept + resumed + created + failed;
  // Nothing was done, and the reason has been printed.
  if (all + other === 0 && combineExitCodes(codes) !== EXIT.done) return combineExitCodes(codes);
  const parts = joinReport([
    `${count(created)} created`,
    !createOnly && `${count(resumed)} resumed`,
    `${count(kept)} ${createOnly ? 'there already' : 'in order'}`,
    failed > 0 && `${count(failed)} failed`,
    other > 0 && `${counted(other, 'other webhook')} left alone`,
  ]);
  context.notices.say(`${counted(all, 'mailbox', 'mailboxes')}: ${parts.join(', ')}.`);
  const watched = settings.accounts.filter(({ kind }) => kind === 'imap').map(({ name }) => name);
  if (command.account === undefined && watched.length > 0) {
    context.notices.say(
      `Left out: ${shortList(watched)}. IMAP accounts have no webhooks; the daemon watches them itself.`,
    );
  }
  return combineExitCodes([...codes, ensurer.hasFailed ? EXIT.failures : EXIT.done]);
}

/** Runs `act` for a mailbox that the service has not refused. Reports a refusal without stopping. */
type Attempt = (mailbox: PlannedMailbox, act: () => Promise<void>) => Promise<void>;

class Ensurer {
  readonly tally = { kept: 0, resumed: 0, created: 0, failed: 0, other: 0 };
  hasFailed = false;
  #isToTest: boolean;

  constructor(
    private readonly context: CommandContext,
    private readonly dataDir: string,
    private readonly fields: Fields,
    private readonly command: EnsureCommand,
  ) {
    this.#isToTest = command.test;
  }

  async ensure(clients: Clients, names: readonly string[]): Promise<ExitCode> {
    const mailboxes = await wantedMailboxes(clients, names);
    const refused = new Set<PlannedMailbox>();
    const attempt: Attempt = async (mailbox, act) => {
      if (refused.has(mailbox)) return;
      try {
        await act();
      } catch (error) {
        if (!isOfService(error)) throw error;
        refused.add(mailbox);
        await this.#fail(clients, mailbox, error);
      }
    };
    const { url } = this.fields;
    const listed = await listedHooks(clients, mailboxes, names.length > 0, attempt);
    const reached = () => mailboxes.filter((mailbox) => !refused.has(mailbox));
    const own = await this.#ownHooks(clients, reached(), listed, attempt);
    const { steps, others } = planWebhooks(reached(), own, listed, url);
    for (const step of steps) await attempt(step.mailbox, () => this.#take(clients, step));
    for (const hook of others) await this.#done('other', hook);
    return EXIT.done;
  }

  /**
   * Returns the webhooks whose secrets are stored here. If one is missing from the list, requests it by id and adds it,
   * because the list may be wrong and a lost secret cannot be recovered. Refuses a mailbox if it is unclear whether its
   * webhook exists, because a second one would deliver everything twice.
   */
  async #ownHooks(
    clients: Clients,
    mailboxes: readonly PlannedMailbox[],
    listed: Hook[],
    attempt: Attempt,
  ): Promise<StoredWebhook[]> {
    const { account, mailbox: client, options } = clients;
    const ids = new Set(listed.map(({ id }) => id));
    const stored = await storedWebhooks(this.dataDir);
    const ours = stored.filter(
      (hook) => hook.account === account.name && hook.host === client.host,
    );
    const own: StoredWebhook[] = [];
    for (const hook of ours) {
      const { id, mailboxId } = hook;
      const mailbox = mailboxes.find(({ resourceId }) => resourceId === mailboxId);
      if (ids.has(id) || mailbox === undefined || !isSameAddress(hook.url, this.fields.url)) {
        own.push(hook);
        continue;
      }
      await attempt(mailbox, async () => {
        const found = await client.getWebhook(refOf(hook), options).catch((error: unknown) => {
          // Only a 404 proves that the webhook is gone. Otherwise, its secret is kept.
          if (isOfService(error) && error.facts.status === 404) return null;
          throw error;
        });
        if (found !== null) listed.push(hookOf(clients, { ...found, id }, mailboxId, hook.mailbox));
        own.push(hook);
      });
    }
    return own;
  }

  async #take(clients: Clients, step: WebhookStep<Hook>): Promise<void> {
    const { context, dataDir, fields, command } = this;
    const forgetMissing = async (): Promise<void> => {
      for (const id of step.missing) await forgetSecret(dataDir, id);
    };
    if (step.act === 'create') {
      const webhook = await registerWebhook(context, clients, step.mailbox, fields, dataDir);
      await forgetMissing();
      return this.#created(clients, webhook, step.missing);
    }
    await forgetMissing();
    if (step.act === 'keep' || command.createOnly === true) return this.#done('kept', step.hook);
    const changed = await setStatus(clients, step.hook, 'active');
    if (changed !== 'accepted') return this.#done('resumed', changed);
    return this.#done('resumed', step.hook, { accepted: true });
  }

  /** Prints a created webhook, even if its test fails. Only the first is tested, because all have the same URL. */
  async #created(clients: Clients, hook: NewWebhook, replaces: readonly string[]): Promise<void> {
    const test = this.#isToTest
      ? await testDelivery(clients, hook).catch((error: unknown) => {
          if (!isOfService(error)) throw error;
          return { success: false, httpStatus: null, error: describeError(error).message };
        })
      : null;
    this.#isToTest = false;
    this.hasFailed ||= test?.success === false;
    const tested = test === null ? '' : `\n          test delivery: ${testText(test)}`;
    await this.#done('created', hook, { test, replaces }, tested);
  }

  async #done(
    action: keyof Ensurer['tally'],
    hook: ShortHook,
    more: object = {},
    text = '',
  ): Promise<void> {
    this.tally[action] += 1;
    const { output } = this.context;
    // Thousands of unchanged webhooks would hide the others.
    if (action === 'kept' && !output.json) return;
    const { mailbox, url, id, status } = hook;
    const state = action === 'other' ? ` (${terminalLine(status)})` : '';
    await output.line(
      { ...hook, ...more, action },
      () =>
        `${action.padEnd(9)} ${terminalLine(mailbox)} -> ${terminalLine(url)}, ${terminalLine(id)}${state}${text}`,
    );
  }

  async #fail(
    { account: { name: account } }: Clients,
    { address: mailbox, resourceId: mailboxId }: PlannedMailbox,
    reason: MailkeepError,
  ): Promise<void> {
    this.tally.failed += 1;
    this.hasFailed = true;
    const { code, message, hint } = describeError(reason);
    const error = { code, message, hint };
    await this.context.output.line(
      { mailbox, mailboxId, account, action: 'failed', error },
      () => `failed    ${terminalLine(mailbox)}: ${message}`,
    );
  }
}

function isOfService(error: unknown): error is MailkeepError {
  return error instanceof MailkeepError && error.family === 'origin';
}

async function wantedMailboxes(
  clients: Clients,
  names: readonly string[],
): Promise<PlannedMailbox[]> {
  if (names.length > 0) {
    const named = await Promise.all(names.map((name) => findNamedMailbox(clients, name)));
    return [...new Map(named.map((mailbox) => [mailbox.resourceId, mailbox])).values()];
  }
  const { mailboxes } = await clients.reach();
  const { mailboxes: selection } = clients.account;
  return mailboxes.filter(({ address }) => selects(selection, address));
}

/**
 * Lists mailboxes' webhooks. Sends one request to the Platform API, or one per mailbox without it.
 * @param named whether only some mailboxes are selected
 */
async function listedHooks(
  clients: Clients,
  mailboxes: readonly PlannedMailbox[],
  named: boolean,
  attempt: Attempt,
): Promise<Hook[]> {
  if (clients.platform !== null && !named) return listHooks(clients, {});
  const listed: Hook[] = [];
  for (const mailbox of mailboxes)
    await attempt(mailbox, async () => {
      listed.push(...(await listHooks(clients, { mailbox: mailbox.address })));
    });
  return listed;
}
