import { readdirSync } from 'node:fs';
import path from 'node:path';
import { logFolder, parseSegmentName } from '../archive/format.ts';
import type { Years } from '../catalog/breakdowns.ts';
import type { QuarterCounts, TypeBytes } from '../catalog/charts.ts';
import { catalogFile } from '../catalog/database.ts';
import { directoryBytes, fileBytes } from '../catalog/disk-samples.ts';
import type { KnownMailbox } from '../catalog/folders.ts';
import { localMoment, offsetAt, wallTime } from '../catalog/query-dates.ts';
import type { ChartFilter, ReceivedCounts } from '../catalog/sums.ts';
import { mailboxKey, placeKey, readState, type StateFile } from '../core/state.ts';
import { parseRequestKey, utcDayBefore } from '../core/state-runs.ts';
import { consistencyEquation } from '../core/text.ts';
import { docidAt, receivedAt } from '../mail/docid.ts';
import { isImported } from '../mail/identity.ts';
import { type FolderProof, folderProofs, mailboxTotals } from '../verify/archive-status.ts';
import { knownDamageOfLog, recallVerification } from '../verify/verification.ts';
import {
  asOfTerm,
  boundsOf,
  dateTerm,
  lastHours,
  observedTerm,
  type Period,
  type Periods,
  type ProofState,
  periodsOf,
  RANGES,
  type Range,
  type StoredBytes,
} from './dashboard-data.ts';
import { type FolderTotals, sumAtService } from './issues.ts';
import { type MailPages, statusOf } from './mail-pages.ts';
import { filterText } from './query-text.ts';
import type { ArchiveParts, Parameter } from './request-context.ts';
import { canonicalZone, machineZone, type ServedReader } from './served-archive.ts';
import { parseQueryText } from './understood-query.ts';

const MAX_SERIES = 4;
const MAX_ROWS = 7;
const MAX_PEOPLE = 8;
const MAX_ENTRIES = 8;
const HOURS = 48;
/** Maximum folders whose proofs are shown, starting with the least recently compared. */
const MAX_PROOFS = 2_000;
const HOUR_MS = 3_600_000;
const WEEK_MS = 7 * 24 * HOUR_MS;
/** Maximum age for a verification to count as recent: a day plus the time that one takes. */
const RECENT_MS = 26 * HOUR_MS;

interface DashboardView {
  /** Null lets each chart choose a suitable range. */
  readonly range: Range | null;
  /** IANA name; undefined for this machine's zone. */
  readonly zone: string | undefined;
  /** Zone in which queries are read, if it is not this machine's. */
  readonly queryZone?: string | undefined;
  readonly filter: ChartFilter;
  /** Returns a query for the part of the archive shown, narrowed by additional terms. */
  readonly narrow: (...terms: readonly string[]) => string;
  readonly whole: FolderTotals;
}

/** Returns the numbers for a dashboard, with queries that find the counted messages. Times are ms since the epoch. */
export function dashboardData(
  archive: ServedReader,
  state: StateFile | undefined,
  view: DashboardView,
  now: number,
) {
  const { catalog } = archive;
  const { filter, range, zone } = view;
  return catalog.snapshot(() => {
    const oldestAt = catalog.charts.oldest(filter);
    const oldest = oldestAt === undefined ? now : receivedAt(oldestAt);
    const mailboxes = catalog.folders.mailboxes().filter(({ id }) => filter.fits?.([id]) ?? true);
    const keys = new Set(mailboxes.map(mailboxKey));
    const boxes = shownMailboxes(mailboxes);
    const periods = periodsOf(range ?? 'all', now, oldest, zone);
    const { kept, gigabytes, storage } = receivedMail(archive, view, periods, boxes);
    const compared = folderProofs(catalog, state).filter((folder) => keys.has(mailboxKey(folder)));
    const isWhole = archive.mailboxes === null && filter.fits === null;
    const requests =
      range === null
        ? lastHours(HOURS, now, zone)
        : periodsOf(range, now, firstCommit(archive, now), zone);
    return {
      consistency: consistency(archive, state, view, compared, keys, kept.ended),
      kept,
      gigabytes: {
        ...gigabytes,
        // One sample per day. Disk use covers all mailboxes, so a limited view omits it.
        disk: isWhole ? diskSamples(state, periods) : [],
        diskNow: isWhole ? diskBytes(archive) : null,
      },
      changes: changes(archive, view, now),
      proofs: proofs(compared, boxes.length > 1, view),
      requests: requestsIn(archive.mailboxes === null ? state : undefined, requests),
      verification:
        archive.mailboxes === null
          ? verifiedSegments(state, archive, now)
          : { bricks: [], fullAt: null, findings: 0 },
      storage: { ...storage, types: types(archive, view) },
      correspondents: correspondents(archive, view, now),
      rhythm: rhythm(archive, view, now, oldest),
      quarantine: quarantinedNow(state, archive, keys),
    };
  });
}

