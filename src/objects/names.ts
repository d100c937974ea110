/** Longer names are nobody's here, and too long for a folder. */
const MOST_CHARACTERS = 240;
const PLAIN = /^[a-z0-9-]+(?:\/[a-z0-9-]+)*$/;
/** A dot may be anywhere but in front: no part is `.` or `..`, or a hidden file. */
const DOTTED = /^[a-z0-9-][a-z0-9.-]*(?:\/[a-z0-9-][a-z0-9.-]*)*$/;

/** Returns whether an object of ours could be stored under a name. */
export function isObjectName(name: string): boolean {
  return name.length <= MOST_CHARACTERS && DOTTED.test(name);
}

/**
 * Returns whether a name could be one of ours in a folder, or in a list of a bucket. What has a dot in its name is left to
 * others there: what is listed and not known may be removed.
 */
export function isPlainName(name: string): boolean {
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
