import { type Command, Option } from 'commander';
import { settingsOf } from '../../catalog/archive-settings.ts';
import type { AccountSettings, Settings } from '../../core/config-schema.ts';
import { usageError, webhookError } from '../../core/error-tables.ts';
import {
  combinedExit,
  EXIT,
  type ExitCode,
  errnoOf,
  hasCode,
  MailkeepError,
  sentenceOf,
} from '../../core/errors.ts';
import { nearest, nearestAddress } from '../../core/names.ts';
import { forgetSecret, storedWebhooks } from '../../core/secrets.ts';
import { hasState, readState, stateFile } from '../../core/state.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { count, counted, localTime } from '../../core/text.ts';
import {
  attemptsOf,
  judgeWebhooks,
  keptDeliveries,
  type LoggedDelivery,
  loggedDeliveries,
  mergedDeliveries,
  type WebhookFinding,
} from '../../daemon/delivery-watch.ts';
import { errorOf } from '../../daemon/notifying.ts';
import type { WebhookRecord } from '../../service/mailbox-wire.ts';
import type { DeliveryLogRecord, PlatformWebhookRecord } from '../../service/platform-wire.ts';
import { Accepted } from '../../service/surface-client.ts';
import { chosenAccounts } from '../../sync/selection.ts';
import {
  type Clients,
  mailboxCalled,
  namedMailbox,
  oneAccount,
  orderOf,
  SHORT_PATIENCE,
  withClients,
  withEachClients,
} from '../account-clients.ts';
import { confirmed } from '../ask.ts';
import type { Body, CommandContext } from '../context.ts';
import { operationError } from '../errors.ts';
import { collected, given, wholeNumber } from '../option-values.ts';
import { tableText } from '../output.ts';
import type { NewCommand } from './webhooks-create.ts';

const STATUSES = ['active', 'paused', 'disabled'];
interface Line {
  readonly mailbox?: string;
  readonly account?: string;
  readonly yes?: boolean;
}
interface EnsureLine extends NewCommand {
  readonly mailbox?: readonly string[];
}
interface CreateLine extends NewCommand {
  readonly mailbox?: string;
  readonly all?: boolean;
}

const HELP = `
Webhooks notify an address of yours about new mail. They are managed over the platform surface if the
configuration has accounts[].platform, otherwise over the mailbox surface; the log needs the platform surface.
Name webhooks by their ids or the beginnings of ids; without ids, --mailbox selects all webhooks of a mailbox.
"list" shows a webhook as failing when its last deliveries failed, which the platform surface reports.
No command prints a secret. "create" stores it in the archive's folder, in webhooks/<id>.json (0600).

EXAMPLES
  mailkeep webhooks list
  mailkeep webhooks create --mailbox anna@example.org --url https://hooks.example.org/mail
  mailkeep webhooks ensure                one for each mailbox; run it again whenever one may be missing
  mailkeep webhooks test 01981c3a
  mailkeep webhooks pause --mailbox anna@example.org
  mailkeep webhooks resume --mailbox anna@example.org
  mailkeep webhooks log --limit 20
  mailkeep webhooks delete 01981c3a --yes`;

const ACTS = [
  ['test', 'send one test delivery; ends with 1 when it fails'],
  ['pause', 'deliver nothing until it is resumed'],
  ['resume', 'deliver again'],
  ['delete', 'delete permanently; asks, or needs --yes'],
] as const;
const NAMES = ['list', 'create', 'ensure', ...ACTS.map(([name]) => name), 'log'];

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .usage(`<${NAMES.join('|')}> [options]`)
    .argument('[command]')
    .helpCommand(false)
    .addHelpText('after', HELP)
    .action((typed: string | undefined) => {
      // Without one, the program asks for it.
      if (typed !== undefined) throw unknownCommand(typed);
    });
  defineList(sub(command, 'list', 'list webhooks'), chosen);
  defineCreate(
    sub(command, 'create', 'register a webhook, keep its secret in a file, and test it'),
    chosen,
  );
  defineEnsure(
    sub(
      command,
      'ensure',
      'one webhook for each mailbox: creates missing ones, resumes paused ones',
    ),
    chosen,
  );
  for (const [act, summary] of ACTS) {
    const acting = sub(command, act, summary)
      .argument('[id...]', 'ids of webhooks, or their beginnings')
      .option('--mailbox <mailbox>', 'of this mailbox only (address or resource id)');
    if (act === 'delete') acting.option('--yes', 'delete without asking');
    acting.action((ids: string[], options: Line) =>
      chosen(async (context) => {
        return actOnWebhooks(context, { ...options, act, ids });
      }),
    );
  }
  sub(command, 'log', 'what became of deliveries, as the service recorded it')
    .option('--mailbox <mailbox>', 'of this mailbox only (address or resource id)')
    .option('--limit <n>', 'how many entries to print', wholeNumber(1, 1_000_000), 50)
    .action((options: LogCommand) =>
      chosen(async (context) => {
        return showDeliveryLog(context, options);
      }),
    );
}