export type DashboardData = ReturnType<typeof dashboardData>;

function shownMailboxes(mailboxes: readonly KnownMailbox[]) {
  const byAddress = Map.groupBy(mailboxes, ({ address }) => address.toLowerCase());
  return [...byAddress.values()].map((same) => {
    const ids = new Set(same.map(({ id }) => id));
    const has = (set: { mailboxes: readonly number[] }) => set.mailboxes.some((id) => ids.has(id));
    const address = same[0]?.address ?? '';
    return { address, has, term: filterText('mailbox', address) };
  });
}

function receivedMail(
  { catalog: { charts } }: ServedReader,
  { filter, narrow, queryZone }: DashboardView,
  periods: Periods,
  mailboxes: ReturnType<typeof shownMailboxes>,
) {
  const received = charts.received(filter, boundsOf(periods).map(docidAt));
  const all = received.all(() => true);
  const sorted = mailboxes
    .map((mailbox) => ({ ...mailbox, sums: received.all(mailbox.has) }))
    .filter(({ sums }) => sums.messages > 0)
    .sort((a, b) => b.sums.messages - a.sums.messages);
  const shown = sorted.slice(0, MAX_SERIES);
  const series = shown.map(({ address, has, term }) =>
    oneSeries(received, address, (set) => !set.deleted && has(set), narrow(term, '-is:deleted')),
  );
  if (sorted.length > MAX_SERIES)
    series.push(
      oneSeries(
        received,
        'other mailboxes',
        (set) => !set.deleted && !shown.some(({ has }) => has(set)),
        narrow(...shown.map(({ term }) => `-${term}`), '-is:deleted'),
      ),
    );
  const total = series.reduce((sum, one) => sum + one.count, 0);
  let bytes = received.before(() => true).bytes;
  const mail = received
    .of(() => true)
    .map((one) => {
      bytes += one.bytes;
      return bytes;
    });
  const seriesAt = (address: string): number => {
    const at = shown.findIndex((one) => one.address.toLowerCase() === address.toLowerCase());
    return at < 0 ? MAX_SERIES : at;
  };
  const folders = charts.folders(received) ?? [];
  return {
    kept: {
      unit: periods.unit,
      periods: periods.list.map((period) => ({ ...period, term: dateTerm(period, queryZone) })),
      mailboxes: series,
      ended: oneSeries(received, 'deleted', ({ deleted }) => deleted, narrow('is:deleted')),
      total: oneSeries(received, 'all', () => true, narrow()),
      shared: Math.max(0, total - (all.messages - all.deleted)),
    },
    gigabytes: { periods: periods.list, mail, mailNow: all.bytes },
    storage: {
      mailboxes: combineRest(
        sorted
          .toSorted((a, b) => b.sums.bytes - a.sums.bytes)
          .map(({ address, term, sums }) => ({
            name: address,
            series: seriesAt(address),
            bytes: sums.bytes,
            messages: sums.messages,
            query: narrow(term),
          })),
      ),
      folders: combineRest(
        folders.map(({ address, path: name, bytes: size, messages, query }) => ({
          name: mailboxes.length > 1 ? `${shortName(address)} / ${name}` : name,
          series: seriesAt(address),
          bytes: size,
          messages,
          query: query === null ? null : narrow(query),
        })),
      ),
    },
  };
}

export type Series = ReturnType<typeof oneSeries>;

