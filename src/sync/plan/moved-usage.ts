/** What a listing says that a mailbox holds; null where it does not say. */
export interface HeldAmounts {
  readonly bytes: number | null;
  readonly messages: number | null;
}

/**
 * True when a mailbox holds something other than at the listing before, and not what the last pass has seen there: then
 * a pass may find something new. It proves nothing, and neither does false.
 *
 * @param before undefined where there was no listing before
 * @param seen messages that the origin listed at the last pass over each folder
 */
export function hasMoved(
  before: HeldAmounts | undefined,
  now: HeldAmounts,
  seen: () => number,
): boolean {
  if (before === undefined) return false;
  if (before.bytes === now.bytes && before.messages === now.messages) return false;
  return now.messages === null || now.messages !== seen();
}