function sub(command: Command, name: string, summary: string): Command {
  return command
    .command(name)
    .summary(summary)
    .description(summary)
    .option('--account <name>', 'the account of the configuration, where there are several');
}

function defineList(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--mailbox <mailbox>', 'of this mailbox only (address or resource id)')
    .addOption(new Option('--status <status>', 'of this status only').choices(STATUSES))
    .action((options: ListCommand) =>
      chosen(async (context) => {
        return listWebhooks(context, options);
      }),
    );
}

function defineCreate(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--mailbox <mailbox>', 'the mailbox whose new mail it reports (address or resource id)')
    .option('--all', 'one for each mailbox that the configuration mirrors and that has none')
    .option('--url <url>', 'where to deliver (default: webhook.publicUrl of the configuration)')
    .option('--name <name>', 'name of the webhook', 'mailkeep')
    .option('--no-test', 'send no test delivery')
    .action(({ mailbox, all = false, ...options }: CreateLine) =>
      chosen(async (context) => {
        if ((mailbox === undefined) !== all) {
          const problem = 'give either --mailbox, or --all for each mailbox that is mirrored.';
          throw usageError('usage-invalid', { command: 'webhooks create', problem });
        }
        if (mailbox === undefined) {
          const { ensureWebhooks } = await import('./webhooks-create.ts');
          return ensureWebhooks(context, { ...options, mailboxes: [], createOnly: true });
        }
        const { createWebhook } = await import('./webhooks-create.ts');
        return createWebhook(context, { ...options, mailbox });
      }),
    );
}

const ENSURE_HELP = `
Creates a webhook of ours for each mailbox that has none at the address, including those that the service lost. Webhooks
of ours that are paused or disabled are resumed. Other webhooks are listed and left alone. Working webhooks stay as they
are, so the command can be repeated. Ours are the webhooks whose secrets are stored in the archive's folder.

With --json there is one line for each webhook with "action": kept, resumed, created, failed or other.`;

function defineEnsure(command: Command, chosen: (body: Body) => void): void {
  command
    .option(
      '--mailbox <mailbox>',
      'for this mailbox only (address or resource id); repeatable',
      collected,
    )
    .option('--url <url>', 'where to deliver (default: webhook.publicUrl of the configuration)')
    .option('--name <name>', 'name of new webhooks', 'mailkeep')
    .option('--no-test', 'send no test delivery with the first that is created')
    .addHelpText('after', ENSURE_HELP)
    .action(({ mailbox: mailboxes = [], ...options }: EnsureLine) =>
      chosen(async (context) => {
        const { ensureWebhooks } = await import('./webhooks-create.ts');
        return ensureWebhooks(context, { ...options, mailboxes, createOnly: false });
      }),
    );
}

function unknownCommand(typed: string): Error {
  const meant = nearest(typed, NAMES);
  const listed = `The commands are ${NAMES.join(', ')}.`;
  const problem = `unknown command '${typed}'. ${meant === null ? listed : `Did you mean ${meant}?`}`;
  return usageError('usage-invalid', { command: 'webhooks', problem });
}

/** A webhook as both surfaces show it; whatever else they send is left out, and so is a secret. */
export interface Hook {
  readonly id: string;
  /** Address of the mailbox. */
  readonly mailbox: string;
  readonly mailboxId: string | null;
  /** Name of the account in the configuration. */
  readonly account: string;
  readonly name: string;
  readonly description: string | null;
  readonly events: readonly string[];
  readonly status: string;
  readonly url: string;
  readonly createdAt: string | null;
  readonly updatedAt: string | null;
}

