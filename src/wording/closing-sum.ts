import { count, counted } from './amounts.ts';

/** Messages of one or more folders by what the archive has of them, counted once per folder. */
export interface ClosingSums {
  readonly stored: number;
  readonly assumed: number;
  readonly quarantined: number;
  readonly held: number;
  readonly forgotten: number;
}

const TERMS = [
  ['stored', 'stored'],
  ['assumed', 'not yet verified'],
  ['quarantined', 'incomplete'],
  ['forgotten', 'forgotten'],
] as const;

/** One side of the equation, and whether it equals the other. */
export interface Equation {
  readonly atService: number;
  readonly terms: readonly {
    readonly kind: (typeof TERMS)[number][0];
    readonly count: number;
    readonly text: string;
  }[];
  readonly isEqual: boolean;
  /** In the archive, and in no term: the service no longer shows these messages. */
  readonly pending: number;
}

/**
 * The equation that every surface shows: at the service = stored + not yet verified + incomplete + forgotten. Pending
 * deletions are apart, because the service does not count them.
 *
 * @param atService what the service counts; what it should count when left out
 */
export function closingEquation(sums: ClosingSums, atService?: number): Equation {
  const accounted = TERMS.reduce((sum, [kind]) => sum + sums[kind], 0);
  return {
    atService: atService ?? accounted,
    terms: TERMS.filter(([kind]) => kind === 'stored' || sums[kind] > 0).map(([kind, text]) => ({
      kind,
      count: sums[kind],
      text,
    })),
    isEqual: atService === undefined || atService === accounted,
    pending: sums.held,
  };
}

/** Returns the equation as text, such as `815 messages at the service = 814 stored + 1 incomplete; 110 pending deletions`. */
export function closingText(sums: ClosingSums, atService?: number): string {
  const { atService: total, terms, isEqual, pending } = closingEquation(sums, atService);
  const parts = terms.map((term) => `${count(term.count)} ${term.text}`).join(' + ');
  const apart = pending > 0 ? `; ${pendingText(pending)}` : '';
  return `${counted(total, 'message')} at the service ${isEqual ? '=' : '≠'} ${parts}${apart}`;
}

export function pendingText(pending: number): string {
  return counted(pending, 'pending deletion');
}
