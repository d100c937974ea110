import {
  count,
  fields,
  flag,
  list,
  nullable,
  number,
  oneOf,
  otherwise,
  type Read,
  text,
} from './shape.ts';

/** What is known of a copy of the archive. Times are milliseconds since the epoch. */
export interface KnownCopy {
  /** The last time that it was brought up to date, and the commit that it reached; null before the first. */
  readonly made: {
    readonly at: number;
    readonly commit: number;
    /** Or a folder that anybody can read. */
    readonly encrypted: boolean;
  } | null;
  /** What the daemon's configuration wants of it; null where it has no such copy. */
  readonly plan: CopyPlanned | null;
  /** Why it could not be brought up to date since; null once it was. */
  readonly failed: CopyFailed | null;
  /** The last time that some of it, or all, was read back; null while it never was. */
  readonly checked: CopyChecked | null;
  /** What was found damaged, until all of it is found intact. */
  readonly damage: CopyDamage | null;
  /**
   * What was found damaged or missing of the objects that open, describe and lead to it, until a later look finds all of
   * them intact.
   */
  readonly unkept?: Omit<CopyDamage, 'names'> | null;
}

export interface CopyDamage {
  readonly since: number;
  readonly found: number;
  readonly text: string;
  /** Objects that the next copy uploads again. */
  readonly names?: readonly string[];
}

export interface CopyPlanned {
  /** The longest time between two copies, if nothing fails. */
  readonly everyMs: number;
  /** Since when the configuration has it. */
  readonly since: number;
  /** When it was last found to lack nothing, though its time had come; 0 while it never was. */
  readonly currentAt: number;
}

export interface CopyFailed {
  readonly since: number;
  readonly at: number;
  /** How often in a row. */
  readonly tries: number;
  readonly code: string;
  /** One sentence for people. */
  readonly text: string;
}

const UNITS = ['segment', 'object'] as const;

export interface CopyChecked {
  readonly at: number;
  /** How many of how many were read; objects where this machine cannot open the copy. */
  readonly checked: number;
  readonly of: number;
  readonly unit: (typeof UNITS)[number];
  readonly found: number;
  /** When all of it was last read; null while it never was. */
  readonly fullAt: number | null;
}

export const NOTHING_KNOWN: KnownCopy = {
  made: null,
  plan: null,
  failed: null,
  checked: null,
  damage: null,
  unkept: null,
};

export const knownCopy: Read<KnownCopy> = fields({
  made: nullable(fields({ at: number, commit: count, encrypted: flag })),
  plan: nullable(fields({ everyMs: number, since: number, currentAt: number })),
  failed: nullable(fields({ since: number, at: number, tries: count, code: text, text })),
  checked: nullable(
    fields({
      ...{ at: number, checked: count, of: count, unit: oneOf(UNITS), found: count },
      fullAt: nullable(number),
    }),
  ),
  damage: nullable(fields({ since: number, found: count, text, names: otherwise(list(text), []) })),
  unkept: otherwise(nullable(fields({ since: number, found: count, text })), null),
});
