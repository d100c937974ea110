import { forgetSecret } from '../../../config/webhook-secrets.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { combinedExit, EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { errnoOf } from '../../../errors/mailkeep-error.ts';
import { webhookError } from '../../../errors/small-families.ts';
import { usageError } from '../../../errors/usage.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { oneAccount, SHORT_PATIENCE, withClients } from '../../account-clients.ts';
import { confirmed } from '../../ask.ts';
import type { CommandContext } from '../../context.ts';
import { type Hook, type TestOutcome, type WebhookSurface, webhookSurface } from './surface.ts';

export interface ActCommand {
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
export async function actOnWebhooks(
  context: CommandContext,
  command: ActCommand,
): Promise<ExitCode> {
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
