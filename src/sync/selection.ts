import { openCatalogReader } from '../catalog/catalog.ts';
import type { AccountSettings, Settings } from '../core/config-schema.ts';
import { usageError } from '../core/error-tables.ts';
import {
  isInbox,
  nearest,
  nearestAddress,
  nearestFolder,
  type Selection,
  selects,
  specialUseByName,
} from '../core/names.ts';
import { readState } from '../core/state.ts';
import type { SyncResult } from './result.ts';
import type { MailSelection } from './sync-memory.ts';
import { listedMailboxes } from './sync-memory.ts';

/** Restrictions from the command line. Empty lists impose none. */
export interface SyncRestrictions {
  readonly account: string | undefined;
  readonly mailboxes: readonly string[];
  readonly folders: readonly string[];
}

/** @throws usage-unknown-account */
export function chooseAccounts(
  { accounts }: Settings,
  name: string | undefined,
): readonly AccountSettings[] {
  if (name === undefined) return accounts;
  const matches = accounts.filter((account) => account.name === name);
  if (matches.length === 0) {
    const names = accounts.map((account) => account.name);
    const suggestion = nearest(name, names);
    throw usageError('usage-unknown-account', { account: name, known: names, suggestion });
  }
  return matches;
}

/**
 * Returns each account's selection, narrowed by `--mailbox` and `--folder`.
 *
 * @throws usage-option for a name not included in any chosen account's configuration
 */
export function selectMail(
  accounts: readonly AccountSettings[],
  { mailboxes, folders }: SyncRestrictions,
): (account: AccountSettings) => MailSelection {
  const byAddress = narrow(
    accounts.map((account) => account.mailboxes),
    mailboxes,
    '--mailbox',
    () => false,
  );
  const byPath = narrow(
    accounts.map((account) => account.folders),
    folders,
    '--folder',
    // The account's folders are unknown until a mailbox is listed.
    (name) => isInbox(name) || specialUseByName(name) !== undefined,
  );
  return (account) => ({
    mailboxes: byAddress(account.mailboxes),
    folders: byPath(account.folders),
    whole: { mailboxes: mailboxes.length === 0, folders: folders.length === 0 },
  });
}

function narrow(
  selections: readonly Selection[],
  names: readonly string[],
  option: string,
  mayStandFor: (name: string) => boolean,
): (selection: Selection) => Selection {
  const unknown = names.find(
    (name) =>
      !name.includes('*') &&
      !mayStandFor(name) &&
      !selections.some((selection) => selects(selection, name)),
  );
  if (unknown !== undefined) {
    throw usageError('usage-option', { option, found: unknown, expected: 'configured-name' });
  }
  return (selection) => (names.length === 0 ? selection : { ...selection, only: names });
}

/**
 * Refuses names that do not exist at the service, because the sync run would otherwise appear successful.
 *
 * @param dataDir the archive, for suggestions
 * @throws usage-unreachable-mailbox, usage-unlisted-folder
 */
export function refuseUnknownNames(
  command: SyncRestrictions,
  { mailboxes, certificates, failures }: SyncResult,
  dataDir: string,
): void {
  if (failures.length > 0) return;
  const [mailbox] = command.mailboxes;
  if (mailbox !== undefined && mailboxes.length === 0) {
    const addresses = reachedAddresses(dataDir, command.account);
    const suggestion = nearestAddress(mailbox, addresses);
    throw usageError('usage-unreachable-mailbox', { mailbox, known: addresses, suggestion });
  }
  const [folder] = command.folders;
  if (folder !== undefined && certificates.length === 0) {
    const suggestion = nearestFolder(folder, knownFolders(dataDir));
    throw usageError('usage-unlisted-folder', { folder, suggestion });
  }
}

function reachedAddresses(dataDir: string, account: string | undefined): string[] {
  const state = readState(dataDir);
  try {
    return listedMailboxes(state)
      .filter((listed) => account === undefined || listed.account === account)
      .map(({ address }) => address);
  } finally {
    state?.close();
  }
}

function knownFolders(dataDir: string) {
  const catalog = openCatalogReader(dataDir);
  try {
    return catalog.folders.all().map(({ folder, name }) => ({ path: folder, name }));
  } finally {
    catalog.close();
  }
}
