// Moves the wall clock of the process that imports it ahead by LATER_MS.
const { now } = Date;
const later = Number(process.env.LATER_MS ?? 0);
Date.now = () => now() + later;
