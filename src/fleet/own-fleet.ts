import { fleetError } from '../registry/errors.ts';
import type { Fleet } from '../registry/fleet.ts';
import { readFleet } from '../registry/overview.ts';
import type { Registry } from '../registry/registry.ts';
import { checkSchema } from '../registry/schema.ts';

/**
 * Returns the fleet of a registry, if this program may work in it.
 *
 * @param store where the configuration says that its objects are
 * @throws fleet-missing, fleet-store-other, registry-schema-newer, registry-schema-older, registry-program-old
 */
export async function ownFleet(registry: Registry, store: string): Promise<Fleet> {
  await checkSchema(registry);
  const fleet = await readFleet(registry);
  if (fleet === undefined) throw fleetError('fleet-missing', { registry: registry.label });
  refuseOtherStore(registry, fleet, store);
  return fleet;
}

/**
 * Refuses a configuration whose objects are elsewhere than those of the registry's fleet.
 *
 * @param wanted the store, as people know it
 * @throws fleet-store-other
 */
export function refuseOtherStore(
  { label }: Pick<Registry, 'label'>,
  { bucket: found }: Pick<Fleet, 'bucket'>,
  wanted: string,
): void {
  if (found !== wanted) {
    throw fleetError('fleet-store-other', { registry: label, found, wanted });
  }
}
