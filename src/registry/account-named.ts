import { fleetError } from './errors.ts';
import { type ListedAccount, listAccounts } from './overview.ts';
import type { Registry } from './registry.ts';

/** Names of tenants in an error. */
const MOST_TENANTS = 20;

/**
 * Returns the account of a name.
 *
 * @param tenant needed only if several have one of that name
 * @throws fleet-account-unknown, fleet-account-ambiguous
 */
export async function accountOf(
  registry: Registry,
  name: string,
  tenant: string | undefined,
): Promise<ListedAccount> {
  const found = await listAccounts(registry, { name, tenant }, MOST_TENANTS);
  const [account] = found;
  if (account === undefined) {
    throw fleetError('fleet-account-unknown', { account: name, tenant: tenant ?? null });
  }
  if (found.length === 1) return account;
  throw fleetError('fleet-account-ambiguous', {
    account: name,
    tenants: found.map((one) => one.tenant),
  });
}
