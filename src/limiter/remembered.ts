/*
 * Reads what was remembered between runs, by hand: reading commands load this with the state's scopes, and the schema
 * library would be a third of their script.
 */

/** Returns a field of a value, or undefined where the value is no object. */
export function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

/** Returns the fields of these names, or null where one is no number of 0 or more. */
export function readAmounts<Name extends string>(
  value: unknown,
  names: readonly Name[],
): Readonly<Record<Name, number>> | null {
  const fields = names.map((name) => [name, fieldOf(value, name)] as const);
  if (!fields.every(([, field]) => isNumber(field) && field >= 0)) return null;
  // Each name was read, and what was read is a number.
  return Object.fromEntries(fields) as Record<Name, number>;
}

/** Returns a number above 0, null for null, and undefined for anything else. */
export function readRate(value: unknown): number | null | undefined {
  return value === null || (isNumber(value) && value > 0) ? value : undefined;
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}
