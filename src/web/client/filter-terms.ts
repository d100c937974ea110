import {
  findTerm,
  type Term,
  termsOf,
  withOther,
  withoutTerm,
  withTerm,
} from '../reading/query-terms.ts';

/** The filters that have a chip with a menu. */
export type Slot = 'in' | 'mailbox' | 'from' | 'since';

const OPERATORS: Readonly<Record<Slot, readonly string[]>> = {
  in: ['in'],
  mailbox: ['mailbox'],
  from: ['from'],
  since: ['after', 'newer_than'],
};

export const DELETED = ['shown', 'only', 'week', 'month', 'hidden'] as const;
export type Deleted = (typeof DELETED)[number];

/** Filters that are on or off. */
export const ATTACHMENT = 'has:attachment';
export const UNREAD = 'is:unread';
const DELETED_TERMS: Readonly<Record<Exclude<Deleted, 'shown'>, string>> = {
  only: 'is:deleted',
  week: 'deleted:7d..',
  month: 'deleted:30d..',
  hidden: '-is:deleted',
};

/** A query as chips. Words have none: they are read where they stand. */
export interface Chips {
  readonly slots: Readonly<Record<Slot, Term | undefined>>;
  readonly attachment: Term | undefined;
  readonly unread: Term | undefined;
  readonly deleted: Deleted;
  readonly asOf: Term | undefined;
  /** Each with its own chip. */
  readonly others: readonly Term[];
  /** A query that OR parts: all of it is one chip. */
  readonly either: string | null;
}

/** Returns the chips of what stands in the box, as far as that can be understood. */
export function chipsOf(query: string): Chips {
  const { terms, isEither } = termsOf(query);
  const either = isEither ? query.trim() : null;
  const known = isEither ? [] : terms;
  const slot = (name: Slot): Term | undefined => known.find((term) => fits(term, name));
  const slots = {
    in: slot('in'),
    mailbox: slot('mailbox'),
    from: slot('from'),
    since: slot('since'),
  };
  const attachment = findTerm(query, ATTACHMENT);
  const unread = findTerm(query, UNREAD);
  const [deleted, ofDeleted] = deletedIn(query) ?? ['shown' as const, undefined];
  const asOf = known.find(({ operator }) => operator === 'asof');
  const own = new Set(
    [...Object.values(slots), attachment, unread, ofDeleted, asOf].map((term) => term?.start),
  );
  return {
    slots,
    attachment,
    unread,
    deleted,
    asOf,
    others: known.filter((term) => !own.has(term.start) && hasChip(term)),
    either,
  };
}

function fits({ operator, value, negated }: Term, slot: Slot): boolean {
  return !negated && value !== null && operator !== null && OPERATORS[slot].includes(operator);
}

/** Words are no filters; brackets, NEAR and saved searches are. */
function hasChip({ operator, value, text }: Term): boolean {
  return operator !== null || value === null || /^-?@[\p{L}\p{N}][\p{L}\p{N}_-]*$/u.test(text);
}

/** Returns a query with another value of a filter, or without the filter. */
export function withSlot(query: string, slot: Slot, text: string | null): string {
  const term = chipsOf(query).slots[slot];
  if (term === undefined) return text === null ? query : withTerm(query, text);
  return text === null ? withoutTerm(query, term) : withOther(query, term, text);
}

/**
 * Returns a query for a folder or a mailbox of the side, which name both where an archive has several mailboxes.
 *
 * @param entry the query of the side's link; empty for everything
 */
export function withFolder(query: string, entry: string): string {
  const { slots } = chipsOf(entry);
  return (['mailbox', 'in'] as const).reduce(
    (changed, slot) => withSlot(changed, slot, slots[slot]?.text ?? null),
    query,
  );
}

/** Returns a query that finds what was deleted as well, only that, only what was deleted lately, or none of it. */
export function withDeleted(query: string, deleted: Deleted): string {
  const wanted = deleted === 'shown' ? null : DELETED_TERMS[deleted];
  const [, other] = deletedIn(query) ?? [];
  if (other === undefined) return wanted === null ? query : withTerm(query, wanted);
  return wanted === null ? withoutTerm(query, other) : withOther(query, other, wanted);
}

function deletedIn(query: string): readonly [Deleted, Term] | undefined {
  for (const deleted of DELETED) {
    const term = deleted === 'shown' ? undefined : findTerm(query, DELETED_TERMS[deleted]);
    if (term !== undefined) return [deleted, term];
  }
  return undefined;
}
