import { type FleetConfig, loadFleetConfig, readRegistryAddress } from '../core/config.ts';
import { configPaths, locateConfig } from '../core/config-locate.ts';
import { configError } from '../core/error-tables.ts';
import { targetLabel } from '../core/s3-target.ts';
import { fleetError } from '../shards/errors.ts';
import { openRegistry, type Registry } from '../shards/postgres.ts';
import { type RegistryTarget, registryTarget } from '../shards/postgres-target.ts';
import { type FleetRow, requireFleet } from '../shards/schema.ts';
import type { CommandContext } from './context.ts';

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
