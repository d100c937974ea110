import { Completion } from '../reading/completion/completion.ts';
import { knownZone } from '../reading/known-zone.ts';
import { within } from '../reading/mail-list.ts';
import type { ServedReader } from '../reading/served-archive.ts';
import { listSpine } from '../reading/spine.ts';
import { byLimit } from './by-limit.ts';
import { changesRoutes } from './changes-api.ts';
import { dataRoute } from './data-route.ts';
import type { MailPages } from './mail-pages.ts';
import type { ArchiveParts, WebApp } from './request-context.ts';

/** Rows that a list asks for at a time, at most. */
const MOST_ROWS = 200;
/** For the bars of a spine, in milliseconds. */
const SPINE_MS = 250;

/** Data of the archive for a page that is open already. All of it comes from the catalog. */
export function searchRoutes(
  app: WebApp,
  parts: ArchiveParts,
  pages: (reader: ServedReader) => MailPages,
): void {
  const { accounts, now } = parts;
  const data = dataRoute(app, parts);
  data('/api/rows', (reader, parameter) =>
    pages(reader).rows(reader, parameter, limitOf(parameter('limit'))),
  );
  data('/api/position', (reader, parameter) => pages(reader).position(reader, parameter));
  data('/api/counts', (reader, parameter) => pages(reader).counts(reader, parameter));
  data('/api/frame', (reader, parameter) => pages(reader).frameOf(reader, parameter));
  const completions = byLimit(() => new Completion());
  data('/api/complete', (reader, parameter) => {
    const query = parameter('q') ?? '';
    const at = Number(parameter('at') ?? query.length);
    const caret = Number.isSafeInteger(at) ? at : query.length;
    const knownCount = (text: string) => pages(reader).knownCount(text);
    return completions(reader).rows(reader, { query, caret, now: now(), accounts, knownCount });
  });
  data('/api/spine', (reader, parameter) => {
    const { request, problem } = pages(reader).understand(reader, parameter('q') ?? '');
    if (request === null) return { problem };
    const timeZone = knownZone(parameter('tz'));
    return { ...listSpine(reader, request, timeZone, within(SPINE_MS)), problem };
  });
  changesRoutes(data, now, pages);
}

function limitOf(typed: string | undefined): number {
  const limit = Number(typed ?? '100');
  return Number.isSafeInteger(limit) && limit > 0 ? Math.min(limit, MOST_ROWS) : 100;
}
