import type { PastSum } from '../reading/closing-sum.ts';
import { within } from '../reading/mail-list.ts';
import type { ServedReader } from '../reading/served-archive.ts';
import type { AddData } from './data-route.ts';
import type { MailPages } from './mail-pages.ts';
import type { Parameter } from './request-context.ts';

/** Columns of a track that are counted at a time, at most. */
const MOST_COLUMNS = 1_000;
const COLUMNS = 600;
/** For all columns of a track, in milliseconds. */
const CHANGES_MS = 150;

/** What the band of time travel shows: when something changed, and how the archive was. */
export function changesRoutes(data: AddData, now: () => number, pages: PagesOf): void {
  data('/api/changes', ({ catalog }, parameter) => {
    const span = catalog.changes.span();
    if (span === undefined) return null;
    const from = momentOf(parameter('from')) ?? span.first;
    const to = Math.max(from, momentOf(parameter('to')) ?? Math.max(now(), span.last));
    const wanted = Number(parameter('columns') ?? COLUMNS);
    const columns = Number.isSafeInteger(wanted)
      ? Math.min(MOST_COLUMNS, Math.max(1, wanted))
      : COLUMNS;
    const found = catalog.changes.columns({ from, to, columns }, within(CHANGES_MS));
    return { ...span, from, to, ...found };
  });
  data('/api/changes/next', ({ catalog }, parameter) => {
    const than = momentOf(parameter('than'));
    return than === undefined ? null : (catalog.changes.next(than) ?? null);
  });
  data('/api/changes/previous', ({ catalog }, parameter) => {
    const than = momentOf(parameter('than')) ?? now();
    return catalog.changes.previous(than) ?? null;
  });
  data('/api/moment', (reader, parameter): Moment | null => {
    const at = momentOf(parameter('at'));
    if (at === undefined) return null;
    const { catalog } = reader;
    return {
      at,
      inForce: catalog.commitAt(at),
      past: pages(reader).past(reader, at),
      since: catalog.changes.since(at),
      next: catalog.changes.next(at) ?? null,
      previous: catalog.changes.previous(at) ?? null,
    };
  });
}

type PagesOf = (reader: ServedReader) => MailPages;
type Changes = ServedReader['catalog']['changes'];

/** How the archive was at a moment. */
interface Moment {
  /** Milliseconds since the epoch, like all times here. */
  readonly at: number;
  /** The commit in force; null before the first. */
  readonly inForce: { readonly number: number; readonly time: number } | null;
  readonly past: PastSum;
  /** Places that came and ended after it. */
  readonly since: ReturnType<Changes['since']>;
  readonly next: ReturnType<Changes['next']> | null;
  readonly previous: ReturnType<Changes['previous']> | null;
}

/** A moment as ISO 8601, or milliseconds since the epoch; undefined for what is neither. */
function momentOf(typed: ReturnType<Parameter>): number | undefined {
  if (typed === undefined) return undefined;
  const time = /^\d{1,14}$/.test(typed) ? Number(typed) : Date.parse(typed);
  return Number.isNaN(time) || time < 0 ? undefined : time;
}
