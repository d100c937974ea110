import { randomBytes } from 'node:crypto';
import { ARCHIVE_ID_BYTES, genesisHash } from '../archive/format.ts';
import { addAccount } from '../registry/accounts.ts';
import { fleetError } from '../registry/errors.ts';
import type { Registry } from '../registry/registry.ts';
import { type FleetKeys, sealSecret } from './secrets.ts';

export interface AddedAccount {
  readonly tenant: string;
  readonly name: string;
  /** As JSON, without a secret. */
  readonly settings: unknown;
  /** By their purposes. */
  readonly secrets: ReadonlyMap<string, string>;
}

/**
 * Adds an account with a new, empty log to a fleet, its secrets encrypted by the current key. Any worker may claim it from
 * then on.
 *
 * @param fleet the UUID of the fleet
 * @returns the number of its archive
 * @throws fleet-account-exists; the errors of the registry
 */
export async function addFleetAccount(
  registry: Registry,
  fleet: string,
  keys: FleetKeys,
  { tenant, name, settings, secrets }: AddedAccount,
): Promise<number> {
  const logId = randomBytes(ARCHIVE_ID_BYTES);
  const genesis = Buffer.from(genesisHash(logId), 'hex');
  const account = { tenant, name, logId, genesis, settings };
  const added = await addAccount(registry, account, (archive) =>
    [...secrets].map(([purpose, secret]) => sealSecret(keys, { fleet, archive, purpose }, secret)),
  );
  if (added.outcome === 'committed') return added.archive;
  throw fleetError('fleet-account-exists', { account: name, tenant });
}