/** A series' query combined with a period's term finds exactly the messages of that period. */
function oneSeries(
  received: ReceivedCounts,
  name: string,
  fits: Parameters<ReceivedCounts['all']>[0],
  query: string,
) {
  return {
    name,
    query,
    count: received.all(fits).messages,
    before: received.before(fits).messages,
    counts: received.of(fits).map(({ messages }) => messages),
  };
}

function combineRest(rows: readonly StoredBytes[]): StoredBytes[] {
  if (rows.length <= MAX_ROWS) return [...rows];
  const rest = rows.slice(MAX_ROWS - 1);
  const bytes = rest.reduce((sum, row) => sum + row.bytes, 0);
  const name = `${rest.length} others`;
  const others = { name, series: null, bytes, messages: null, query: null };
  return [...rows.slice(0, MAX_ROWS - 1), others];
}

function shortName(address: string): string {
  return address.split('@', 1)[0] ?? address;
}

/** Counts the messages received per hour of the week in a zone: seven days from Monday, 24 hours each. */
function hoursOfWeek(
  { counts }: Pick<QuarterCounts, 'counts'>,
  zone: string | undefined,
): number[][] {
  const week = Array.from({ length: 7 }, () => new Array<number>(24).fill(0));
  for (const [time, messages] of counts) {
    // An offset takes microseconds to find, and some thousands are cached. Few weeks have two.
    const start = Math.floor(time / WEEK_MS) * WEEK_MS;
    const [first, next] = [offsetAt(start, zone), offsetAt(start + WEEK_MS, zone)];
    const local = new Date(time + (first === next ? first : offsetAt(time, zone)));
    const [weekday, hour] = [(local.getUTCDay() + 6) % 7, local.getUTCHours()];
    const row = week[weekday];
    if (row !== undefined) row[hour] = (row[hour] ?? 0) + messages;
  }
  return week;
}

function diskSamples(state: StateFile | undefined, { list }: Periods) {
  const from = list[0]?.from ?? 0;
  return (state?.entries('disk-sample') ?? [])
    .map(({ value: { at, log, catalog } }) => ({ at, bytes: log + catalog }))
    .filter(({ at }) => at >= from)
    .sort((a, b) => a.at - b.at);
}

function diskBytes({ dataDir }: ServedReader): number {
  return directoryBytes(logFolder(dataDir)) + fileBytes(catalogFile(dataDir));
}

function requestsIn(state: StateFile | undefined, { unit, list }: Periods) {
  const days = (state?.entries('requests') ?? [])
    .map(({ key, value }) => ({ ...parseRequestKey(key), ...value }))
    .sort((a, b) => (a.day < b.day ? -1 : 1));
  const [first, last] = [days[0], days.at(-1)];
  const since = first === undefined ? null : Date.parse(`${first.day}T00:00:00Z`);
  const counts = days.flatMap(({ day, gate, hours }) =>
    hours.map(({ hour, status, requests }) => {
      const time = Date.parse(`${day}T00:00:00Z`) + hour * HOUR_MS;
      const at = list.findLastIndex(({ from, to }) => from <= time && time < to);
      return { gate, at, requests, status };
    }),
  );
  const byPeriod = Map.groupBy(counts, ({ at }) => at);
  const shown = counts.filter(({ at }) => at >= 0);
  const sums = (some: typeof counts) => {
    const sum = { requests: 0, refused: 0, failed: 0 };
    for (const { status, requests } of some) {
      sum.requests += requests;
      if (status === 429) sum.refused += requests;
      else if (status === 0 || status >= 400) sum.failed += requests;
    }
    return sum;
  };
  // Gates of removed accounts have no current budget.
  const current = last === undefined ? '' : utcDayBefore(Date.parse(last.day), 1);
  const budgets = new Map(
    days.filter(({ day }) => day >= current).map(({ gate, perMinute }) => [gate, perMinute]),
  );
  return {
    unit,
    since,
    /** Requests per minute allowed across all gates; null if unknown, or if an IMAP server has no such limit. */
    perMinute: [...budgets.values()].includes(0)
      ? null
      : [...budgets.values()].reduce<number | null>((sum, one) => (sum ?? 0) + one, null),
    periods: list.map((period, at) => {
      const { requests, refused, failed } = sums(byPeriod.get(at) ?? []);
      const isKnown = since !== null && period.to > since;
      // Null if there is no record. `refused`: rate limit (429). `failed`: any other failure.
      return { ...period, requests: isKnown ? requests : null, refused, failed };
    }),
    gates: [...Map.groupBy(shown, ({ gate }) => gate)]
      .map(([gate, some]) => {
        const { requests, refused } = sums(some);
        return { gate, requests, refused };
      })
      .filter(({ requests }) => requests > 0)
      .sort((a, b) => b.requests - a.requests),
  };
}