interface HookFilter {
  /** Address or resource id. */
  readonly mailbox?: string | undefined;
  readonly status?: 'active' | 'paused' | 'disabled' | undefined;
}

export interface TestOutcome {
  /** Null where the service did not say. */
  readonly success: boolean | null;
  readonly httpStatus: number | null;
  readonly error: string | null;
}

/** What daily use needs of webhooks. `accepted`: the service finishes it later (202). */
interface WebhookSurface {
  list(filter: HookFilter): AsyncGenerator<Hook, void>;
  test(hook: Hook): Promise<TestOutcome | 'accepted'>;
  setStatus(hook: Hook, status: 'active' | 'paused'): Promise<Hook | 'accepted'>;
  remove(hook: Hook): Promise<'done' | 'accepted'>;
}

/** Sends a test delivery over the mailbox surface. */
export async function testDelivery(
  { mailbox: client, options }: Clients,
  { id, mailboxId }: Pick<Hook, 'id' | 'mailboxId'>,
): Promise<TestOutcome> {
  const at = { mailbox: mailboxId ?? '', webhookId: id };
  const { success, httpStatus, error } = await client.testWebhook(at, options);
  return { success, httpStatus, error };
}

/** The platform surface where the account has it, which lists an order in one request; else the mailbox surface. */
export function webhookSurface(clients: Clients): WebhookSurface {
  return clients.platform === null
    ? onMailboxSurface(clients)
    : onPlatform(clients, clients.platform);
}

/** Returns the filter for one mailbox, named by its address or resource id, on the platform surface. */
async function mailboxIdOf(
  clients: Clients,
  mailbox: string | undefined,
): Promise<{ readonly mailboxId?: string }> {
  if (mailbox === undefined) return {};
  const isAddress = mailbox.includes('@');
  return { mailboxId: isAddress ? (await namedMailbox(clients, mailbox)).resourceId : mailbox };
}

function onMailboxSurface(clients: Clients): WebhookSurface {
  const { mailbox: client, options } = clients;
  const at = ({ id, mailboxId }: Hook) => ({ mailbox: mailboxId ?? '', webhookId: id });
  return {
    async *list({ mailbox, status }) {
      const mailboxes =
        mailbox === undefined
          ? (await clients.reach()).mailboxes
          : [await namedMailbox(clients, mailbox)];
      for (const { resourceId, address } of mailboxes) {
        const asked = { ...options, ...given({ status }) };
        for await (const record of client.eachWebhook(resourceId, asked)) {
          yield hookOf(clients, record, resourceId, address);
        }
      }
    },
    test: (hook) => testDelivery(clients, hook),
    async setStatus(hook, status) {
      const record = await client.updateWebhook(at(hook), { status }, options);
      return hookOf(clients, record, hook.mailboxId ?? '', hook.mailbox);
    },
    async remove(hook) {
      await client.deleteWebhook(at(hook), options);
      return 'done';
    },
  };
}

function onPlatform(clients: Clients, client: NonNullable<Clients['platform']>): WebhookSurface {
  const { options } = clients;
  return {
    async *list({ mailbox, status }) {
      const orderId = await orderOf(clients);
      const asked = {
        ...options,
        ...(await mailboxIdOf(clients, mailbox)),
        ...given({ status }),
      };
      for await (const record of client.eachWebhook(orderId, asked)) {
        yield platformHookOf(clients, record);
      }
    },
    async test({ id }) {
      const answer = await client.testWebhook(id, options);
      if (answer instanceof Accepted) return 'accepted';
      const { is_successful: success, http_status: httpStatus, error } = answer;
      return { success, httpStatus, error };
    },
    async setStatus({ id }, status) {
      const answer = await client.updateWebhook(id, { status }, options);
      return answer instanceof Accepted ? 'accepted' : platformHookOf(clients, answer);
    },
    async remove({ id }) {
      const answer = await client.deleteWebhook(id, options);
      return answer instanceof Accepted ? 'accepted' : 'done';
    },
  };
}

function hookOf(
  { account }: Clients,
  record: WebhookRecord,
  mailboxId: string,
  address: string,
): Hook {
  const { id, name, description, events, status, url, createdAt, updatedAt } = record;
  return {
    id,
    mailbox: address,
    mailboxId,
    account: account.name,
    name,
    description,
    events,
    status,
    url,
    createdAt,
    updatedAt,
  };
}

