import { accessSync, constants } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { Pool } from 'undici';
import type { AccountSettings, Settings } from '../../../config/settings.ts';
import { readToken } from '../../../config/token.ts';
import { type StoredWebhook, storedWebhooks } from '../../../config/webhook-secrets.ts';
import { errorOf } from '../../../daemon/observations.ts';
import { watchDeliveries } from '../../../delivery-watch/watch.ts';
import { EXIT } from '../../../errors/exit-codes.ts';
import { errnoOf, MailkeepError } from '../../../errors/mailkeep-error.ts';
import { counted, span } from '../../../wording/amounts.ts';
import { type Clients, orderOf, SHORT_PATIENCE, withClients } from '../../account-clients.ts';
import type { CommandContext } from '../../context.ts';
import { type Check, failed, skipped, warned, well } from './check.ts';

/** What is known of a service's clock: its own word, and ours before and after it was asked. */
interface ClockReading {
  readonly theirs: number;
  readonly before: number;
  readonly after: number;
}

/** A schedule and an "as of" are as good as the clock; more than this is worth a word. */
const MOST_SKEW_MS = 60_000;

/** An account: its token, its service, the clocks, its webhooks. Asks the service some five requests, and changes nothing. */
export async function accountChecks(
  given: CommandContext,
  settings: Settings,
  account: AccountSettings,
): Promise<Check[]> {
  const { name } = account;
  const checks: Check[] = [];
  const context = withCredentials(given, account);
  if (context === null) return [onlyInUnit(account)];
  const hasToken = await attempt('token', name, checks, async () => {
    await readToken(account.token, context.surroundings.env);
    return well({ name: 'token', about: name, message: 'The token can be read.' });
  });
  if (!hasToken) return checks;
  await withClients(
    context,
    settings,
    account,
    async (clients) => {
      const reached = await attempt('service', name, checks, async () => {
        const { mailboxes } = await clients.reach();
        const message = `${clients.mailbox.host} accepts the token, which reaches ${counted(mailboxes.length, 'mailbox', 'mailboxes')}.`;
        const at = { name: 'service', about: name, message };
        return mailboxes.length > 0
          ? well(at)
          : warned({ ...at, remedy: 'Create a token that may read the mailboxes.' });
      });
      if (reached) checks.push(await clockCheck(context, account));
      checks.push(...(await webhookChecks(context, settings, clients)));
      return EXIT.done;
    },
    SHORT_PATIENCE,
  );
  return checks;
}

/** Where "service install" lets units take credentials from: as root, and as another user. */
function credentialFolders(env: CommandContext['surroundings']['env']): string[] {
  return [
    '/etc/mailkeep',
    path.join(env.XDG_CONFIG_HOME ?? path.join(homedir(), '.config'), 'mailkeep'),
  ];
}

/**
 * Returns the context with the folder of credentials that systemd gives to the unit only: outside of it, that is the folder
 * which systemd takes them from. Null where an account needs one and this user cannot read it.
 */
function withCredentials(
  context: CommandContext,
  { token, platform }: AccountSettings,
): CommandContext | null {
  const { surroundings } = context;
  const { env } = surroundings;
  const names = [token, ...(platform === null ? [] : [platform.token])].flatMap(({ kind, name }) =>
    kind === 'credential' ? [name] : [],
  );
  if (names.length === 0 || env.CREDENTIALS_DIRECTORY !== undefined) return context;
  const folder = credentialFolders(env).find((one) =>
    names.every((name) => isReadable(path.join(one, name))),
  );
  if (folder === undefined) return null;
  return {
    ...context,
    surroundings: { ...surroundings, env: { ...env, CREDENTIALS_DIRECTORY: folder } },
  };
}

function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK);
    return true;
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return false;
  }
}

function onlyInUnit({ name }: AccountSettings): Check {
  return skipped({
    name: 'token',
    about: name,
    message: 'systemd passes the token to the unit only, so the service was not asked.',
    remedy: 'Run "doctor" as root, which may read the token where systemd takes it from.',
  });
}

