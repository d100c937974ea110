import { fencedBy, type Lease, type Outcome } from '../registry/outcome.ts';
import type { HeldArchive } from './held-archive.ts';

/**
 * Runs a transaction under the lease of an archive. If the lease got another epoch meanwhile, because an unknown outcome was
 * settled, it runs again. The archive is noted as lost only if another session holds it, or nobody.
 *
 * @throws outcome-unknown and the other errors of the registry
 */
export async function underLease<Done extends object>(
  held: HeldArchive,
  act: (lease: Lease) => Promise<Outcome<Done>>,
): Promise<Outcome<Done>> {
  for (;;) {
    const { lease } = held;
    const outcome = await act(lease);
    if (outcome.outcome === 'committed' || outcome.by !== 'lease') return outcome;
    const head = outcome.head ?? (await fencedBy(held.registry, lease, 'lease')).head;
    if (held.lease.epoch !== lease.epoch) continue;
    if (head !== undefined && head.holder !== held.session) held.lose('lease');
    return outcome;
  }
}
