/**
 * The catalog's version: how many migrations make it. A test holds it to the list in `migrations/`; readers
 * must not load that list to compare a number.
 */
export const CATALOG_VERSION = 5;

/** Catalogs of an older version are not migrated: their remedy is a rebuild. */
export const OLDEST_MIGRATED = 1;