function platformHookOf({ account }: Clients, record: PlatformWebhookRecord): Hook {
  const { id, mailbox, name, description, events, status, url } = record;
  return {
    id,
    mailbox: mailbox?.address ?? '',
    mailboxId: mailbox?.id ?? null,
    account: account.name,
    name,
    description,
    events,
    status,
    url,
    createdAt: record.created_at,
    updatedAt: record.updated_at,
  };
}

/** An account to act on, with those of the named mailboxes that it has; none stands for all of them. */
interface ChosenAccount {
  readonly account: AccountSettings;
  readonly names: readonly string[];
}

/** The accounts to act on, and how asking each of them ended. */
interface Chosen {
  readonly accounts: readonly ChosenAccount[];
  readonly codes: readonly ExitCode[];
}

/**
 * Finds the accounts that have the named mailboxes, before anything is changed. Costs a request for each account, and
 * none where no mailbox is named or there is only one account.
 *
 * No account is chosen where one did not answer and a name was not found in the others: it may be there. Why it did not
 * answer is printed.
 *
 * @throws operation-mailbox-nowhere where all answered and none has a name
 */
export async function accountsWith(
  context: CommandContext,
  settings: Settings,
  command: { readonly account?: string; readonly mailboxes: readonly string[] },
): Promise<Chosen> {
  const { mailboxes: names } = command;
  const asked = chosenAccounts(settings, command.account);
  if (names.length === 0 || asked.length === 1) {
    return { accounts: asked.map((account) => ({ account, names })), codes: [] };
  }
  const accounts: ChosenAccount[] = [];
  const known = new Set<string>();
  const reachedBy = async ({ account, reach }: Clients): Promise<ExitCode> => {
    const { mailboxes } = await reach();
    for (const { address } of mailboxes) known.add(address);
    const here = names.filter((name) => mailboxCalled(mailboxes, name) !== undefined);
    if (here.length > 0) accounts.push({ account, names: here });
    return EXIT.done;
  };
  const codes = await withEachClients(context, settings, asked, reachedBy, SHORT_PATIENCE);
  const found = new Set(accounts.flatMap((chosen) => chosen.names));
  const missing = names.find((name) => !found.has(name));
  if (missing === undefined) return { accounts, codes };
  if (codes.some((code) => code !== EXIT.done)) return { accounts: [], codes };
  throw operationError('operation-mailbox-nowhere', {
    address: missing,
    known: [...known],
    suggestion: nearestAddress(missing, [...known]),
  });
}

/** What became of a webhook's deliveries, as `webhooks list --json` shows it. */
interface DeliveryState {
  /** As the daemon judges it; `off`: paused or disabled. */
  readonly state: 'well' | 'off' | 'failing';
  /** Deliveries that failed in a row, the newest first. */
  readonly failures: number;
  /** ISO 8601: the last successful delivery within a day; null where none is known. */
  readonly lastSuccessAt: string | null;
}

/** A listed webhook; `delivery` is null where nothing reports what became of its deliveries. */
type JudgedHook = Hook & { readonly delivery: DeliveryState | null };

/** Webhooks with what is known of their deliveries, and what is wrong with them. */
interface JudgedHooks {
  readonly hooks: readonly JudgedHook[];
  readonly findings: readonly WebhookFinding[];
}

/** Deliveries that the daemon kept, by account. A state that cannot be read is a warning, once, and has none. */
type KeptLog = (account: string) => readonly LoggedDelivery[];

/** Returns what reads the deliveries that the daemon kept in an archive's state. */
function keptLogOf({ notices }: CommandContext, dataDir: string): KeptLog {
  let hasWarned = false;
  const warn = (why: string, hint: string): readonly LoggedDelivery[] => {
    const message = `The deliveries stored by the daemon were not read. ${why}`;
    if (!hasWarned) notices.alert({ code: 'deliveries-unread', message, hint });
    hasWarned = true;
    return [];
  };
  return (account) => {
    const state = readState(dataDir);
    if (state === undefined) {
      if (!hasState(dataDir)) return [];
      const hint = 'Check its permissions. "mailkeep verify" moves a damaged one aside.';
      return warn(`The state ${stateFile(dataDir)} cannot be read.`, hint);
    }
    try {
      return keptDeliveries(state, account);
    } catch (error) {
      if (!hasCode(error, 'catalog-damaged')) throw error;
      const { message, hint } = sentenceOf(error);
      return warn(message, hint ?? '');
    } finally {
      state.close();
    }
  };
}

