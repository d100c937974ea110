import { homedir } from 'node:os';
import { type FleetConfig, loadFleetConfig, readRegistryAddress } from '../../../core/config.ts';
import { configPaths, locateConfig } from '../../../core/config-locate.ts';
import { configError } from '../../../core/error-tables.ts';
import { type S3Target, targetLabel } from '../../../core/s3-target.ts';
import { ownFleet } from '../../../fleet/own-fleet.ts';
import type { Fleet } from '../../../registry/fleet.ts';
import { openRegistry, type Registry } from '../../../registry/registry.ts';
import { registryTarget } from '../../../registry/target.ts';
import type { CommandContext } from '../../context.ts';

/**
 * Returns the configuration of this node, and reports what should be mended in it.
 *
 * @throws config-not-found, config-unreadable, config-not-json, config-invalid
 */
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

/**
 * Connects to the registry for as long as `act` takes. Its tables are not looked at.
 *
 * @throws registry-address-missing; what `registryTarget` and `openRegistry` throw
 */
export async function withRegistry<T>(
  { environment: { env } }: CommandContext,
  { fleet }: FleetConfig,
  act: (registry: Registry) => Promise<T>,
): Promise<T> {
  const address = await readRegistryAddress(fleet, env);
  const registry = await openRegistry(registryTarget(address.reveal(), env));
  try {
    return await act(registry);
  } finally {
    await registry.close();
  }
}

/** A fleet, and this node's place in it. */
export interface OpenFleet {
  readonly config: FleetConfig;
  readonly registry: Registry;
  readonly fleet: Fleet;
}

/**
 * Opens the fleet of the configuration for as long as `act` takes. The bucket is not asked.
 *
 * @throws what `fleetConfigOf`, `withRegistry` and `ownFleet` throw
 */
export async function withFleet<T>(
  context: CommandContext,
  act: (open: OpenFleet) => Promise<T>,
): Promise<T> {
  const config = fleetConfigOf(context);
  return withRegistry(context, config, async (registry) => {
    const fleet = await ownFleet(registry, targetLabel(config.fleet.store));
    return act({ config, registry, fleet });
  });
}

/**
 * Returns how the fleet's bucket is reached: what the configuration leaves out is taken from the environment and from the
 * files of Amazon's tools, as for copies.
 *
 * @throws store-no-credentials, store-setting-invalid
 */
export async function storeTarget(
  { environment: { env } }: CommandContext,
  { fleet }: FleetConfig,
): Promise<S3Target> {
  const { resolveS3 } = await import('../../../copies/s3-settings.ts');
  const { bucket, prefix, endpoint, region, profile } = fleet.store;
  const home = env.HOME ?? homedir();
  return resolveS3({ kind: 's3', bucket, prefix }, { env, home, endpoint, region, profile });
}
