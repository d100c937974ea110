import type { SearchNode } from '../../search/ast.ts';
import type { ServedReader } from './served-archive.ts';

/** Returns the hosts of configured accounts by their names in lower case, for a query that names one. */
export type AccountsOf = (node: SearchNode) => ReadonlyMap<string, string>;

/**
 * Returns the accounts that a reader may name. The configuration names those of all mailboxes, so a reader that is limited
 * to some has none, and names its accounts by their hosts.
 */
export function accountsFor(
  { mailboxes }: Pick<ServedReader, 'mailboxes'>,
  accounts: AccountsOf,
  node: SearchNode,
): ReadonlyMap<string, string> {
  return mailboxes === null ? accounts(node) : new Map();
}
