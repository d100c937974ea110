import type { AccountSettings, Settings } from '../config/settings.ts';
import { usageError } from '../errors/usage.ts';
import type { Wanted } from '../sync/apply/survey.ts';
import { type Selection, selects } from '../sync/plan/selection.ts';
import type { SyncResult } from '../sync/result.ts';

/** What the command line narrows a pass to; empty lists narrow nothing. */
export interface Narrowing {
  readonly account: string | undefined;
  readonly mailboxes: readonly string[];
  readonly folders: readonly string[];
}

/** @throws usage-unknown-account */
export function chosenAccounts(
  { accounts }: Settings,
  name: string | undefined,
): readonly AccountSettings[] {
  if (name === undefined) return accounts;
  const chosen = accounts.filter((account) => account.name === name);
  if (chosen.length === 0) {
    const known = accounts.map((account) => account.name);
    throw usageError('usage-unknown-account', { account: name, known });
  }
  return chosen;
}

/**
 * `--mailbox` and `--folder` narrow what the configuration includes.
 *
 * @throws usage-option for a name that the configuration of no chosen account includes
 */
export function wantedOf(
  accounts: readonly AccountSettings[],
  { mailboxes, folders }: Narrowing,
): (account: AccountSettings) => Wanted {
  const byAddress = narrowed(
    accounts.map((account) => account.mailboxes),
    mailboxes,
    '--mailbox',
  );
  const byPath = narrowed(
    accounts.map((account) => account.folders),
    folders,
    '--folder',
  );
  return (account) => ({
    mailboxes: byAddress(account.mailboxes),
    folders: byPath(account.folders),
    whole: { mailboxes: mailboxes.length === 0, folders: folders.length === 0 },
  });
}

function narrowed(
  selections: readonly Selection[],
  names: readonly string[],
  option: string,
): (selection: Selection) => Selection {
  const meant = (selection: Selection) => (name: string) =>
    name.includes('*') || selects(selection, name);
  const leftOut = names.find((name) => !selections.some((selection) => meant(selection)(name)));
  if (leftOut !== undefined) {
    throw usageError('usage-option', {
      option,
      found: leftOut,
      expected: 'a name that the configuration does not leave out',
    });
  }
  return (selection) =>
    names.length === 0
      ? selection
      : { include: names.filter(meant(selection)), exclude: selection.exclude };
}

/** A name that nothing at the service has would otherwise look like a pass that found all well. */
export function mindNames(
  command: Narrowing,
  { mailboxes, certificates, failures }: SyncResult,
): void {
  if (failures.length > 0) return;
  const [mailbox] = command.mailboxes;
  if (mailbox !== undefined && mailboxes.length === 0) {
    const expected = 'the address of a mailbox that the token reaches';
    throw usageError('usage-option', { option: '--mailbox', found: mailbox, expected });
  }
  const [folder] = command.folders;
  if (folder !== undefined && certificates.length === 0) {
    const expected = 'the path of a folder that the service lists';
    throw usageError('usage-option', { option: '--folder', found: folder, expected });
  }
}
