import type { FlagSet } from '../mail/words.ts';

/** Bits of `flag_sets.marks` and `places.marks`: the flags that queries ask for, whatever the spelling of their case. */
export const MARK = {
  seen: 1,
  flagged: 2,
  answered: 4,
  draft: 8,
  deleted: 16,
  forwarded: 32,
} as const;

const BITS: Readonly<Record<string, number>> = {
  '\\seen': MARK.seen,
  '\\flagged': MARK.flagged,
  '\\answered': MARK.answered,
  '\\draft': MARK.draft,
  '\\deleted': MARK.deleted,
  '\\forwarded': MARK.forwarded,
  $forwarded: MARK.forwarded,
};

/** The marks of a flag set; flags without a bit count for nothing here. */
export function flagMarks(flags: FlagSet): number {
  return flags.reduce((marks, flag) => marks | (BITS[flag.toLowerCase()] ?? 0), 0);
}
