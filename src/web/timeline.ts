import type { Reader } from '../catalog/open-reader.ts';
import type { SearchNode } from '../catalog/query-ast.ts';
import type { CountRequest } from '../catalog/search.ts';
import type { Spine, SpineBar } from '../catalog/timeline.ts';
import { receivedAfter } from './mail-list.ts';

/** A bar of the list's spine. In the past, one may have no messages, but some that came since. */
export interface ListBar extends SpineBar {
  /** Received since the moment that the query names: as many as the query finds today. */
  readonly later?: number;
}

export interface ListSpine extends Omit<Spine, 'bars'> {
  readonly bars: readonly ListBar[];
}

/** Counts what a query finds by time; as of a moment also what it finds today that was received since. */
export function listSpine(
  { catalog }: Pick<Reader, 'catalog'>,
  request: CountRequest,
  timeZone: string | undefined,
  mayContinue: () => boolean,
): ListSpine {
  const { asOf, node, ...rest } = request;
  if (asOf === undefined) return catalog.spine({ ...request, timeZone }, mayContinue);
  return catalog.snapshot(() => {
    const since: SearchNode = { kind: 'and', nodes: [node, receivedAfter(asOf)], span: node.span };
    const today = { ...rest, node: since, timeZone };
    const later = catalog.spine(today, mayContinue);
    const until = later.bars.at(-1)?.to;
    const then = catalog.spine({ ...request, timeZone, until }, mayContinue);
    if (until === undefined) return then;
    const unit = then.bars.length === 0 ? later.unit : then.unit;
    const { bars } = unit === later.unit ? later : catalog.spine({ ...today, unit }, mayContinue);
    return { ...then, unit, bars: joined(then.bars, bars) };
  });
}

/** Bars of one unit of time, in its order. One may have messages of then, and some that came since. */
function joined(then: readonly SpineBar[], later: readonly SpineBar[]): ListBar[] {
  const bars = new Map<string, ListBar>(then.map((bar) => [bar.key, bar]));
  for (const { messages, ...bar } of later) {
    const known = bars.get(bar.key) ?? { ...bar, messages: 0, ended: 0 };
    bars.set(bar.key, { ...known, later: messages });
  }
  return [...bars.values()].sort((a, b) => a.from - b.from);
}
