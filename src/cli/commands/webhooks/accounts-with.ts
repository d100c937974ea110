import type { AccountSettings, Settings } from '../../../config/settings.ts';
import { chosenAccounts } from '../../../engine/pass/selection.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { operationError } from '../../../errors/operations.ts';
import { nearestAddress } from '../../../names/nearest.ts';
import {
  type Clients,
  mailboxCalled,
  SHORT_PATIENCE,
  withEachClients,
} from '../../account-clients.ts';
import type { CommandContext } from '../../context.ts';

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
