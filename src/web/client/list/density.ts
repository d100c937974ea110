/** How much of a message a row shows: one line, two, or three with what was found. */
const DENSITIES = ['compact', 'standard', 'roomy'] as const;
export type Density = (typeof DENSITIES)[number];

/**
 * Returns how high rows are.
 *
 * @param hasWords whether the query has words, so that there is something found to show
 */
export function densityFor(chosen: Density | 'auto', hasWords: boolean): Density {
  return chosen === 'auto' ? (hasWords ? 'roomy' : 'standard') : chosen;
}

/** Returns the density that follows one. */
export function nextDensity(density: Density): Density {
  return DENSITIES[(DENSITIES.indexOf(density) + 1) % DENSITIES.length] ?? 'standard';
}
