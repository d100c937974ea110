import type { Aim } from './ports.ts';

/** What runs by the clock, hints and probes want of a pass: new mail, and what shows without asking for everything. */
export const LOOK: Aim = { full: false, acceptEndings: false, folders: [] };
/** Every message and flag. */
export const SWEEP: Aim = { full: true, acceptEndings: false, folders: [] };
