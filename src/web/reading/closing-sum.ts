import type { Reader } from '../../engine/archive/reader.ts';
import { isImported } from '../../mail/imported.ts';
import { parseQuery } from '../../search/parse.ts';

/**
 * What the archive knows to be at the service, place by place: the closing sentence of a sync over all folders. `open`
 * counts places of stored messages, those that are held among them.
 */
export interface ClosingSum {
  readonly commit: number;
  readonly open: number;
  readonly held: number;
  readonly quarantined: number;
  readonly forgotten: number;
  /** Places that the service deleted. */
  readonly ended: number;
  /** Places of mail that came from files. */
  readonly imported: number;
}

/** Sums that are kept until the archive has another commit. */
export class ClosingSums {
  #known: ClosingSum | undefined;
  #past: { readonly commit: number; readonly sum: PastSum } | undefined;

  of({ catalog }: Pick<Reader, 'catalog'>): ClosingSum {
    const commit = catalog.reached().number;
    if (this.#known?.commit === commit) return this.#known;
    const sum = { open: 0, held: 0, quarantined: 0, forgotten: 0, ended: 0, imported: 0 };
    for (const folder of catalog.folders.all({ gone: true })) {
      const counts = catalog.folders.counts(folder.id);
      sum.ended += counts.ended;
      if (isImported(folder)) {
        sum.imported += counts.open;
        continue;
      }
      sum.open += counts.open;
      sum.held += counts.held;
      sum.quarantined += counts.quarantined;
      sum.forgotten += counts.forgotten;
    }
    this.#known = { commit, ...sum };
    return this.#known;
  }

  /** @param asOf milliseconds since the epoch */
  past({ catalog }: Pick<Reader, 'catalog'>, asOf: number, now: number): PastSum {
    const commit = catalog.reached().number;
    const known = this.#past;
    if (known?.commit === commit && known.sum.asOf === asOf) return known.sum;
    const count = (query: string): number =>
      catalog.countHits({ node: parseQuery(query, { now }).node, asOf });
    const sum = { asOf, messages: count('*'), ended: count('is:deleted') };
    this.#past = { commit, sum };
    return sum;
  }
}

/** How many messages the archive knew at a time, and how many of them were deleted at the service by then. */
export interface PastSum {
  readonly asOf: number;
  readonly messages: number;
  readonly ended: number;
}
