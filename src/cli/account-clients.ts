import type { ApiAccount, Settings, TokenSource } from '../core/config-schema.ts';
import {
  describeError,
  type ExitCode,
  exitCodeFor,
  hasCode,
  MailkeepError,
} from '../core/errors.ts';
import { nearestAddress } from '../core/names.ts';
import { Limiter } from '../core/pace.ts';
import { readToken } from '../core/secrets.ts';
import { readState, type StateFile } from '../core/state.ts';
import { terminalLine, terminalSafe, visibleJson } from '../core/terminal-safe.ts';
import { imapError } from '../imap/errors.ts';
import { type OriginAnswer, OriginRefusal } from '../service/errors.ts';
import type { AccountRecord } from '../service/mailbox-wire.ts';
import type { CallOptions, RetryPolicy } from '../service/surface-client.ts';
import { type AccountClients, openClients } from '../sync/account-origins.ts';
import { chooseAccounts } from '../sync/selection.ts';
import type { CommandContext } from './context.ts';
import { operationError } from './errors.ts';
import { waitingText } from './progress.ts';
import { printError } from './warnings.ts';

/** Returns the service refusal that caused an error, or null if the service did not respond. */
function refusalIn(error: unknown): OriginRefusal | null {
  if (error instanceof OriginRefusal) return error;
  return error instanceof MailkeepError && error.cause instanceof OriginRefusal
    ? error.cause
    : null;
}

/**
 * Errors whose hints do not apply to an operation run by the user. Their hints refer to the next sync, or guess at
 * something that the service's response states.
 */
const NO_HINT: ReadonlySet<string> = new Set([
  'origin.status',
  'origin.mailbox-not-found',
  'origin.rate-limited',
  'origin.timeout',
  'origin.cut-short',
]);

function hintForUser({ code }: MailkeepError, hint: string | null): string | null {
  if (code === 'origin.unreachable')
    return 'Check the network, and the address in the configuration.';
  return NO_HINT.has(code) ? null : hint;
}

/** Returns the service's own error text, both as JSON and as terminal lines. Masks any tokens it echoes. */
function formatRefusal(
  { status, facts }: OriginRefusal,
  answer: OriginAnswer,
  secrets: ReadonlySet<string>,
): { readonly json: object; readonly lines: string[] } {
  const { code, message, params, errors, correlationId: id } = answer;
  const details = { ...params, ...errors, ...(id === null ? {} : { correlation_id: id }) };
  const json = String(facts.operation).startsWith('platform.')
    ? { status, message, errors, correlation_id: id }
    : { status, error: message, code, params };
  const mask = (text: string): string =>
    [...secrets].reduce((masked, secret) => masked.replaceAll(secret, '***'), text);
  return {
    json: JSON.parse(JSON.stringify(json), (_key, part: unknown) =>
      typeof part === 'string' ? mask(part) : part,
    ),
    lines: [
      ...(message === '' ? [] : [`The service says: ${terminalSafe(mask(message)).trim()}`]),
      ...Object.entries(details).map(
        ([name, value]) => `  ${terminalLine(mask(name))}: ${mask(visibleJson(value))}`,
      ),
    ],
  };
}

/** An account's API clients, for operations run by the user. */
export interface Clients extends AccountClients {
  readonly account: ApiAccount;
  /** Returns the scope of the Mailbox API token. Sends at most one request. */
  reach(): Promise<AccountRecord>;
  readonly options: CallOptions;
}

/** Long enough to ride out brief failures. A rate limit on test deliveries is reported rather than waited out. */
export const SHORT_RETRIES = { budgetMs: 5_000 };

/** Returns the limiter's learned rates, or undefined if the state is damaged. */
function readLearnedRates(state: StateFile | undefined, key: string): unknown {
  try {
    return state?.get('limiter', key);
  } catch (error) {
    if (!hasCode(error, 'catalog-damaged')) throw error;
    return undefined;
  }
}

/**
 * Runs a command with an account's clients, then closes them. Also prints the text of any refusal, because it is not
 * logged. Starts from the rates that syncs have learned, but does not store new ones: only the archive's writer may
 * change the state.
 */
