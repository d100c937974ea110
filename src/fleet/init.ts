import { randomUUID } from 'node:crypto';
import { ZSTD_FORMAT } from '../archive/recovery.ts';
import { CATALOG_VERSION } from '../catalog/database.ts';
import type { UploadingStore } from '../copies/object-store.ts';
import { hasCode } from '../core/errors.ts';
import { type Fleet, initFleet } from '../registry/fleet.ts';
import { keyUses, readFleet } from '../registry/overview.ts';
import type { Registry } from '../registry/registry.ts';
import { checkSchema, migrateRegistry } from '../registry/schema.ts';
import { fleetKeyError } from './errors.ts';
import { makeKeyFile, readFleetKeys } from './key-file.ts';
import { refuseOtherStore } from './own-fleet.ts';
import type { FleetKeys } from './secrets.ts';
import { type TriedStore, tryStore } from './try-store.ts';

export interface InitOptions {
  readonly registry: Registry;
  readonly store: UploadingStore;
  readonly keyFile: string;
  /** Accepts a bucket that keeps versions. */
  readonly allowVersions: boolean;
  readonly signal: AbortSignal;
}

export interface Initialised {
  readonly fleet: Fleet;
  /** Whether there was none before. */
  readonly isNew: boolean;
  /** Steps of the tables that were carried out. */
  readonly steps: readonly string[];
  readonly store: TriedStore;
  /** The name of the key that encrypts, and whether it was made now. */
  readonly key: { readonly name: string; readonly isNew: boolean };
}

/**
 * Makes a fleet: tables, the fleet itself and the file with its keys, and tries the store. What is there stays as it is, so
 * that it can be called again: after an interruption, on each node, and to bring the tables to the newest step.
 *
 * @throws fleet-store-other if the registry is that of a fleet with another store; fleet-keys-elsewhere; what `tryStore`
 *   throws; the errors of the registry and of the file of keys
 */
export async function initialise(options: InitOptions): Promise<Initialised> {
  const { registry, store, keyFile, allowVersions, signal } = options;
  const given = keysOf(keyFile);
  const steps = await migrateRegistry(registry);
  await checkSchema(registry);
  const before = await readFleet(registry);
  if (before !== undefined) refuseOtherStore(registry, before, store.label);
  await refuseForeignKeys(registry, keyFile, given);
  const tried = await tryStore(store, allowVersions, signal);
  const id = randomUUID();
  const made = { id, bucket: store.label, archiveFormat: ZSTD_FORMAT };
  const fleet = await initFleet(registry, { ...made, catalogVersion: CATALOG_VERSION });
  // Somebody else may have been faster.
  refuseOtherStore(registry, fleet, store.label);
  const keys = given ?? madeKeys(keyFile);
  return {
    ...{ fleet, isNew: fleet.id === id, steps, store: tried },
    key: { name: keys.current, isNew: given === undefined },
  };
}

/** Returns the keys in a file; undefined if there is no file. */
function keysOf(file: string): FleetKeys | undefined {
  try {
    return readFleetKeys(file);
  } catch (error) {
    if (hasCode(error, 'fleet-key-file-unreadable') && error.facts.reason === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
}

function madeKeys(file: string): FleetKeys {
  try {
    return makeKeyFile(file);
  } catch (error) {
    const isThere = hasCode(error, 'fleet-key-file-unwritable') && error.facts.reason === 'EEXIST';
    // Another process made it meanwhile.
    if (isThere) return readFleetKeys(file);
    throw error;
  }
}

/** A second file of keys next to that of the fleet's other nodes would let neither read what the other has encrypted. */
async function refuseForeignKeys(
  registry: Registry,
  file: string,
  keys: FleetKeys | undefined,
): Promise<void> {
  const used = (await keyUses(registry)).map(({ keyId }) => keyId);
  const keyIds = used.filter((name) => keys?.key(name) === undefined);
  if (keyIds.length === 0) return;
  throw fleetKeyError('fleet-keys-elsewhere', { file, found: keys !== undefined, keyIds });
}
