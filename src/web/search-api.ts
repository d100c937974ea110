import { Completion } from './completion.ts';
import { deadline, listTimeline } from './mail-list.ts';
import type { MailPages } from './mail-pages.ts';
import {
  type ArchiveParts,
  byLimit,
  dataRoute,
  type Parameter,
  type WebApp,
  wholeNumber,
} from './request-context.ts';
import { canonicalZone, type ServedReader } from './served-archive.ts';

const MAX_COLUMNS = 1_000;
const COLUMNS = 600;
const CHANGES_MS = 150;

function momentOf(typed: ReturnType<Parameter>): number | undefined {
  if (typed === undefined) return undefined;
  const time = /^\d{1,14}$/.test(typed) ? Number(typed) : Date.parse(typed);
  return Number.isNaN(time) || time < 0 ? undefined : time;
}

const MAX_ROWS = 200;
const DEFAULT_ROWS = 100;
const SPINE_MS = 250;

export function searchRoutes(
  app: WebApp,
  parts: ArchiveParts,
  pages: (reader: ServedReader) => MailPages,
): void {
  const { accounts, now } = parts;
  const data = dataRoute(app, parts);
  data('/api/rows', (reader, parameter) =>
    pages(reader).rows(
      reader,
      parameter,
      Math.min(wholeNumber(parameter('limit')) || DEFAULT_ROWS, MAX_ROWS),
    ),
  );
  data('/api/position', (reader, parameter) => pages(reader).position(reader, parameter));
  data('/api/counts', (reader, parameter) => pages(reader).counts(reader, parameter));
  data('/api/frame', (reader, parameter) =>
    pages(reader).frame(reader, pages(reader).asked(reader, parameter)),
  );
  const completions = byLimit(() => new Completion());
  data('/api/complete', (reader, parameter) => {
    const query = parameter('q') ?? '';
    const caret = wholeNumber(parameter('at')) ?? query.length;
    const knownCount = (text: string) => pages(reader).knownCount(reader, text);
    return completions(reader).rows(reader, { query, caret, now: now(), accounts, knownCount });
  });
  data('/api/timeline', (reader, parameter) => {
    const { request, problem } = pages(reader).asked(reader, parameter);
    if (request === null) return { problem };
    const timeZone = canonicalZone(parameter('tz'));
    return { ...listTimeline(reader, request, timeZone, deadline(SPINE_MS)), problem };
  });
  data('/api/changes', ({ catalog }, parameter) => {
    const span = catalog.changes.span();
    if (span === undefined) return null;
    const from = momentOf(parameter('from')) ?? span.first;
    const to = Math.max(from, momentOf(parameter('to')) ?? Math.max(now(), span.last));
    const wanted = wholeNumber(parameter('columns')) ?? COLUMNS;
    const columns = Math.min(MAX_COLUMNS, Math.max(1, wanted));
    const found = catalog.changes.columns({ from, to, columns }, deadline(CHANGES_MS));
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
  data('/api/moment', (reader, parameter) => {
    const at = momentOf(parameter('at'));
    if (at === undefined) return null;
    const { catalog } = reader;
    return {
      at,
      /** The latest commit by then; null before the first. */
      inForce: catalog.commitAt(at),
      past: pages(reader).past(reader, at),
      since: catalog.changes.since(at),
      next: catalog.changes.next(at) ?? null,
      previous: catalog.changes.previous(at) ?? null,
    };
  });
}
