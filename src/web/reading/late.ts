/** From this age on a comparison is late: a day, and the time that a nightly run may take. Milliseconds. */
export const LATE_MS = 26 * 3_600_000;
