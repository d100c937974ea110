import type { ExportPlan } from './plan.ts';
import type { Expected, SourceReader } from './source.ts';

/** What a group has at most, besides its last place: small messages are then read many at a time. */
const GROUP_BYTES = 1 << 20;
const GROUP_PLACES = 200;

type Placed = ReturnType<ExportPlan['places']> extends Generator<infer P> ? P : never;

/** Yields places in their order; a reader that wants to know has heard a group earlier which sources it will be asked for. */
export function* readingAhead(
  places: Iterable<Placed>,
  { expect }: Pick<SourceReader, 'expect'>,
): Generator<Placed, void, undefined> {
  if (expect === undefined) {
    yield* places;
    return;
  }
  let before: readonly Placed[] = [];
  for (const group of groupsOf(places)) {
    expect(group.flatMap(dueOf));
    yield* before;
    before = group;
  }
  yield* before;
}

function* groupsOf(places: Iterable<Placed>): Generator<readonly Placed[], void, undefined> {
  let group: Placed[] = [];
  let bytes = 0;
  for (const place of places) {
    group.push(place);
    for (const { size } of dueOf(place)) bytes += size;
    if (bytes < GROUP_BYTES && group.length < GROUP_PLACES) continue;
    yield group;
    group = [];
    bytes = 0;
  }
  if (group.length > 0) yield group;
}

function dueOf({ outcome, place }: Placed): Expected[] {
  if (outcome !== 'due' || place === null) return [];
  const { id, size } = place.line;
  return [{ id, size }];
}
