import { matches } from '../../mail/name-pattern.ts';

/** The names that a configuration selects, and a command line narrows: `*` matches any run of characters. */
export interface Selection {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** The names that a command asks for; undefined for everything that the configuration selects. */
  readonly only?: readonly string[];
}

/**
 * Returns whether a pattern of `include` matches the name, none of `exclude` does and, if `only` is present, one of its
 * patterns does. Case matters, as in folder paths.
 */
export function selects({ include, exclude, only }: Selection, name: string): boolean {
  const fits = (pattern: string): boolean => matches(pattern, name);
  return include.some(fits) && !exclude.some(fits) && (only === undefined || only.some(fits));
}
