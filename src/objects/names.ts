/** Longer names are nobody's here, and too long for a folder. */
const MOST_CHARACTERS = 240;
const NAME = /^[a-z0-9-]+(?:\/[a-z0-9-]+)*$/;

/** Returns whether a name could be one of ours: what servers and folders list is anybody's. */
export function isObjectName(name: string): boolean {
  return name.length <= MOST_CHARACTERS && NAME.test(name);
}

/**
 * Refuses a name that is no object's, before it becomes part of a path or an address.
 *
 * @throws TypeError, because names are made by this program
 */
export function checkObjectName(name: string): void {
  if (!isObjectName(name)) throw new TypeError(`no name of an object: ${JSON.stringify(name)}`);
}