function verifiedSegments(
  state: StateFile | undefined,
  { catalog, dataDir }: ServedReader,
  now: number,
) {
  const folder = logFolder(dataDir);
  const files = new Map<number, number>();
  for (const name of readdirSync(folder)) {
    const file = parseSegmentName(name);
    // The newest revision counts, or either one while a file is being replaced.
    if (file !== undefined) files.set(file.segment, fileBytes(path.join(folder, name)));
  }
  const checkups = new Map(
    (state?.entries('verified') ?? []).map(({ key, value }) => [Number(key), value]),
  );
  const damage = knownDamageOfLog(state);
  const damaged = new Set([
    ...damage.segments,
    ...damage.messages.flatMap((id) => catalog.locator.message(id)?.segment ?? []),
  ]);
  const segments = [...files].sort(([a], [b]) => a - b);
  const open = segments.at(-1)?.[0];
  const bricks = segments.map(([segment, bytes]) => {
    const checkup = checkups.get(segment);
    const isWhole = checkup !== undefined && checkup.covered > 0 && checkup.covered >= checkup.end;
    // When the whole segment was last read back.
    const at = isWhole ? checkup.at : null;
    return { segment, bytes, at, state: stateOf() };

    function stateOf(): ProofState {
      if (damaged.has(segment)) return 'damaged';
      if (segment === open) return 'open';
      if (at !== null) return now - at < RECENT_MS ? 'recent' : 'earlier';
      return checkup === undefined ? 'never' : 'partly';
    }
  });
  const last = recallVerification(state);
  return { bricks, fullAt: last?.fullAt ?? null, findings: last?.damage?.found ?? 0 };
}

function quarantinedNow(
  state: StateFile | undefined,
  { catalog }: ServedReader,
  keys: ReadonlySet<string>,
) {
  const open = catalog.quarantine.open().filter((entry) => keys.has(mailboxKey(entry)));
  const entries = open
    .toSorted((a, b) => b.since - a.since || a.uid - b.uid)
    .slice(0, MAX_ENTRIES)
    .map((entry) => {
      const { since, address, folder, uid, reason, detail } = entry;
      const tries = state?.get('quarantine-tries', placeKey(entry))?.tries ?? 0;
      return { since, address, folder, uid, reason, detail, tries };
    });
  return { count: open.length, entries };
}

const OFFICE = [
  'application/msword',
  'application/rtf',
  'application/vnd.ms-excel',
  'application/vnd.ms-powerpoint',
  'application/vnd.oasis.opendocument.presentation',
  'application/vnd.oasis.opendocument.spreadsheet',
  'application/vnd.oasis.opendocument.text',
  'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
];
const PACKED = [
  'application/gzip',
  'application/vnd.rar',
  'application/x-7z-compressed',
  'application/x-bzip2',
  'application/x-gzip',
  'application/x-rar-compressed',
  'application/x-tar',
  'application/x-zip-compressed',
  'application/zip',
];

/** Groups of attachment types. `image` includes all its subtypes. Some groups need a term as well as their types. */
const GROUPS: readonly (readonly [name: string, types: readonly string[], term?: string])[] = [
  ['PDF', ['application/pdf']],
  ['Pictures', ['image']],
  ['Office documents', OFFICE],
  ['Packed files', PACKED],
  ['Sound and video', ['audio', 'video']],
  ['Text', ['text'], 'mime:text has:attachment'],
  ['Messages', ['message'], 'mime:message has:attachment'],
];

function typeGroups(counted: readonly TypeBytes[]) {
  const byGroup = Map.groupBy(counted, ({ type }) =>
    GROUPS.find(([, own]) => own.includes(type) || own.includes(type.split('/', 1)[0] ?? '')),
  );
  return [...byGroup]
    .map(([[name, types, term = anyOf(types)] = ['Other', []], all]) => {
      return { name, bytes: all.reduce((sum, { bytes }) => sum + bytes, 0), term };
    })
    .filter(({ bytes }) => bytes > 0)
    .sort((a, b) => b.bytes - a.bytes);
}