/**
 * Judges listed webhooks as the daemon does: by the delivery log of the platform surface, read now, and by what the
 * daemon kept of it. Webhooks that were created from here and are not listed are findings as well.
 */
async function judgedHooks(
  context: CommandContext,
  dataDir: string,
  clients: Clients,
  listed: readonly Hook[],
  filter: HookFilter,
  keptLog: KeptLog,
): Promise<JudgedHooks> {
  const hooks = listed.map((hook) => ({ ...hook, mailboxId: hook.mailboxId ?? '' }));
  const own = await unlisted(context, dataDir, clients, listed, filter);
  const kept = keptLog(clients.account.name);
  const deliveries = await knownDeliveries(context, clients, hooks.length > 0, kept);
  const findings = judgeWebhooks([...hooks, ...own], hooks, deliveries ?? [], context.now());
  const byId = new Map(findings.map((finding) => [finding.webhook.id, finding]));
  return {
    hooks: listed.map((hook) => ({
      ...hook,
      delivery: deliveries === null ? null : stateOf(byId.get(hook.id)),
    })),
    findings,
  };
}

function stateOf(finding: WebhookFinding | undefined): DeliveryState | null {
  if (finding === undefined || finding.state === 'missing') return null;
  const { state, failures, lastSuccessAt } = finding;
  return {
    state,
    failures,
    lastSuccessAt: lastSuccessAt === null ? null : new Date(lastSuccessAt).toISOString(),
  };
}

/** Webhooks created from here that a complete listing lacks. A listing of one status does not show the others. */
async function unlisted(
  context: CommandContext,
  dataDir: string,
  { account, mailbox: client }: Clients,
  listed: readonly Hook[],
  { mailbox, status }: HookFilter,
) {
  if (status !== undefined) return [];
  const ids = new Set(listed.map(({ id }) => id));
  const stored = await orWarning(context, 'The stored webhooks were not checked', [], () =>
    storedWebhooks(dataDir),
  );
  return stored.filter(
    (hook) =>
      hook.account === account.name &&
      hook.host === client.host &&
      (mailbox === undefined || mailbox === hook.mailbox || mailbox === hook.mailboxId) &&
      !ids.has(hook.id),
  );
}

/** Null where there is no delivery log and the daemon has kept none. */
async function knownDeliveries(
  context: CommandContext,
  clients: Clients,
  anyListed: boolean,
  kept: readonly LoggedDelivery[],
): Promise<readonly LoggedDelivery[] | null> {
  const { platform } = clients;
  if (platform === null || !anyListed) return kept.length === 0 ? null : kept;
  const logged = await orWarning(context, 'The delivery log was not read', null, async () =>
    loggedDeliveries(platform, await orderOf(clients), kept, context.now(), context.signal),
  );
  if (logged === null) return kept.length === 0 ? null : kept;
  return mergedDeliveries(kept, logged);
}

/** The list is worth showing without what could not be learned about it. */
async function orWarning<T>(
  { notices, signal }: CommandContext,
  what: string,
  otherwise: T,
  act: () => Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (signal.aborted || !(error instanceof MailkeepError)) throw error;
    notices.warn(`${what}. ${sentenceOf(error).message}`);
    return otherwise;
  }
}

/** Warnings that are printed; the table shows the state of every webhook. */
const MOST_WARNED = 5;

interface ListCommand extends HookFilter {
  readonly account?: string;
}

/** `mailkeep webhooks list`: of every account, or of the one that is named, with what became of their deliveries. */
async function listWebhooks(context: CommandContext, command: ListCommand): Promise<ExitCode> {
  const settings = settingsOf(context);
  const accounts = chosenAccounts(settings, command.account);
  const found: JudgedHook[] = [];
  const troubled: WebhookFinding[] = [];
  const { dataDir } = settings;
  const keptLog = keptLogOf(context, dataDir);
  const codes = await withEachClients(context, settings, accounts, async (clients) => {
    const listed: Hook[] = [];
    for await (const hook of webhookSurface(clients).list(command)) listed.push(hook);
    const judged = await judgedHooks(context, dataDir, clients, listed, command, keptLog);
    const { hooks, findings } = judged;
    troubled.push(...findings.filter(({ state }) => state === 'failing' || state === 'missing'));
    found.push(...hooks);
    if (context.output.json) for (const hook of hooks) await context.output.line(hook, () => '');
    return EXIT.done;
  });
  if (found.length > 0 && !context.output.json) {
    await context.output.text(webhooksText(found, accounts.length > 1, context));
  } else if (found.length === 0 && combinedExit(codes) === EXIT.done) {
    context.notices.say('There are no webhooks.');
  }
  warnOf(context, troubled);
  return combinedExit(codes);
}