/** Runs a check; false where it failed. */
async function attempt(
  name: string,
  about: string,
  checks: Check[],
  act: () => Promise<Check>,
): Promise<boolean> {
  try {
    checks.push(await act());
    return true;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    checks.push(failed(name, about, error));
    return false;
  }
}

async function clockCheck(
  { now, signal }: CommandContext,
  { baseUrl, name }: AccountSettings,
): Promise<Check> {
  const at = { name: 'clock', about: name };
  const reading = await clockOf(baseUrl, now, signal);
  if (reading === null) {
    return skipped({ ...at, message: 'The service does not report the time.' });
  }
  const skew = skewOf(reading);
  if (Math.abs(skew) <= MOST_SKEW_MS) {
    return well({ ...at, message: "This machine's clock agrees with the service's." });
  }
  return warned({
    ...at,
    message: `This machine's clock is ${span(Math.abs(skew))} ${skew > 0 ? 'ahead of' : 'behind'} the service's.`,
    remedy: 'Synchronise it over the network: "timedatectl set-ntp true".',
  });
}

/** The service's Date header (RFC 9110, 6.6.1), from a request without a token. */
async function clockOf(
  baseUrl: string,
  now: () => number,
  signal: AbortSignal,
): Promise<ClockReading | null> {
  const before = now();
  const { origin, pathname, search } = new URL(baseUrl);
  const pool = new Pool(origin);
  try {
    const answer = await pool
      .request({
        method: 'HEAD',
        path: `${pathname}${search}`,
        signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]),
      })
      .catch(() => null);
    // The service was reached a moment ago: that it does not answer this says nothing of clocks.
    if (answer === null) return null;
    await answer.body.dump();
    const theirs = Date.parse(String(answer.headers.date ?? ''));
    return Number.isNaN(theirs) ? null : { theirs, before, after: now() };
  } finally {
    await pool.destroy();
  }
}

/** How far ours is ahead, in milliseconds; the header has whole seconds, and travelled for a while. */
export function skewOf({ theirs, before, after }: ClockReading): number {
  if (before > theirs + 1_000) return before - theirs - 1_000;
  return after < theirs ? after - theirs : 0;
}

async function webhookChecks(
  { now, signal }: CommandContext,
  { dataDir, webhook }: Settings,
  clients: Clients,
): Promise<Check[]> {
  const { account, platform, mailbox } = clients;
  const about = account.name;
  const checks: Check[] = [];
  let own: StoredWebhook[] = [];
  const known = await attempt('webhook', about, checks, async () => {
    own = (await storedWebhooks(dataDir)).filter(
      ({ account: of, host }) => of === about && host === mailbox.host,
    );
    return well({ name: 'webhook', about, message: counted(own.length, 'webhook') });
  });
  if (!known) return checks;
  if (own.length === 0) {
    const at = { name: 'webhook', about, message: 'This archive created no webhook.' };
    if (webhook === null) return [skipped(at)];
    const remedy =
      '"mailkeep webhooks create --mailbox M" makes one; until then the schedule finds new mail.';
    return [warned({ ...at, remedy })];
  }
  if (platform === null) {
    const message = `${counted(own.length, 'webhook')}; only the platform surface reports whether they deliver.`;
    const remedy = 'Add accounts[].platform to the configuration.';
    return [skipped({ name: 'webhook', about, message, remedy })];
  }
  checks.pop();
  await attempt('webhook', about, checks, async () => {
    const findings = await watchDeliveries({
      account: about,
      orderId: await orderOf(clients),
      platform,
      own,
      // Only the archive's writer may keep the log.
      memory: { get: () => undefined, set: () => {} },
      now,
      signal,
    });
    for (const finding of findings) {
      const error = errorOf(finding);
      if (error !== null) checks.push(failed('webhook', finding.webhook.id, error));
    }
    const fine = findings.filter(({ state }) => state === 'well').length;
    const message = `${counted(fine, 'webhook')} of ${findings.length} active and not failing.`;
    return fine > 0
      ? well({ name: 'webhook', about, message })
      : skipped({ name: 'webhook', about, message });
  });
  return checks;
}