function anyOf(types: readonly string[]): string | null {
  const terms = types.map((type) => `mime:${type}`);
  return terms.length > 1 ? `(${terms.join(' OR ')})` : (terms[0] ?? null);
}

function consistency(
  { catalog, mailboxes }: ServedReader,
  state: StateFile | undefined,
  { filter, whole }: DashboardView,
  folders: readonly FolderProof[],
  keys: ReadonlySet<string>,
  ended: { readonly count: number; readonly query: string },
) {
  const sum =
    filter.fits === null ? whole : sumAtService(catalog, (folder) => keys.has(mailboxKey(folder)));
  const isWhole = filter.fits === null && mailboxes === null;
  const totals = mailboxTotals({ catalog }, state, (key) => isWhole || keys.has(key));
  const watched = watchedOf(folders);
  const oldest = Math.min(...watched.map(({ at }) => at ?? 0));
  return {
    ...sum,
    ended: ended.count,
    endedQuery: ended.query,
    mailboxes: keys.size,
    folders: folders.length,
    equation: consistencyEquation(totals.sum, totals.listed),
    incomplete: watched.filter(({ complete }) => complete === false).length,
    /** Oldest comparison of any watched folder; null if none is watched or one has never been compared. */
    comparedAt: watched.length === 0 || oldest === 0 ? null : oldest,
  };
}

function watchedOf(folders: readonly FolderProof[]): FolderProof[] {
  return folders.filter((folder) => !folder.unwatched && !isImported(folder));
}

function changes(
  { catalog }: ServedReader,
  { filter, narrow, range, zone, queryZone }: DashboardView,
  now: number,
) {
  const first = firstCommit({ catalog }, now);
  const isEmpty = catalog.reached().number === 0;
  const periods = periodsOf(range ?? '90d', now, first, zone);
  const { list, unit } = periods;
  const counted = catalog.charts.changes(filter, boundsOf(periods));
  const isCounted = (at: number): boolean =>
    at >= counted.since && (list[at]?.to ?? 0) > first && !isEmpty;
  const countsOf = (kind: 'stored' | 'ended') =>
    counted.periods.map((period, at) => (isCounted(at) ? period[kind] : null));
  const changed = (period: Pick<Period, 'from' | 'to'>) => ({
    stored: narrow(observedTerm('added', period, queryZone)),
    ended: narrow(observedTerm('deleted', period, queryZone)),
  });
  const firstCounted = list.find((_, at) => isCounted(at));
  return {
    unit,
    periods: list,
    // Null if not counted: before the first commit, or past the limit for a single chart.
    stored: countsOf('stored'),
    ended: countsOf('ended'),
    found: list.map(changed),
    all: changed({ from: firstCounted?.from ?? 0, to: list.at(-1)?.to ?? now }),
    asOf: list.map(({ to }) => narrow(to > now ? '' : asOfTerm(to, queryZone))),
    since: isEmpty ? null : first,
    cut: counted.since > 0,
  };
}

function firstCommit({ catalog }: Pick<ServedReader, 'catalog'>, now: number): number {
  return catalog.charts.firstCommitAt() ?? now;
}

function proofs(folders: readonly FolderProof[], several: boolean, { narrow }: DashboardView) {
  return watchedOf(folders)
    .map(({ address, folder, at, complete }) => {
      const inBox = several ? [filterText('mailbox', address)] : [];
      const query = narrow(...inBox, filterText('in', folder));
      return { address, folder, at, complete: complete !== false, query };
    })
    .sort((a, b) => (a.at ?? 0) - (b.at ?? 0))
    .slice(0, MAX_PROOFS);
}

/** Counts attachments by type. Identical content is counted once. */
function types({ catalog }: ServedReader, { filter, narrow }: DashboardView): StoredBytes[] | null {
  const counted = catalog.charts.types(filter);
  if (counted === undefined) return null;
  return combineRest(
    typeGroups(counted).map(({ name, bytes, term }) => ({
      ...{ name, bytes, series: null, messages: null },
      query: term === null ? null : narrow(term),
    })),
  );
}

