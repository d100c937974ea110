/**
 * Returns the positions of the matching sources; null if time ran out before all were read, since a partial answer
 * would be wrong.
 *
 * @param read reads the source at a position; null for one that never matches
 * @param isOver returns whether time has run out
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
