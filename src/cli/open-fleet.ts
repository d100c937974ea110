import { type FleetConfig, loadFleetConfig, readRegistryAddress } from '../core/config.ts';
import { configPaths, locateConfig } from '../core/config-locate.ts';
import { configError } from '../core/error-tables.ts';
import { targetLabel } from '../core/s3-target.ts';
import { fleetError } from '../fleet/errors.ts';
import { type ListedAccount, listAccounts } from '../fleet/overview.ts';
import { openRegistry, type Registry } from '../fleet/postgres.ts';
import { type RegistryTarget, registryTarget } from '../fleet/postgres-target.ts';
import { type FleetRow, requireFleet } from '../fleet/schema.ts';
import type { CommandContext } from './context.ts';
import type { AccountOption } from './option-values.ts';

/** @throws config-not-found, config-unreadable, config-not-json, config-invalid */
export function fleetConfigOf({ globals, environment, report }: CommandContext): FleetConfig {
  const file = locateConfig(globals.config, environment);
  if (file === undefined) {
    throw configError('config-not-found', { searched: configPaths(environment) });
  }
  report({ event: 'config-located', file });
  const config = loadFleetConfig(file);
  for (const warning of config.warnings) report({ event: 'config-warning', warning });
  return config;
}

export async function registryOf(
  { environment: { env } }: CommandContext,
  registry: FleetConfig['fleet']['registry'],
): Promise<RegistryTarget> {
  const address = await readRegistryAddress({ registry }, env);
  return registryTarget(address.reveal(), env);
}

/** Connects to the registry for as long as `act` takes. Its tables are not looked at. */
export async function withRegistry<T>(
  context: CommandContext,
  { fleet }: FleetConfig,
  act: (registry: Registry) => Promise<T>,
): Promise<T> {
  const registry = await openRegistry(await registryOf(context, fleet.registry));
  try {
    return await act(registry);
  } finally {
    await registry.close();
  }
}

export interface OpenFleet {
  readonly config: FleetConfig;
  readonly registry: Registry;
  readonly fleet: FleetRow;
}

export async function withFleet<T>(
  context: CommandContext,
  act: (open: OpenFleet) => Promise<T>,
): Promise<T> {
  const config = fleetConfigOf(context);
  return withRegistry(context, config, async (registry) => {
    const fleet = await requireFleet(registry);
    refuseOtherStore(registry, fleet, targetLabel(config.fleet.store));
    return act({ config, registry, fleet });
  });
}

export function refuseOtherStore(
  registry: Registry,
  { bucket: found }: FleetRow,
  wanted: string,
): void {
  if (found === wanted) return;
  throw fleetError('fleet-store-other', { registry: registry.label, found, wanted });
}

/** Tenants that can have an account of one name. */
const MAX_NAMESAKES = 1_000;

/**
 * Returns the account that a command names.
 *
 * @param orRemoved also an account that was removed
 * @throws fleet-account-unknown, fleet-account-ambiguous
 */
export async function accountNamed(
  registry: Registry,
  { account: name, tenant }: AccountOption,
  orRemoved = false,
): Promise<ListedAccount> {
  const named = await listAccounts(registry, { tenant, name }, MAX_NAMESAKES);
  const found = named.filter(({ state }) => orRemoved || state !== 'removed');
  const [first] = found;
  if (first === undefined) {
    throw fleetError('fleet-account-unknown', { account: name, tenant: tenant ?? null });
  }
  if (found.length === 1) return first;
  const tenants = found.map((one) => one.tenant);
  throw fleetError('fleet-account-ambiguous', { account: name, tenants });
}