function warnOf({ notices }: CommandContext, findings: readonly WebhookFinding[]): void {
  for (const finding of findings.slice(0, MOST_WARNED)) {
    const error = errorOf(finding);
    if (error === null) continue;
    const { message, hint } = sentenceOf(error);
    notices.warn(hint === null ? message : `${message} ${hint}`);
  }
  const more = findings.length - MOST_WARNED;
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
  const headings = ['STATUS', 'MAILBOX', 'NAME', 'URL', 'ID'];
  const rows = hooks.map(({ status, delivery, mailbox, name, url, id }) => [
    delivery?.state === 'failing' ? 'failing' : status,
    mailbox,
    name,
    url,
    id,
  ]);
  if (!withAccount) return tableText(headings, rows, 3, output);
  const accounts = hooks.map(({ account }) => account);
  return tableText(
    ['ACCOUNT', ...headings],
    rows.map((row, i) => [accounts[i] ?? '', ...row]),
    4,
    output,
  );
}

interface LogCommand {
  readonly mailbox?: string;
  readonly account?: string;
  readonly limit: number;
}

/** `mailkeep webhooks log`: what became of deliveries, in the order of the service; needs the platform surface. */
async function showDeliveryLog(context: CommandContext, command: LogCommand): Promise<ExitCode> {
  const { output, notices } = context;
  const settings = settingsOf(context);
  const accounts = chosenAccounts(settings, command.account);
  const reached = accounts.filter(({ platform }) => platform !== null);
  if (reached.length === 0) {
    throw operationError('operation-needs-platform', {
      operation: 'platform.listDeliveryLogs',
      account: accounts[0]?.name ?? '',
    });
  }
  const entries: DeliveryLogRecord[] = [];
  const codes = await withEachClients(context, settings, reached, async (clients) => {
    const { platform, options } = clients;
    let left = command.limit;
    const asked = {
      ...options,
      perPage: Math.min(100, left),
      ...(await mailboxIdOf(clients, command.mailbox)),
    };
    for await (const entry of platform?.eachDeliveryLog(await orderOf(clients), asked) ?? []) {
      if (output.json) await output.line(lineOf(entry), () => '');
      else entries.push(entry);
      left -= 1;
      if (left === 0) break;
    }
    return EXIT.done;
  });
  if (entries.length > 0) await output.text(logText(entries, context));
  else if (combinedExit(codes) === EXIT.done) notices.say('Nothing was delivered yet.');
  return combinedExit(codes);
}

function lineOf(entry: DeliveryLogRecord): object {
  return {
    createdAt: entry.created_at,
    mailbox: entry.mailbox_address,
    url: entry.webhook_url,
    success: entry.is_successful,
    durationMs: entry.duration,
    attempts: attemptsOf(entry),
    retryCount: entry.retry_count,
    maxRetryCount: entry.max_retry_count,
  };
}

function logText(entries: readonly DeliveryLogRecord[], { output }: CommandContext): string {
  const headings = ['TIME', 'OUTCOME', 'TRIES', 'TOOK', 'MAILBOX', 'URL'];
  const rows = entries.map((entry) => {
    const at = Date.parse(entry.created_at);
    return [
      Number.isNaN(at) ? entry.created_at : localTime(at),
      outcomeOf(entry),
      `${attemptsOf(entry)} of ${entry.max_retry_count + 1}`,
      `${count(entry.duration)} ms`,
      entry.mailbox_address,
      entry.webhook_url,
    ];
  });
  return tableText(headings, rows, 5, output);
}

function outcomeOf(entry: DeliveryLogRecord): string {
  if (attemptsOf(entry) === 0) return 'waiting';
  return entry.is_successful ? 'delivered' : 'failed';
}