export async function withClients(
  context: CommandContext,
  settings: Settings,
  account: ApiAccount,
  retries: Partial<RetryPolicy>,
  act: (clients: Clients) => Promise<ExitCode>,
): Promise<ExitCode> {
  const { notices, environment, now, signal, globals } = context;
  const state = readState(settings.dataDir);
  const limiter = new Limiter({
    policy: settings.rateLimit,
    store: { load: (key) => readLearnedRates(state, key), save: () => {} },
    onWait: ({ host, until, reason }) =>
      notices.say(`${host}: ${waitingText({ account: account.name, until, reason }, now())}`),
  });
  const secrets = new Set<string>();
  const token = async (source: TokenSource): Promise<string> => {
    const secret = (await readToken(source, environment.env)).reveal();
    secrets.add(secret);
    return secret;
  };
  const clients = openClients(account, { limiter, token, retries });
  const { mailbox, platform } = clients;
  const options = { signal };
  let record: Promise<AccountRecord> | undefined;
  const reach = () => {
    record ??= mailbox.getCurrentAccount(options);
    return record;
  };
  try {
    return await act({ ...clients, account, reach, options });
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    const refusal = refusalIn(error);
    const report = describeError(error);
    printError(notices.stream, globals.json, {
      ...report,
      hint: hintForUser(error, report.hint),
      ...(refusal === null || refusal.answer === null
        ? {}
        : { answer: formatRefusal(refusal, refusal.answer, secrets) }),
    });
    return exitCodeFor(error);
  } finally {
    await Promise.all([mailbox.close(), platform?.close()]);
    state?.close();
  }
}

export async function withEachClients(
  context: CommandContext,
  settings: Settings,
  accounts: readonly ApiAccount[],
  retries: Partial<RetryPolicy>,
  act: (clients: Clients) => Promise<ExitCode>,
): Promise<ExitCode[]> {
  const codes: ExitCode[] = [];
  for (const account of accounts) {
    codes.push(await withClients(context, settings, account, retries, act));
  }
  return codes;
}

/**
 * Returns the account selected with `--account`, or all accounts that have an API.
 * @throws usage-unknown-account; imap.no-api if there is none
 */
export function chooseApiAccounts(
  settings: Settings,
  name: string | undefined,
): readonly ApiAccount[] {
  const chosen = chooseAccounts(settings, name);
  const accounts = chosen.filter((account) => account.kind === 'api');
  const [first] = chosen;
  if (accounts.length > 0 || first === undefined) return accounts;
  throw imapError('imap.no-api', { account: first.name });
}

/**
 * Returns the account selected with `--account`, or the only configured account that has an API.
 * @throws usage-unknown-account, operation-needs-account, imap.no-api
 */
export function chooseAccount(settings: Settings, name: string | undefined): ApiAccount {
  const [account, ...others] = chooseApiAccounts(settings, name);
  if (account === undefined || others.length > 0) {
    const known = chooseApiAccounts(settings, undefined).map((each) => each.name);
    throw operationError('operation-needs-account', { known });
  }
  return account;
}

/** Returns the configured order, or the mailbox token's order by default. */
export async function orderOf({ account, reach }: Clients): Promise<string> {
  return account.platform?.orderId ?? (await reach()).orderResourceId ?? '';
}

export interface NamedMailbox {
  readonly resourceId: string;
  readonly address: string;
}

/**
 * Finds a mailbox by address or resource id, within the scope of the Mailbox API token.
 * @throws operation-mailbox-unknown
 */
export async function findNamedMailbox(clients: Clients, name: string): Promise<NamedMailbox> {
  const { mailboxes } = await clients.reach();
  const found = matchMailbox(mailboxes, name);
  if (found !== undefined) return { resourceId: found.resourceId, address: found.address };
  const addresses = mailboxes.map((mailbox) => mailbox.address);
  throw operationError('operation-mailbox-unknown', {
    address: name,
    account: clients.account.name,
    known: addresses,
    suggestion: nearestAddress(name, addresses),
  });
}

export function matchMailbox<M extends NamedMailbox>(
  mailboxes: readonly M[],
  name: string,
): M | undefined {
  const address = name.toLowerCase();
  return mailboxes.find(
    (mailbox) => mailbox.resourceId === name || mailbox.address.toLowerCase() === address,
  );
}
