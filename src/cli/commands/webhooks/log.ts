import { attemptsOf } from '../../../delivery-watch/delivery-log.ts';
import { chosenAccounts } from '../../../engine/pass/selection.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { combinedExit, EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { operationError } from '../../../errors/operations.ts';
import type { DeliveryLogRecord } from '../../../wire/platform-records.ts';
import { count, localTime } from '../../../wording/amounts.ts';
import { orderOf, withEachClients } from '../../account-clients.ts';
import type { CommandContext } from '../../context.ts';
import { tableText } from '../../output.ts';
import { mailboxIdOf } from './surface.ts';
export interface LogCommand {
  readonly mailbox?: string;
  readonly account?: string;
  readonly limit: number;
}

/** `mailkeep webhooks log`: what became of deliveries, in the order of the service; needs the platform surface. */
export async function showDeliveryLog(
  context: CommandContext,
  command: LogCommand,
): Promise<ExitCode> {
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