interface ActCommand {
  readonly act: 'test' | 'pause' | 'resume' | 'delete';
  /** Ids, or beginnings of ids; none stands for all webhooks of the mailbox. */
  readonly ids: readonly string[];
  readonly mailbox?: string;
  readonly account?: string;
  readonly yes?: boolean;
}

/** Fewer characters, or none from a variable that was not set, are more likely a mistake than a name. */
const SHORTEST_BEGINNING = 4;

/** `mailkeep webhooks test|pause|resume|delete`. */
async function actOnWebhooks(context: CommandContext, command: ActCommand): Promise<ExitCode> {
  const { act, ids, mailbox } = command;
  if (ids.length === 0 && mailbox === undefined) {
    throw usageError('usage-invalid', {
      command: `webhooks ${act}`,
      problem: 'name webhooks by their ids, or all of a mailbox with --mailbox.',
    });
  }
  const settings = settingsOf(context);
  const account = oneAccount(settings, command.account);
  return withClients(
    context,
    settings,
    account,
    async (clients) => {
      const surface = webhookSurface(clients);
      const hooks = await chosen(surface, command, account.name);
      if (hooks.length === 0) context.notices.say(`There are no webhooks for ${mailbox}.`);
      else if (act === 'delete' && command.yes !== true) {
        const lines = [
          'These webhooks would be deleted:',
          ...hooks.map((hook) => `  ${about(hook)}`),
        ];
        if (!(await confirmed(context, 'webhooks delete', lines))) return EXIT.failures;
      }
      const codes: ExitCode[] = [];
      for (const hook of hooks) {
        codes.push(await actOn(context, surface, act, hook));
        if (act === 'delete') await forget(context, settings.dataDir, hook);
      }
      return combinedExit(codes);
    },
    act === 'test' ? SHORT_PATIENCE : {},
  );
}

async function chosen(
  surface: WebhookSurface,
  { ids, mailbox }: ActCommand,
  account: string,
): Promise<Hook[]> {
  const all: Hook[] = [];
  for await (const hook of surface.list({ mailbox })) all.push(hook);
  if (ids.length === 0) return all;
  const found = ids.map((id) => {
    const beginning = id.length < SHORTEST_BEGINNING ? null : id.toLowerCase();
    const matching = all.filter(
      (hook) => hook.id === id || (beginning !== null && hook.id.startsWith(beginning)),
    );
    const exact = matching.find((hook) => hook.id === id);
    const [first, ...others] = exact === undefined ? matching : [exact];
    if (first === undefined) {
      throw webhookError('webhook-unknown', { id, where: mailbox ?? `account "${account}"` });
    }
    if (others.length > 0) {
      const candidates = matching.map((hook) => hook.id);
      throw webhookError('webhook-ambiguous', { id, candidates });
    }
    return first;
  });
  return [...new Set(found)];
}

async function actOn(
  { output }: CommandContext,
  surface: WebhookSurface,
  act: ActCommand['act'],
  hook: Hook,
): Promise<ExitCode> {
  if (act === 'test') {
    const outcome = await surface.test(hook);
    const { id, mailbox, url } = hook;
    const shown = outcome === 'accepted' ? { accepted: true } : outcome;
    const text = () => `${about(hook)}: ${testText(outcome)}`;
    await output.line({ id, mailbox, url, ...shown }, text);
    return outcome !== 'accepted' && outcome.success === false ? EXIT.failures : EXIT.done;
  }
  if (act === 'delete') {
    const outcome = await surface.remove(hook);
    await output.line(
      outcome === 'accepted' ? { ...hook, accepted: true } : { ...hook, deleted: true },
      () => `${about(hook)}: ${outcome === 'accepted' ? 'will be deleted' : 'deleted'}`,
    );
    return EXIT.done;
  }
  const changed = await surface.setStatus(hook, act === 'pause' ? 'paused' : 'active');
  await output.line(changed === 'accepted' ? { ...hook, accepted: true } : changed, () =>
    changed === 'accepted'
      ? `${about(hook)}: will be ${act}d`
      : `${about(changed)}: ${terminalLine(changed.status)}`,
  );
  return EXIT.done;
}

/** What the receiver did with a test delivery; `error` may be in its own words. */
export function testText(outcome: TestOutcome | 'accepted'): string {
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

/** A secret that proves nothing any more. */
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
