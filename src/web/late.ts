/** From this age on a comparison is late: a day, and the time that a nightly run may take. */
export const LATE_HOURS = 26;
export const LATE_MS = LATE_HOURS * 3_600_000;
