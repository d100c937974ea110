/** Longer names are nobody's here, and too long for a folder. */
const MOST_CHARACTERS = 240;
const PLAIN = /^[a-z0-9-]+(?:\/[a-z0-9-]+)*$/;
/** A dot may be anywhere but in front: no part is `.` or `..`, or a hidden file. */
const DOTTED = /^[a-z0-9-][a-z0-9.-]*(?:\/[a-z0-9-][a-z0-9.-]*)*$/;

/** Returns whether a name could be one of ours: what servers list is anybody's. */
export function isObjectName(name: string): boolean {
  return name.length <= MOST_CHARACTERS && DOTTED.test(name);
}

/** Returns whether a name could be one of ours in a folder. Names with dots are left to files of others there. */
export function isFolderName(name: string): boolean {
  return name.length <= MOST_CHARACTERS && PLAIN.test(name);
}

/**
 * Refuses a name that is no object's, before it becomes part of a path or an address.
 *
 * @throws TypeError, because names are made by this program
 */
export function checkObjectName(name: string, isName: (name: string) => boolean): void {
  if (!isName(name)) throw new TypeError(`no name of an object: ${JSON.stringify(name)}`);
}
