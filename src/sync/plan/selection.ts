import { matches } from '../../mail/name-pattern.ts';

/** Which names a configuration selects, and to what a command line narrows it: `*` stands for any run of characters. */
export interface Selection {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** What a command asks for; undefined: everything that the configuration selects. */
  readonly only?: readonly string[];
}

/**
 * Returns whether some pattern of `include` fits the name, none of `exclude` does and, if there is `only`, some of it
 * does. Case matters, as in folder paths.
 */
export function selects({ include, exclude, only }: Selection, name: string): boolean {
  const fits = (pattern: string): boolean => matches(pattern, name);
  return include.some(fits) && !exclude.some(fits) && (only === undefined || only.some(fits));
}
