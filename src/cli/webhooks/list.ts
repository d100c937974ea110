import type { AccountSettings, Settings } from '../../config/settings.ts';
import { tableText } from '../columns.ts';
import { oneAccount, withClients } from '../compose/clients.ts';
import { settingsOf } from '../compose/settings.ts';
import type { CommandContext } from '../context.ts';
import { combinedExit, EXIT, type ExitCode } from '../exit-codes.ts';
import { type Hook, type HookFilter, webhookSurface } from './surface.ts';

/** `mailkeep webhooks list`: of every account, or of the one that is named. */
export async function listWebhooks(
  context: CommandContext,
  command: HookFilter & { readonly account: string | undefined },
): Promise<ExitCode> {
  const settings = settingsOf(context);
  const accounts = askedAccounts(settings, command.account);
  const found: Hook[] = [];
  const codes: ExitCode[] = [];
  for (const account of accounts) {
    const code = await withClients(context, settings, account, async (clients) => {
      for await (const hook of webhookSurface(clients).list(command)) {
        if (context.output.json) await context.output.line(hook, () => '');
        else found.push(hook);
      }
      return EXIT.done;
    });
    codes.push(code);
  }
  if (found.length > 0)
    await context.output.text(webhooksText(found, accounts.length > 1, context));
  else if (combinedExit(codes) === EXIT.done) context.notices.say('There are no webhooks.');
  return combinedExit(codes);
}

export function askedAccounts(
  settings: Settings,
  name: string | undefined,
): readonly AccountSettings[] {
  return name === undefined ? settings.accounts : [oneAccount(settings, name)];
}

function webhooksText(
  hooks: readonly Hook[],
  withAccount: boolean,
  { output }: CommandContext,
): string {
  const headings = ['STATUS', 'MAILBOX', 'NAME', 'URL', 'ID'];
  const rows = hooks.map(({ status, mailbox, name, url, id }) => [status, mailbox, name, url, id]);
  if (!withAccount) return tableText(headings, rows, 3, output);
  const accounts = hooks.map(({ account }) => account);
  return tableText(
    ['ACCOUNT', ...headings],
    rows.map((row, i) => [accounts[i] ?? '', ...row]),
    4,
    output,
  );
}
