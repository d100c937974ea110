import { hasCode, MailkeepError } from '../core/errors.ts';
import { condemn } from '../registry/collection.ts';
import { registryError } from '../registry/errors.ts';
import type { Lease, Outcome } from '../registry/outcome.ts';
import type { Registry } from '../registry/registry.ts';
import type { Uploaded } from '../registry/uploads.ts';
import type { HeldArchive } from './held-archive.ts';
import { underLease } from './under-lease.ts';

/**
 * Lets an object that was read back cover what it holds. An object that covers nothing afterwards is abandoned.
 *
 * @param cover runs the transaction, under whatever lease the archive has then
 * @throws outcome-unknown: `isCovering` says whether it happened, once the registry can be asked; the other errors of the
 *   registry
 */
export async function coverWith(
  held: HeldArchive,
  uploaded: Uploaded,
  cover: (lease: Lease) => Promise<Outcome>,
): Promise<Outcome> {
  const { registry } = held;
  let outcome: Outcome;
  try {
    outcome = await underLease(held, cover);
  } catch (error) {
    if (hasCode(error, 'outcome-unknown')) return await settled(registry, uploaded, error);
    await abandon(registry, uploaded.key);
    throw error;
  }
  if (outcome.outcome === 'fenced') await abandon(registry, uploaded.key);
  return outcome;
}

async function settled(registry: Registry, { key }: Uploaded, unknown: unknown): Promise<Outcome> {
  try {
    const isCovered = await isCovering(registry, key);
    return isCovered ? { outcome: 'committed' } : { outcome: 'fenced', by: 'object' };
  } catch (error) {
    if (error instanceof MailkeepError) throw unknown;
    throw error;
  }
}

/**
 * Settles whether an object covers anything, after a transaction whose outcome is unknown. An object that does not is
 * condemned, so that the transaction cannot happen any more, however late it arrives.
 *
 * @throws outcome-unknown, and the other errors of the registry: it is not settled
 */
export async function isCovering(registry: Registry, key: string): Promise<boolean> {
  const condemned = await condemn(registry, key);
  if (condemned.outcome === 'committed') return false;
  if (condemned.object !== undefined) return condemned.object === 'live';
  // Nothing was written, but the registry could not be asked why.
  throw registryError('registry-unreachable', { registry: registry.label, reason: 'no answer' });
}

/**
 * Leaves an upload to the collector, which finds it sooner than by its age. If the registry cannot be asked, its age has to
 * do.
 */
export async function abandon(registry: Registry, key: string): Promise<void> {
  try {
    await condemn(registry, key);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
  }
}
