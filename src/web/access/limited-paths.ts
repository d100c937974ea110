/**
 * What a sign-in that is limited to mailboxes may ask for: answers that come from a catalog of these mailboxes, or obey
 * `ServedReader.mailboxes`. Anything else is refused, so that a new page is before somebody decides what it shows.
 */
const PATHS: readonly RegExp[] = [
  /^\/(?:mail|dashboard|export|you|sign-out|you\/end)?$/,
  // Runs, verifications and retention are about all mailboxes.
  /^(?:\/api\/page)?\/health(?:\/(?:folders|quarantine|held))?$/,
  /^\/m\/[^/]+(?:\/html|\/source|\/attachments\/[^/]+)?$/,
  /^\/files(?:\/[0-9a-f]{64}\/preview)?$/,
  /^\/api\/page\/(?:mail|dashboard|export|files|m\/[^/]+)$/,
  /^\/api\/(?:session|sign-out|rows|position|counts|frame|message|complete|spine|moment|export|events)$/,
  /^\/api\/changes(?:\/next|\/previous)?$/,
];

/** @param path of an address, without its query */
export function mayBeAskedWithLimit(path: string): boolean {
  return PATHS.some((allowed) => allowed.test(path));
}
