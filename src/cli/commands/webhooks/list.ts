import { errorOf } from '../../../daemon/webhook-observations.ts';
import type { WebhookFinding } from '../../../delivery-watch/judge.ts';
import { chosenAccounts } from '../../../engine/pass/selection.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { combinedExit, EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { counted } from '../../../wording/amounts.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import { withClients } from '../../account-clients.ts';
import type { CommandContext } from '../../context.ts';
import { tableText } from '../../output.ts';
import { type JudgedHook, judgedHooks, keptLogOf } from './judged.ts';
import { type Hook, type HookFilter, webhookSurface } from './surface.ts';

/** Warnings that are printed; the table shows the state of every webhook. */
const MOST_WARNED = 5;

/** `mailkeep webhooks list`: of every account, or of the one that is named, with what became of their deliveries. */
export async function listWebhooks(
  context: CommandContext,
  command: HookFilter & { readonly account: string | undefined },
): Promise<ExitCode> {
  const settings = settingsOf(context);
  const accounts = chosenAccounts(settings, command.account);
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
