/**
 * Returns which of some sources match, by their positions; null where the time was over before all were read: a part of
 * the answer is none.
 *
 * @param read reads the source at a position; null for one that does not match, whatever is asked
 * @param isOver returns whether the time is over
 */
export function matchingSources(
  count: number,
  read: (position: number) => Buffer | null,
  test: (source: Buffer) => boolean,
  isOver: () => boolean,
): number[] | null {
  const positions: number[] = [];
  for (let position = 0; position < count; position += 1) {
    if (isOver()) return null;
    const source = read(position);
    if (source !== null && test(source)) positions.push(position);
  }
  return isOver() ? null : positions;
}
