import type { MailboxClient } from '../../api/mailbox-client.ts';
import type { PlatformClient } from '../../api/platform-client.ts';
import type { RetryPolicy } from '../../api/retries.ts';
import type { CallOptions } from '../../api/surface-client.ts';
import type { AccountSettings, Settings, TokenSource } from '../../config/settings.ts';
import { readToken } from '../../config/token.ts';
import { openClients } from '../../engine/origins/clients.ts';
import { type ExitCode, exitOf } from '../../errors/exit-codes.ts';
import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';
import { operationError } from '../../errors/operation.ts';
import { usageError } from '../../errors/usage.ts';
import { Limiter } from '../../limiter/limiter.ts';
import { nearest } from '../../names/nearest.ts';
import { readState, type StateFile } from '../../state/state-file.ts';
import type { AccountRecord } from '../../wire/mailbox-records.ts';
import { sentenceOf } from '../../wording/sentence-of.ts';
import type { CommandContext } from '../context.ts';
import { waitingText } from '../progress/progress-text.ts';
import { tell } from '../tell.ts';
import { answeredWords, hintByHand, refusalIn } from './service-words.ts';

/** Both surfaces of one account, for commands that call operations by hand. */
export interface Clients {
  readonly account: AccountSettings;
  readonly mailbox: MailboxClient;
  /** Null where the configuration has no token for the platform surface. */
  readonly platform: PlatformClient | null;
  /** What the token of the mailbox surface reaches; asked at most once. */
  reach(): Promise<AccountRecord>;
  readonly options: CallOptions;
}

/** What the limiter learned. A damaged state has nothing of it: then it is learned again, as without a state. */
function learned(state: StateFile | undefined, key: string): unknown {
  try {
    return state?.get('limiter', key);
  } catch (error) {
    if (!hasCode(error, 'catalog-damaged')) throw error;
    return undefined;
  }
}

/**
 * Runs a command with the clients of an account, and lets go of them. When the service says no, its own words
 * are told beside the sentence: here a person asked, and nothing is logged.
 *
 * What the limiter learned in syncs is minded; what it learns here is not kept, since only the archive's writer
 * may write there.
 */
export async function withClients(
  context: CommandContext,
  settings: Settings,
  account: AccountSettings,
  act: (clients: Clients) => Promise<ExitCode>,
  retries: Partial<RetryPolicy> = {},
): Promise<ExitCode> {
  const { notices, surroundings, now, signal, globals } = context;
  const state = readState(settings.dataDir);
  const limiter = new Limiter({
    policy: settings.rateLimit,
    store: { load: (key) => learned(state, key), save: () => {} },
    onWait: ({ host, until, reason }) =>
      notices.say(`${host}: ${waitingText({ account: account.name, until, reason }, now())}`),
  });
  const secrets = new Set<string>();
  const token = async (source: TokenSource): Promise<string> => {
    const secret = (await readToken(source, surroundings.env)).reveal();
    secrets.add(secret);
    return secret;
  };
  const { mailbox, platform } = openClients(account, { limiter, token, retries });
  let reached: Promise<AccountRecord> | undefined;
  const options = { signal };
  try {
    const reach = () => {
      reached ??= mailbox.getCurrentAccount(options);
      return reached;
    };
    return await act({ account, mailbox, platform, reach, options });
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    const refusal = refusalIn(error);
    const said = sentenceOf(error);
    tell(notices.stream, globals.json, {
      ...said,
      hint: hintByHand(error, said.hint),
      ...(refusal === null || refusal.answer === null
        ? {}
        : { answer: answeredWords(refusal, refusal.answer, secrets) }),
    });
    return exitOf(error);
  } finally {
    await Promise.all([mailbox.close(), platform?.close()]);
    state?.close();
  }
}

/**
 * The account that `--account` names, or the only one.
 *
 * @throws usage-unknown-account, operation-needs-account
 */
export function oneAccount({ accounts }: Settings, name: string | undefined): AccountSettings {
  const known = accounts.map((account) => account.name);
  const [first, ...others] =
    name === undefined ? accounts : accounts.filter((account) => account.name === name);
  if (first === undefined)
    throw usageError('usage-unknown-account', {
      account: name ?? '',
      known,
      suggestion: nearest(name ?? '', known),
    });
  if (others.length > 0) throw operationError('operation-needs-account', { known });
  return first;
}