function correspondents(
  { catalog }: ServedReader,
  { filter, range, zone, queryZone }: DashboardView,
  now: number,
) {
  if (range === 'all') {
    const people = catalog.charts.correspondents(filter, null, MAX_PEOPLE);
    return { years: 'all years', people, term: '' };
  }
  const last = wallTime(now, zone).year;
  const first = range === '1y' || range === null ? last - 1 : last;
  const from = localMoment({ year: first, month: 1, day: 1 }, zone);
  const to = localMoment({ year: last + 1, month: 1, day: 1 }, zone);
  const years: Years = { first, last, low: docidAt(from), high: docidAt(to) };
  return {
    years: first === last ? String(last) : `${first} and ${last}`,
    people: catalog.charts.correspondents(filter, years, MAX_PEOPLE),
    term: dateTerm({ from, to }, queryZone),
  };
}

function rhythm(
  { catalog }: ServedReader,
  { filter, narrow, range, zone, queryZone }: DashboardView,
  now: number,
  oldest: number,
) {
  const { list } = periodsOf(range ?? '1y', now, oldest, zone);
  const [from, to] = [list[0]?.from ?? now, list.at(-1)?.to ?? now];
  const quarters = catalog.charts.quarters(filter, docidAt(from), docidAt(to));
  const isPartial = quarters.since !== null;
  return {
    counts: hoursOfWeek(quarters, zone),
    from: Math.max(quarters.since ?? 0, list[0]?.from ?? 0),
    cut: isPartial,
    query: isPartial ? null : narrow(dateTerm({ from, to }, queryZone)),
  };
}

const MAX_MAILBOXES = 8;

/** Cached totals can answer only queries about mailboxes and accounts in the present. */
export function dashboardPage(
  reader: ServedReader,
  pages: Pick<MailPages, 'frame'>,
  { accounts, now }: Pick<ArchiveParts, 'accounts' | 'now'>,
  parameter: Parameter,
) {
  const { catalog, dataDir } = reader;
  const query = parameter('q') ?? '';
  const at = now();
  const queryZone = parameter('zone');
  const { request, asOf, problem } = parseQueryText(
    query,
    reader,
    { now: at, timeZone: queryZone },
    accounts,
  );
  const typed = parameter('tz') ?? queryZone;
  const zone = canonicalZone(typed);
  const range = RANGES.find((known) => known === parameter('range')) ?? null;
  const filter =
    request === null || asOf !== null
      ? undefined
      : catalog.charts.filterOf(request.node, request.accounts ?? new Map());
  const text = query.trim();
  const base = request?.node.kind === 'or' && /\s/.test(text) ? `(${text})` : text;
  const narrow = (...terms: readonly string[]): string =>
    [base, ...terms].filter((term) => term !== '').join(' ');
  const frame = pages.frame(reader, {
    query,
    asOf,
    problem,
    context: { now: at, timeZone: queryZone },
  });
  const state = filter === undefined ? undefined : readState(dataDir);
  try {
    const page = {
      kind: 'dashboard' as const,
      frame,
      /** Milliseconds since the epoch. */
      now: at,
      /** IANA name of the zone in which days start. */
      zone: zone ?? machineZone(),
      /** Zone in the address; null if missing or unknown. */
      typedZone: zone ?? null,
      wrongZone: typed !== undefined && typed !== '' && zone === undefined ? typed : null,
      /** Null lets each chart choose a suitable range. */
      range,
      /** Prefix of every query on the page. */
      base,
      commit: {
        number: catalog.reached().number,
        time: catalog.commitAt(Number.MAX_SAFE_INTEGER)?.time ?? null,
      },
      mailboxes: catalog.folders
        .mailboxes()
        .slice(0, MAX_MAILBOXES)
        .map((mailbox) => ({
          name: shortName(mailbox.address),
          query: filterText('mailbox', mailbox.address),
        })),
      /** Null for a query that filters by anything but mailboxes. */
      data: filter
        ? dashboardData(
            reader,
            state,
            { filter, narrow, range, zone, queryZone, whole: frame.consistency },
            at,
          )
        : null,
    };
    return { page, status: statusOf(problem) };
  } finally {
    state?.close();
  }
}
