/** Longer than the name of any zone. */
const MOST_ZONE = 64;

/**
 * Returns a zone that there is, under the name that it has; undefined, this machine's, for any other. Formats are kept
 * for each name, so that spellings of one zone must not count as many.
 */
export function knownZone(typed: string | undefined): string | undefined {
  if (typed === undefined || typed.length > MOST_ZONE) return undefined;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: typed }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}
