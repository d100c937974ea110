/**
 * What the names in a Maildir say (cr.yp.to/proto/maildir.html, and Maildir++ for folders).
 */

/** Info letters, in the order in which names carry them, with the flag that each stands for. */
const LETTERS: readonly (readonly [letter: string, flag: string])[] = [
  ['D', '\\Draft'],
  ['F', '\\Flagged'],
  ['P', '$forwarded'],
  ['R', '\\Answered'],
  ['S', '\\Seen'],
  ['T', '\\Deleted'],
];

/**
 * Returns the flags in the info part of a name, in the order of its letters.
 *
 * @param keywords what small letters stand for in this Maildir
 */
export function flagsFromName(
  name: string,
  keywords: ReadonlyMap<string, string> = new Map(),
): string[] {
  const letters = new Set(/[:;!]2,([A-Za-z]*)$/.exec(name)?.[1]);
  return [...letters].flatMap(
    (letter) => LETTERS.find(([known]) => known === letter)?.[1] ?? keywords.get(letter) ?? [],
  );
}

/** The info letters of a set of flags, sorted; keywords have none. Flags are compared without regard to case. */
export function lettersOf(flags: readonly string[]): string {
  const set = new Set(flags.map((flag) => flag.toLowerCase()));
  return LETTERS.filter(([, flag]) => set.has(flag.toLowerCase()))
    .map(([letter]) => letter)
    .join('');
}

/** The part of a name that stays when a message is marked. */
export function uniquePart(name: string): string {
  return name.replace(/[:;!]2,[A-Za-z]*$/, '');
}

/** The seconds a Maildir name begins with, in milliseconds; NaN for a name of another make. */
export function receivedFromName(name: string): number {
  const seconds = /^(\d{9,10})\./.exec(name)?.[1];
  return seconds === undefined ? Number.NaN : Number(seconds) * 1000;
}

/** Modified UTF-7 (RFC 3501, 5.1.3), in which Maildir++ names folders; a name that is none stays as it is. */
export function decodeModifiedUtf7(name: string): string {
  return name.replace(/&([A-Za-z0-9+,]*)-/g, (whole, encoded: string) => {
    if (encoded === '') return '&';
    const bytes = Buffer.from(encoded.replaceAll(',', '/'), 'base64');
    if (bytes.length === 0 || bytes.length % 2 !== 0) return whole;
    return bytes.swap16().toString('utf16le');
  });
}

/** The reverse: printable ASCII stays, but for `&`. */
export function encodeModifiedUtf7(text: string): string {
  return text.replace(/&|[^\x20-\x7e]+/g, (run) => {
    if (run === '&') return '&-';
    const bytes = Buffer.from(run, 'utf16le').swap16();
    return `&${bytes.toString('base64').replace(/=+$/, '').replaceAll('/', ',')}-`;
  });
}
