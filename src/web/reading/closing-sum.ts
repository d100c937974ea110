import type { Reader } from '../../engine/archive/reader.ts';
import { isImported } from '../../mail/import-host.ts';
import type { MailboxKey } from '../../mail/words.ts';
import { localMoment, wallTime } from '../../search/dates.ts';
import { parseQuery } from '../../search/parse.ts';
import { closingEquation, type Equation } from '../../wording/closing-sum.ts';
import { dayText, observedTerm } from './dashboard/periods.ts';
import { within } from './mail-list.ts';
import { storedAfterText } from './since-then.ts';

/**
 * What the archive knows to be at the service, counted once per folder: the closing sentence of a sync over all folders.
 * `open` counts stored, assumed and held messages together.
 */
export interface ClosingSum {
  readonly commit: number;
  /** When that commit was written, milliseconds since the epoch; null before the first. */
  readonly writtenAt: number | null;
  readonly open: number;
  readonly stored: number;
  /** Bound by the service's fingerprint to bytes that are here, and not compared yet. */
  readonly assumed: number;
  readonly held: number;
  readonly quarantined: number;
  readonly forgotten: number;
  /** Places that the service deleted. */
  readonly ended: number;
  /** Places of mail that came from files. */
  readonly imported: number;
  readonly equation: Equation;
}

/** What the folders hold, at whatever commit. */
export type FolderSums = Omit<ClosingSum, 'commit' | 'writtenAt' | 'equation'>;

/** For each number of the past, in milliseconds. */
const PAST_MS = 200;

/** Returns the sum of some folders. */
export function closingOf(
  { folders }: Pick<Reader['catalog'], 'folders'>,
  counts: (folder: MailboxKey) => boolean,
): FolderSums {
  const sum = {
    open: 0,
    stored: 0,
    assumed: 0,
    held: 0,
    quarantined: 0,
    forgotten: 0,
    ended: 0,
    imported: 0,
  };
  for (const folder of folders.all({ gone: true })) {
    if (!counts(folder)) continue;
    const own = folders.counts(folder.id);
    sum.ended += own.ended;
    if (isImported(folder)) {
      sum.imported += own.open;
      continue;
    }
    sum.open += own.open;
    sum.stored += own.open - own.assumed - own.held;
    sum.assumed += own.assumed;
    sum.held += own.held;
    sum.quarantined += own.quarantined;
    sum.forgotten += own.forgotten;
  }
  return sum;
}

/** Sums that are kept until the archive has another commit. */
export class ClosingSums {
  #known: { readonly version: number; readonly sum: ClosingSum } | undefined;
  #past: { readonly version: number; readonly sum: PastSum } | undefined;

  of({ catalog }: Pick<Reader, 'catalog'>): ClosingSum {
    const version = catalog.version();
    if (this.#known?.version === version) return this.#known.sum;
    const sums = closingOf(catalog, () => true);
    const sum = {
      commit: catalog.reached().number,
      writtenAt: catalog.changes.span()?.last ?? null,
      ...sums,
      equation: closingEquation(sums),
    };
    this.#known = { version, sum };
    return sum;
  }

  /** @param asOf milliseconds since the epoch */
  past({ catalog }: Pick<Reader, 'catalog'>, asOf: number, now: number): PastSum {
    const version = catalog.version();
    const known = this.#past;
    if (known?.version === version && known.sum.asOf === asOf) return known.sum;
    const count = (query: string): number | null => {
      const request = { node: parseQuery(query, { now }).node, asOf };
      const found = catalog.countHitsWhile(request, within(PAST_MS));
      return found.complete ? found.count : null;
    };
    const sum = {
      ...{ asOf, messages: count('*'), ended: count('is:deleted') },
      later: counted(catalog, storedAfterText(asOf), now),
      day: dayOf(catalog, asOf, now),
    };
    const { messages, ended, later, day } = sum;
    if (messages !== null && ended !== null && later !== null && day !== null)
      this.#past = { version, sum };
    return sum;
  }
}

/**
 * How many messages the archive knew at a time, how many of them were deleted at the service by then, and what was
 * stored since; null where there was no time to count them.
 */
export interface PastSum {
  readonly asOf: number;
  readonly messages: number | null;
  readonly ended: number | null;
  /** Messages that were stored since. */
  readonly later: CountedToday | null;
  readonly day: ChangesOfDay | null;
}

/** Messages as a query counts them today, whatever moment is shown. */
interface CountedToday {
  readonly count: number;
  readonly query: string;
}

/** What the archive saw come and go on the day of a moment, in the zone of this machine. */
interface ChangesOfDay {
  /** Such as `24 Nov 2026`. */
  readonly name: string;
  readonly stored: CountedToday;
  readonly deleted: CountedToday;
}

function dayOf(catalog: Reader['catalog'], asOf: number, now: number): PastSum['day'] {
  const { year, month, day } = wallTime(asOf);
  const period = {
    from: localMoment({ year, month, day }),
    to: localMoment({ year, month, day: day + 1 }),
  };
  const stored = counted(catalog, observedTerm('added', period), now);
  const deleted = counted(catalog, observedTerm('deleted', period), now);
  if (stored === null || deleted === null) return null;
  return { name: dayText(asOf, undefined), stored, deleted };
}

function counted(catalog: Reader['catalog'], query: string, now: number): CountedToday | null {
  const { node } = parseQuery(query, { now });
  const { count, complete } = catalog.countHitsWhile({ node }, within(PAST_MS));
  return complete ? { count, query } : null;
}
