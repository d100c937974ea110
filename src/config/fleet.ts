import path from 'node:path';
import type { z } from 'zod';
import { configError } from '../errors/config.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { parseListen } from './address.ts';
import type { fleetSchema } from './fleet-schema.ts';
import type { Secret } from './secret.ts';
import { type TokenSource, tokenSource } from './settings.ts';
import { readToken } from './token.ts';

/** A machine's place in a fleet. Paths are absolute. */
export interface FleetSettings {
  /** The address, which may contain a password. */
  readonly registry: TokenSource;
  /** The same past any pooler. */
  readonly directRegistry: TokenSource;
  readonly store: {
    readonly bucket: string;
    /** May be empty. */
    readonly prefix: string;
    readonly endpoint: string | undefined;
    readonly region: string | undefined;
    readonly profile: string | undefined;
  };
  readonly keyFile: string;
  readonly node: string;
  /** Host and port, if other nodes can reach this one. */
  readonly address: string | undefined;
  /** Where it listens for them; undefined if it does not. */
  readonly listen: { readonly host: string; readonly port: number } | undefined;
  readonly egress: string;
  readonly capacity: number;
  readonly cache: string;
  /** Webhooks are registered at the service for the mailboxes that are held. */
  readonly createWebhooks: boolean;
}

/** Returns the settings of a validated section; relative paths are those of `folder`. */
export function fleetSettings(fleet: z.output<typeof fleetSchema>, folder: string): FleetSettings {
  const { registry, store, keyFile, node, address, egress = node, capacity, cache } = fleet;
  const { directRegistry, createWebhooks } = fleet;
  const listen = fleet.listen ?? address;
  const { bucket, prefix, endpoint, region, profile } = store;
  return {
    registry: tokenSource(registry, folder, 'fleet.registry'),
    directRegistry:
      directRegistry === undefined
        ? tokenSource(registry, folder, 'fleet.registry')
        : tokenSource(directRegistry, folder, 'fleet.directRegistry'),
    store: { bucket, prefix, endpoint, region, profile },
    keyFile: path.resolve(folder, keyFile),
    node,
    address,
    listen: listen === undefined ? undefined : parseListen(listen),
    egress,
    capacity,
    cache: path.resolve(folder, cache),
    createWebhooks,
  };
}

/**
 * Reads the address of the registry from where the configuration says it is.
 *
 * @throws registry-address-missing
 */
export async function readRegistryAddress(
  { registry }: Pick<FleetSettings, 'registry'>,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Secret> {
  try {
    return await readToken(registry, env);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    const { kind: source, name } = registry;
    const reason = typeof error.facts.reason === 'string' ? error.facts.reason : error.code;
    throw configError('registry-address-missing', { source, name, reason }, error);
  }
}

/** Whether the address itself has a password in it, so that the file must not be read by others. */
export function hasPassword(fleet: Pick<FleetSettings, 'registry' | 'directRegistry'>): boolean {
  return [fleet.registry, fleet.directRegistry].some((source) => {
    if (source.kind !== 'literal') return false;
    const text = source.secret.reveal();
    return URL.canParse(text) && new URL(text).password !== '';
  });
}
