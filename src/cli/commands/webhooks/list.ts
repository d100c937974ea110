import type { AccountSettings, Settings } from '../../../config/settings.ts';
import { errorOf } from '../../../daemon/observations.ts';
import { attemptsOf } from '../../../delivery-watch/delivery-log.ts';
import type { WebhookFinding } from '../../../delivery-watch/own-webhooks.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { combinedExit, EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { operationError } from '../../../errors/operations.ts';
import type { DeliveryLogRecord } from '../../../wire/platform-records.ts';
import { count, counted, localTime } from '../../../wording/amounts.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import type { CommandContext } from '../../context.ts';
import { tableText } from '../../output.ts';
import { namedMailbox, oneAccount, withClients } from '../../service/clients.ts';
import { type JudgedHook, judgedHooks, keptLogOf } from './judged.ts';
import { type Hook, type HookFilter, orderOf, webhookSurface } from './surface.ts';

/** Warnings that are printed; the table shows the state of every webhook. */
const MOST_WARNED = 5;

/** `mailkeep webhooks list`: of every account, or of the one that is named, with what became of their deliveries. */
export async function listWebhooks(
  context: CommandContext,
  command: HookFilter & { readonly account: string | undefined },
): Promise<ExitCode> {
  const settings = settingsOf(context);
  const accounts = askedAccounts(settings, command.account);
  const found: JudgedHook[] = [];
  const troubled: WebhookFinding[] = [];
  const codes: ExitCode[] = [];
  const keptLog = keptLogOf(context, settings.dataDir);
  for (const account of accounts) {
    const code = await withClients(context, settings, account, async (clients) => {
      const listed: Hook[] = [];
      for await (const hook of webhookSurface(clients).list(command)) listed.push(hook);
      const { hooks, findings } = await judgedHooks(
        context,
        settings.dataDir,
        clients,
        listed,
        command,
        keptLog,
      );
      troubled.push(...findings.filter(({ state }) => state === 'failing' || state === 'missing'));
      found.push(...hooks);
      if (context.output.json) for (const hook of hooks) await context.output.line(hook, () => '');
      return EXIT.done;
    });
    codes.push(code);
  }
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

export function askedAccounts(
  settings: Settings,
  name: string | undefined,
): readonly AccountSettings[] {
  return name === undefined ? settings.accounts : [oneAccount(settings, name)];
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

export interface LogCommand {
  readonly mailbox: string | undefined;
  readonly account: string | undefined;
  readonly limit: number;
}

/** `mailkeep webhooks log`: what became of deliveries, in the order of the service; needs the platform surface. */
export async function showDeliveryLog(
  context: CommandContext,
  command: LogCommand,
): Promise<ExitCode> {
  const { output, notices } = context;
  const settings = settingsOf(context);
  const accounts = askedAccounts(settings, command.account);
  const reached = accounts.filter(({ platform }) => platform !== null);
  if (reached.length === 0) {
    throw operationError('operation-needs-platform', {
      operation: 'platform.listDeliveryLogs',
      account: accounts[0]?.name ?? '',
    });
  }
  const entries: DeliveryLogRecord[] = [];
  const codes: ExitCode[] = [];
  for (const account of reached) {
    const code = await withClients(context, settings, account, async (clients) => {
      const { platform, options } = clients;
      const { mailbox } = command;
      const mailboxId = mailbox?.includes('@')
        ? (await namedMailbox(clients, mailbox)).resourceId
        : mailbox;
      let left = command.limit;
      const asked = {
        ...options,
        perPage: Math.min(100, left),
        ...(mailboxId === undefined ? {} : { mailboxId }),
      };
      for await (const entry of platform?.eachDeliveryLog(await orderOf(clients), asked) ?? []) {
        if (output.json) await output.line(lineOf(entry), () => '');
        else entries.push(entry);
        left -= 1;
        if (left === 0) break;
      }
      return EXIT.done;
    });
    codes.push(code);
  }
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
