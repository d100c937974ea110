import { storedWebhooks } from '../../../config/webhook-secrets.ts';
import { errorOf } from '../../../daemon/observations.ts';
import {
  keptDeliveries,
  type LoggedDelivery,
  mergedDeliveries,
} from '../../../delivery-watch/delivery-log.ts';
import { judgeWebhooks, type WebhookFinding } from '../../../delivery-watch/own-webhooks.ts';
import { loggedDeliveries } from '../../../delivery-watch/watch.ts';
import { chosenAccounts } from '../../../engine/pass/selection.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { combinedExit, EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { hasCode, MailkeepError } from '../../../errors/mailkeep-error.ts';
import { hasState, readState, stateFile } from '../../../state/state-file.ts';
import { counted } from '../../../wording/amounts.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import { type Clients, orderOf, withEachClients } from '../../account-clients.ts';
import type { CommandContext } from '../../context.ts';
import { tableText } from '../../output.ts';
import { type Hook, type HookFilter, webhookSurface } from './surface.ts';

/** What became of a webhook's deliveries, as `webhooks list --json` shows it. */
export interface DeliveryState {
  /** As the daemon judges it; `off`: paused or disabled. */
  readonly state: 'well' | 'off' | 'failing';
  /** Deliveries that failed in a row, the newest first. */
  readonly failures: number;
  /** ISO 8601: the last successful delivery within a day; null where none is known. */
  readonly lastSuccessAt: string | null;
}

/** A listed webhook; `delivery` is null where nothing reports what became of its deliveries. */
export type JudgedHook = Hook & { readonly delivery: DeliveryState | null };

/** Webhooks with what is known of their deliveries, and what is wrong with them. */
export interface JudgedHooks {
  readonly hooks: readonly JudgedHook[];
  readonly findings: readonly WebhookFinding[];
}

/** Deliveries that the daemon kept, by account. A state that cannot be read is a warning, once, and has none. */
export type KeptLog = (account: string) => readonly LoggedDelivery[];

/** Returns what reads the deliveries that the daemon kept in an archive's state. */
export function keptLogOf({ notices }: CommandContext, dataDir: string): KeptLog {
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
export async function judgedHooks(
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

export interface ListCommand extends HookFilter {
  readonly account?: string;
}

/** `mailkeep webhooks list`: of every account, or of the one that is named, with what became of their deliveries. */
export async function listWebhooks(
  context: CommandContext,
  command: ListCommand,
): Promise<ExitCode> {
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
