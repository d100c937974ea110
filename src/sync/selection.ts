import { openCatalogReader } from '../catalog/catalog.ts';
import type { AccountSettings, Settings } from '../core/config-schema.ts';
import { usageError } from '../core/error-tables.ts';
import { describeError, didYouMean, type MailkeepError } from '../core/errors.ts';
import {
  isInbox,
  matches,
  nearest,
  nearestAddress,
  nearestFolder,
  type Selection,
  selects,
  specialUseByName,
} from '../core/names.ts';
import { readState } from '../core/state.ts';
import { syncError } from './errors.ts';
import type { SyncContext } from './ports.ts';
import type { SyncResult, UnmatchedPattern } from './result.ts';
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
  const chosen = accounts.filter((account) => account.name === name);
  if (chosen.length === 0) {
    const names = accounts.map((account) => account.name);
    const suggestion = nearest(name, names);
    throw usageError('usage-unknown-account', { account: name, known: names, suggestion });
  }
  return chosen;
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

/** Names that a source lists, and how many of them the configuration selects. */
interface Listed {
  readonly names: readonly string[];
  readonly selected: number;
}

/** Returns the patterns under `include` that match no name. */
function unmatchedPatterns(
  { name, ...selections }: Pick<MailSelection, 'mailboxes' | 'folders'> & { readonly name: string },
  setting: UnmatchedPattern['setting'],
  names: readonly string[],
): UnmatchedPattern[] {
  const near = setting === 'folders' ? nearest : nearestAddress;
  return selections[setting].include
    .filter((pattern) => !names.some((one) => matches(pattern, one)))
    .map((pattern) => ({ account: name, setting, pattern, suggestion: near(pattern, names) }));
}

function nothingSelected(
  account: string,
  setting: UnmatchedPattern['setting'],
  listed: number,
  unmatched: readonly UnmatchedPattern[],
): MailkeepError {
  const patterns = unmatched.map(({ pattern }) => pattern);
  const suggestion = unmatched[0]?.suggestion ?? null;
  return syncError('sync.nothing-selected', { account, setting, listed, patterns, suggestion });
}

/** Reports what the configuration names in vain. It is a failure if that leaves nothing to mirror. */
export function reportUnmatched(
  { account, ledger }: Pick<SyncContext, 'account' | 'ledger'>,
  setting: UnmatchedPattern['setting'],
  { mailboxes, folders }: MailSelection,
  { names, selected }: Listed,
  at: { readonly mailbox?: string } = {},
): void {
  if (names.length === 0) return;
  const unmatched = unmatchedPatterns({ name: account, mailboxes, folders }, setting, names);
  if (selected > 0) ledger.unmatched.push(...unmatched);
  else ledger.fail(nothingSelected(account, setting, names.length, unmatched), at);
}

/** Returns what `reportUnmatched` would report, for `doctor`. */
export function selectionWarnings(
  account: Pick<MailSelection, 'mailboxes' | 'folders'> & { readonly name: string },
  setting: UnmatchedPattern['setting'],
  names: readonly string[],
): { readonly message: string; readonly remedy: string }[] {
  if (names.length === 0) return [];
  const unmatched = unmatchedPatterns(account, setting, names);
  if (names.some((name) => selects(account[setting], name))) {
    const remedy = 'Correct the pattern, or remove it.';
    return unmatched.map((one) => ({ message: unmatchedText(one), remedy }));
  }
  const error = nothingSelected(account.name, setting, names.length, unmatched);
  const { message, hint } = describeError(error);
  return [{ message, remedy: hint ?? '' }];
}

export function unmatchedText({ account, setting, pattern, suggestion }: UnmatchedPattern): string {
  return `Nothing matches "${pattern}" (${setting}.include of account ${account}). ${didYouMean(suggestion)}`.trimEnd();
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
