import { readdirSync } from 'node:fs';
import path from 'node:path';
import { logFolder, parseSegmentName } from '../archive/format.ts';
import type { Years } from '../catalog/breakdowns.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { ChartQueries, Quarters, TypeBytes } from '../catalog/charts.ts';
import { catalogFile } from '../catalog/database.ts';
import { bytesIn, bytesOf } from '../catalog/disk-samples.ts';
import { localMoment, wallTime } from '../catalog/query-dates.ts';
import type { ChartFilter, Received } from '../catalog/sums.ts';
import { mailboxKey, placeKey, readState, type StateFile } from '../core/state.ts';
import { requestsOf } from '../core/state-runs.ts';
import { DOCIDS_PER_SECOND, docidAt } from '../mail/docid.ts';
import { isImported } from '../mail/identity.ts';
import { type FolderProof, folderProofs } from '../verify/archive-status.ts';
import { knownDamageOfLog, recalledVerification } from '../verify/verification.ts';
import {
  asOfTerm,
  type BrickState,
  dateTerm,
  docidBounds,
  lastHours,
  observedTerm,
  type Period,
  type Periods,
  periodsOf,
  RANGES,
  type Range,
  type StoredBytes,
  timeBounds,
} from './dashboard-data.ts';
import { closingOf, type FolderSums } from './issues.ts';
import type { Answered, MailPages } from './mail-pages.ts';
import type { DashboardContent } from './pages/page.ts';
import { folderText, mailboxText } from './query-text.ts';
import type { ArchiveParts, Parameter } from './request-context.ts';
import { knownZone, type ServedReader } from './served-archive.ts';
import { understandQuery } from './understood-query.ts';

/** Maximum mailboxes with their own colour; the others are combined. */
const MAX_SERIES = 4;
/** Maximum rows of a bar list; the others are combined. */
const MAX_ROWS = 7;

/** A mailbox of a dashboard, by address: several hosts may have the same one. */
interface ShownMailbox {
  readonly address: string;
  readonly ids: ReadonlySet<number>;
  readonly term: string;
}

type Narrow = (...terms: readonly string[]) => string;

function ofReceived(
  charts: ChartQueries,
  filter: ChartFilter,
  periods: Periods,
  mailboxes: readonly ShownMailbox[],
  narrow: Narrow,
) {
  const received = charts.received(filter, docidBounds(periods));
  const totals = received.all(() => true);
  const sorted = mailboxes
    .map((mailbox) => ({ mailbox, sums: received.all(inBox(mailbox.ids)) }))
    .filter(({ sums }) => sums.messages > 0)
    .sort((a, b) => b.sums.messages - a.sums.messages);
  const hasOthers = sorted.length > MAX_SERIES;
  const shown = sorted.slice(0, MAX_SERIES).map(({ mailbox }) => mailbox);
  const series = seriesOf(received, shown, hasOthers, narrow);
  const counted = series.reduce((sum, one) => sum + one.count, 0);
  const sums = received.of(() => true);
  let bytes = received.before(() => true).bytes;
  const mail = sums.map((one) => {
    bytes += one.bytes;
    return bytes;
  });
  const seriesAt = (address: string): number => {
    const at = shown.findIndex((one) => one.address.toLowerCase() === address.toLowerCase());
    return at < 0 ? MAX_SERIES : at;
  };
  return {
    kept: {
      unit: periods.unit,
      periods: periods.list.map((period) => ({ ...period, term: dateTerm(period) })),
      mailboxes: series,
      ended: oneSeries(received, 'deleted', ({ deleted }) => deleted, narrow('is:deleted')),
      total: oneSeries(received, 'all', () => true, narrow()),
      shared: Math.max(0, counted - (totals.messages - totals.deleted)),
    },
    gigabytes: { periods: periods.list, mail, mailNow: totals.bytes },
    storage: {
      mailboxes: gathered(
        sorted
          .toSorted((a, b) => b.sums.bytes - a.sums.bytes)
          .map(({ mailbox, sums: own }) => ({
            name: mailbox.address,
            series: seriesAt(mailbox.address),
            bytes: own.bytes,
            messages: own.messages,
            query: narrow(mailbox.term),
          })),
      ),
      folders: gathered(
        (charts.folders(filter, received) ?? []).map((folder) => ({
          name:
            mailboxes.length > 1 ? `${shortName(folder.address)} / ${folder.path}` : folder.path,
          series: seriesAt(folder.address),
          bytes: folder.bytes,
          messages: folder.messages,
          query: folder.query === null ? null : narrow(folder.query),
        })),
      ),
    },
  };
}

function inBox(ids: ReadonlySet<number>) {
  return ({ mailboxes }: { mailboxes: readonly number[] }): boolean =>
    mailboxes.some((id) => ids.has(id));
}

type Fits = Parameters<Received['all']>[0];
export type Series = ReturnType<typeof oneSeries>;

function seriesOf(
  received: Received,
  shown: readonly ShownMailbox[],
  hasOthers: boolean,
  narrow: Narrow,
): Series[] {
  const series = shown.map(({ address, ids, term }) =>
    oneSeries(
      received,
      address,
      (set) => !set.deleted && inBox(ids)(set),
      narrow(term, '-is:deleted'),
    ),
  );
  if (!hasOthers) return series;
  const known = new Set(shown.flatMap(({ ids }) => [...ids]));
  const none = shown.map(({ term }) => `-${term}`);
  const others = oneSeries(
    received,
    'other mailboxes',
    (set) => !set.deleted && !inBox(known)(set),
    narrow(...none, '-is:deleted'),
  );
  return [...series, others];
}

/** Returns messages by period. The query of a series with the term of a period finds exactly as many. */
function oneSeries(received: Received, name: string, fits: Fits, query: string) {
  return {
    name,
    query,
    count: received.all(fits).messages,
    /** Messages before the first period. */
    before: received.before(fits).messages,
    counts: received.of(fits).map(({ messages }) => messages),
  };
}

/** Returns the first rows, and the rest combined into one. */
function gathered(rows: readonly StoredBytes[]): StoredBytes[] {
  if (rows.length <= MAX_ROWS) return [...rows];
  const rest = rows.slice(MAX_ROWS - 1);
  const bytes = rest.reduce((sum, row) => sum + row.bytes, 0);
  const others = {
    name: `${rest.length} others`,
    series: null,
    bytes,
    messages: null,
    query: null,
  };
  return [...rows.slice(0, MAX_ROWS - 1), others];
}

function shortName(address: string): string {
  return address.split('@', 1)[0] ?? address;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/**
 * Returns messages received per hour of the week, in local time of a zone: seven days from Monday, 24 hours each.
 *
 * @param zone IANA name; absent: this machine's
 */
function hoursOfWeek({ counts }: Pick<Quarters, 'counts'>, zone: string | undefined): number[][] {
  const week = Array.from({ length: 7 }, () => new Array<number>(24).fill(0));
  const offsetAt = offsets(zone);
  for (const [time, messages] of counts) {
    const local = time + offsetAt(time);
    // 1 January 1970 was a Thursday.
    const weekday = (((Math.floor(local / DAY_MS) + 3) % 7) + 7) % 7;
    const hour = Math.floor((((local % DAY_MS) + DAY_MS) % DAY_MS) / HOUR_MS);
    const row = week[weekday];
    if (row !== undefined) row[hour] = (row[hour] ?? 0) + messages;
  }
  return week;
}

/**
 * Returns a function from a time to a zone's offset from UTC, in milliseconds. A calendar look-up takes microseconds.
 * It is made for the ends of a UTC day, and within the day only if they differ.
 */
function offsets(zone: string | undefined): (time: number) => number {
  const known = new Map<number, number>();
  const ask = (time: number): number => {
    const found = known.get(time);
    if (found !== undefined) return found;
    const { year, month, day, hour, minute, second } = wallTime(time, zone);
    const shown = Date.UTC(2000, month - 1, day, hour, minute, second);
    const offset = new Date(shown).setUTCFullYear(year, month - 1, day) - time;
    known.set(time, offset);
    return offset;
  };
  return (time) => {
    const start = Math.floor(time / DAY_MS) * DAY_MS;
    const [first, next] = [ask(start), ask(start + DAY_MS)];
    return first === next ? first : ask(time);
  };
}

/** Maximum age of a recent verification: a day, plus the time that it takes. */
const RECENT_MS = 26 * HOUR_MS;
const MAX_ENTRIES = 8;

function diskSamples(
  state: StateFile | undefined,
  { list }: Periods,
): { readonly at: number; readonly bytes: number }[] {
  const from = list[0]?.from ?? 0;
  const samples = (state?.entries('disk-sample') ?? []).map(({ value }) => ({
    at: value.at,
    bytes: value.log + value.catalog,
  }));
  return samples.filter(({ at }) => at >= from).sort((a, b) => a.at - b.at);
}

function requestsIn(state: StateFile | undefined, { unit, list }: Periods) {
  const days = (state?.entries('requests') ?? []).map(({ key, value }) => ({
    ...requestsOf(key),
    ...value,
  }));
  const counts = list.map(() => ({ requests: 0, refused: 0, failed: 0 }));
  const gates = new Map<
    string,
    { requests: number; refused: number; day: string; perMinute: number }
  >();
  for (const { day, gate, hours, perMinute } of days) {
    const start = Date.parse(`${day}T00:00:00Z`);
    const known = gates.get(gate) ?? { requests: 0, refused: 0, day, perMinute };
    if (day >= known.day) Object.assign(known, { day, perMinute });
    gates.set(gate, known);
    for (const { hour, status, requests } of hours) {
      const at = periodAt(list, start + hour * HOUR_MS);
      const period = counts[at];
      if (period === undefined) continue;
      period.requests += requests;
      if (status === 429) period.refused += requests;
      else if (status === 0 || status >= 400) period.failed += requests;
      known.requests += requests;
      if (status === 429) known.refused += requests;
    }
  }
  const first = days.reduce((least, { day }) => (day < least ? day : least), '9999');
  const since = days.length === 0 ? null : Date.parse(`${first}T00:00:00Z`);
  const latest = [...gates.values()].reduce((day, gate) => (gate.day > day ? gate.day : day), '');
  // Gates of removed accounts have no current budget.
  const budgets = [...gates.values()].filter(({ day }) => day >= dayBefore(latest));
  return {
    unit,
    /** Start of the first day on record; null for none. */
    since,
    /** Requests per minute that all gates together may make; null if unknown. */
    perMinute:
      budgets.length === 0 ? null : budgets.reduce((sum, { perMinute }) => sum + perMinute, 0),
    periods: list.map((period, at) => {
      const { requests, refused, failed } = counts[at] ?? { requests: 0, refused: 0, failed: 0 };
      const isKnown = since !== null && period.to > since;
      // Null without a record. `refused`: rate limit (429). `failed`: any other failure.
      return { ...period, requests: isKnown ? requests : null, refused, failed };
    }),
    gates: [...gates]
      .map(([gate, { requests, refused }]) => ({ gate, requests, refused }))
      .filter(({ requests }) => requests > 0)
      .sort((a, b) => b.requests - a.requests),
  };
}

function dayBefore(day: string): string {
  const ms = Date.parse(`${day}T00:00:00Z`);
  return Number.isNaN(ms) ? '' : new Date(ms - 24 * HOUR_MS).toISOString().slice(0, 10);
}

function periodAt(list: readonly Period[], time: number): number {
  let [from, to] = [0, list.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((list[middle]?.from ?? 0) <= time) from = middle + 1;
    else to = middle;
  }
  const at = from - 1;
  return time < (list[at]?.to ?? 0) ? at : -1;
}

function verifiedSegments(
  state: StateFile | undefined,
  { catalog, dataDir }: { catalog: Catalog; dataDir: string },
  now: number,
) {
  const folder = logFolder(dataDir);
  const files = new Map<number, number>();
  for (const name of readdirSync(folder)) {
    const file = parseSegmentName(name);
    // The newest revision counts; while a file is being replaced, either.
    if (file !== undefined) files.set(file.segment, bytesOf(path.join(folder, name)));
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
  const hot = segments.at(-1)?.[0];
  const bricks = segments.map(([segment, bytes]) => {
    const checkup = checkups.get(segment);
    const isWhole = checkup !== undefined && checkup.covered > 0 && checkup.covered >= checkup.end;
    // When the whole segment was last read back; null if it never was.
    const at = isWhole ? checkup.at : null;
    return { segment, bytes, at, state: stateOf() };

    function stateOf(): BrickState {
      if (damaged.has(segment)) return 'damaged';
      if (segment === hot) return 'open';
      if (at !== null) return now - at < RECENT_MS ? 'recent' : 'earlier';
      return checkup === undefined ? 'never' : 'partly';
    }
  });
  const last = recalledVerification(state);
  return { bricks, fullAt: last?.fullAt ?? null, findings: last?.damage?.found ?? 0 };
}

function quarantinedNow(
  state: StateFile | undefined,
  { quarantine }: Pick<Catalog, 'quarantine'>,
  isShown: (host: string, mailbox: string) => boolean,
) {
  const open = quarantine.open().filter(({ host, mailbox }) => isShown(host, mailbox));
  const entries = open
    .toSorted((a, b) => b.since - a.since || a.uid - b.uid)
    .slice(0, MAX_ENTRIES)
    .map((entry) => ({
      since: entry.since,
      address: entry.address,
      folder: entry.folder,
      uid: entry.uid,
      reason: entry.reason,
      detail: entry.detail,
      tries: state?.get('quarantine-tries', placeKey(entry))?.tries ?? 0,
    }));
  return { count: open.length, entries };
}

interface Group {
  readonly name: string;
  readonly has: (type: string) => boolean;
  /** Term that finds messages with such attachments; null if no filter covers the group. */
  readonly term: string | null;
}

const begins =
  (...prefixes: readonly string[]) =>
  (type: string): boolean =>
    prefixes.some((prefix) => type === prefix || type.startsWith(`${prefix}/`));
const is =
  (...types: readonly string[]) =>
  (type: string): boolean =>
    types.includes(type);

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

const GROUPS: readonly Group[] = [
  { name: 'PDF', has: is('application/pdf'), term: 'mime:application/pdf' },
  { name: 'Pictures', has: begins('image'), term: 'mime:image' },
  { name: 'Office documents', has: is(...OFFICE), term: anyOf(OFFICE) },
  { name: 'Packed files', has: is(...PACKED), term: anyOf(PACKED) },
  { name: 'Sound and video', has: begins('audio', 'video'), term: '(mime:audio OR mime:video)' },
  { name: 'Text', has: begins('text'), term: 'mime:text has:attachment' },
  { name: 'Messages', has: begins('message'), term: 'mime:message has:attachment' },
];

function anyOf(types: readonly string[]): string {
  return `(${types.map((type) => `mime:${type}`).join(' OR ')})`;
}

/** Returns the bytes of attachments by group of types, largest first. */
function typeGroups(
  types: readonly TypeBytes[],
): { readonly name: string; readonly bytes: number; readonly term: string | null }[] {
  const bytes = new Map<Group, number>();
  const other: Group = { name: 'Other', has: () => true, term: null };
  for (const { type, bytes: size } of types) {
    const group = GROUPS.find(({ has }) => has(type)) ?? other;
    bytes.set(group, (bytes.get(group) ?? 0) + size);
  }
  return [...bytes]
    .map(([{ name, term }, size]) => ({ name, term, bytes: size }))
    .filter((group) => group.bytes > 0)
    .sort((a, b) => b.bytes - a.bytes);
}

const MAX_PEOPLE = 8;
const HOURS = 48;
/** Maximum folders whose proofs are shown: the least recently compared. */
const MAX_PROOFS = 2_000;

type Archive = ServedReader;

/** The part of the archive that a dashboard shows, and how to limit queries to it. */
interface DashboardView {
  /** Null: each chart shows a suitable range. */
  readonly range: Range | null;
  /** IANA name; null for this machine's zone. */
  readonly zone: string | null;
  readonly filter: ChartFilter;
  readonly narrow: Narrow;
  /** The closing sum of everything that the reader may see. */
  readonly whole: FolderSums;
}

export function dashboardData(
  archive: Archive,
  state: StateFile | undefined,
  view: DashboardView,
  now: number,
): DashboardData {
  return archive.catalog.snapshot(() => made(archive, state, view, now));
}

/** The numbers of a dashboard. Times are milliseconds since the epoch; each query finds what its number counts. */
export type DashboardData = ReturnType<typeof made>;

function made(archive: Archive, state: StateFile | undefined, view: DashboardView, now: number) {
  const { catalog } = archive;
  const { filter, narrow, range } = view;
  const zone = view.zone ?? undefined;
  const oldest = timeOf(catalog.charts.oldest(filter)) ?? now;
  const { boxes, numbers } = shownMailboxes(archive, filter);
  const periods = periodsOf(range ?? 'all', now, oldest, zone);
  const received = ofReceived(catalog.charts, filter, periods, boxes, narrow);
  const compared = folderProofs(catalog, state).filter((folder) => numbers.has(mailboxKey(folder)));
  const isWhole = filter.scope === null && filter.fits === null;
  const { kept, gigabytes, storage } = received;
  const requests =
    range === null
      ? lastHours(HOURS, now, zone)
      : periodsOf(range, now, firstCommit(archive, now), zone);
  return {
    closing: closing(archive, view, compared, numbers, kept.ended),
    kept,
    gigabytes: {
      ...gigabytes,
      // One sample per day. Disk use covers all mailboxes, so a limited view has none.
      disk: isWhole ? diskSamples(state, periods) : [],
      diskNow: isWhole ? diskBytes(archive) : null,
    },
    changes: changes(archive, view, now),
    proofs: proofs(compared, boxes.length > 1, narrow),
    requests: requestsIn(filter.scope === null ? state : undefined, requests),
    verification:
      filter.scope === null
        ? verifiedSegments(state, archive, now)
        : { bricks: [], fullAt: null, findings: 0 },
    storage: { ...storage, types: types(archive, view) },
    correspondents: correspondents(archive, view, now),
    rhythm: rhythm(archive, view, now, oldest),
    quarantine: quarantinedNow(state, catalog, (host, mailbox) =>
      numbers.has(mailboxKey({ host, mailbox })),
    ),
  };
}

/** Returns the mailboxes of a view by address, and the keys of all of them. */
function shownMailboxes(
  { catalog }: Archive,
  { scope, fits }: ChartFilter,
): { readonly boxes: readonly ShownMailbox[]; readonly numbers: ReadonlySet<string> } {
  const known = catalog.folders
    .mailboxes()
    .filter(({ id }) => (scope?.mailboxes.includes(id) ?? true) && (fits?.([id]) ?? true));
  const byAddress = Map.groupBy(known, ({ address }) => address.toLowerCase());
  return {
    boxes: [...byAddress.values()].map((same) => ({
      address: same[0]?.address ?? '',
      ids: new Set(same.map(({ id }) => id)),
      term: mailboxText(same),
    })),
    numbers: new Set(known.map(mailboxKey)),
  };
}

function diskBytes({ dataDir }: Archive): number {
  return bytesIn(logFolder(dataDir)) + bytesOf(catalogFile(dataDir));
}

function closing(
  { catalog }: Archive,
  { filter, whole }: DashboardView,
  folders: readonly FolderProof[],
  numbers: ReadonlySet<string>,
  ended: { readonly count: number; readonly query: string },
) {
  const sum =
    filter.fits === null ? whole : closingOf(catalog, (folder) => numbers.has(mailboxKey(folder)));
  const watched = watchedOf(folders);
  const oldest = Math.min(...watched.map(({ at }) => at ?? 0));
  return {
    ...sum,
    ended: ended.count,
    endedQuery: ended.query,
    mailboxes: numbers.size,
    folders: folders.length,
    /** Folders that were incomplete when last compared. */
    incomplete: watched.filter(({ complete }) => complete === false).length,
    /** When the least recently compared folder was compared; null if one never was, or there is none. */
    comparedAt: watched.length === 0 || oldest === 0 ? null : oldest,
  };
}

function watchedOf(folders: readonly FolderProof[]): FolderProof[] {
  return folders.filter((folder) => !folder.unwatched && !isImported(folder));
}

function changes({ catalog }: Archive, view: DashboardView, now: number) {
  const zone = view.zone ?? undefined;
  const first = firstCommit({ catalog }, now);
  const periods = periodsOf(view.range ?? '90d', now, first, zone);
  const counted = catalog.charts.changes(view.filter, timeBounds(periods));
  const isCounted = (at: number): boolean =>
    at >= counted.since && (periods.list[at]?.to ?? 0) > first && catalog.reached().number > 0;
  const known = (what: 'stored' | 'ended') =>
    counted.periods.map((period, at) => (isCounted(at) ? period[what] : null));
  const changed = (period: Pick<Period, 'from' | 'to'>) => ({
    stored: view.narrow(observedTerm('added', period)),
    ended: view.narrow(observedTerm('deleted', period)),
  });
  const firstCounted = periods.list.find((_, at) => isCounted(at));
  return {
    unit: periods.unit,
    periods: periods.list,
    // Null if not counted: before the first commit, or beyond what one chart reads.
    stored: known('stored'),
    ended: known('ended'),
    found: periods.list.map(changed),
    all: changed({ from: firstCounted?.from ?? 0, to: periods.list.at(-1)?.to ?? now }),
    asOf: periods.list.map(({ to }) => view.narrow(to > now ? '' : asOfTerm(to))),
    since: catalog.reached().number === 0 ? null : first,
    cut: counted.since > 0,
  };
}

function firstCommit({ catalog }: Pick<Archive, 'catalog'>, now: number): number {
  return catalog.charts.firstCommitAt() ?? now;
}

function proofs(folders: readonly FolderProof[], several: boolean, narrow: Narrow) {
  return watchedOf(folders)
    .map(({ address, mailbox, folder, at, complete }) => {
      const inBox = several ? [mailboxText([{ address, mailbox }])] : [];
      const inFolder = folderText(folder);
      const query = inFolder === null ? null : narrow(...inBox, inFolder);
      return { address, folder, at, complete: complete !== false, query };
    })
    .sort((a, b) => (a.at ?? 0) - (b.at ?? 0))
    .slice(0, MAX_PROOFS);
}

/** Returns the bytes of attachments by common type names; each content counts once. */
function types({ catalog }: Archive, { filter, narrow }: DashboardView): StoredBytes[] | null {
  const counted = catalog.charts.types(filter);
  if (counted === undefined) return null;
  return gathered(
    typeGroups(counted).map(({ name, bytes, term }) => ({
      ...{ name, bytes, series: null, messages: null },
      query: term === null ? null : narrow(term),
    })),
  );
}

function correspondents({ catalog }: Archive, { filter, range, zone }: DashboardView, now: number) {
  const last = wallTime(now, zone ?? undefined).year;
  if (range === 'all') {
    const people = catalog.charts.correspondents(filter, null, MAX_PEOPLE);
    return { years: 'all years', people, term: '' };
  }
  const first = range === '1y' || range === null ? last - 1 : last;
  const [from, to] = [first, last + 1].map((year) =>
    localMoment({ year, month: 1, day: 1 }, zone ?? undefined),
  );
  const period = { from: from ?? 0, to: to ?? 0 };
  const years: Years = { first, last, low: docidAt(period.from), high: docidAt(period.to) };
  return {
    years: first === last ? String(last) : `${first} and ${last}`,
    people: catalog.charts.correspondents(filter, years, MAX_PEOPLE),
    term: dateTerm(period),
  };
}

function rhythm({ catalog }: Archive, view: DashboardView, now: number, oldest: number) {
  const zone = view.zone ?? undefined;
  const range: Range = view.range ?? '1y';
  const { list } = periodsOf(range, now, oldest, zone);
  const [first, last] = [list[0], list.at(-1)];
  const low = docidAt(first?.from ?? now);
  const high = docidAt(last?.to ?? now);
  const quarters = catalog.charts.quarters(view.filter, low, high);
  const cut = quarters.since !== null;
  return {
    counts: hoursOfWeek(quarters, zone),
    from: Math.max(quarters.since ?? 0, first?.from ?? 0),
    cut,
    query: cut ? null : view.narrow(dateTerm({ from: first?.from ?? now, to: last?.to ?? now })),
  };
}

function timeOf(docid: number | undefined): number | undefined {
  return docid === undefined ? undefined : Math.floor(docid / DOCIDS_PER_SECOND) * 1000;
}

const MAX_MAILBOXES = 8;

/** Makes the dashboard. The cached sums support only queries for mailboxes and accounts, as of now. */
export function dashboardPage(
  reader: ServedReader,
  pages: Pick<MailPages, 'frame'>,
  { accounts, now }: Pick<ArchiveParts, 'accounts' | 'now'>,
  parameter: Parameter,
): Answered {
  const { catalog, dataDir } = reader;
  const query = parameter('q') ?? '';
  const at = now();
  const understood = understandQuery(query, reader, at, accounts);
  const typed = parameter('tz');
  const zone = knownZone(typed);
  const range = RANGES.find((known) => known === parameter('range')) ?? null;
  const { request, asOf, problem } = understood;
  const filter =
    request === null || asOf !== null
      ? undefined
      : catalog.charts.filterOf(request.node, request.accounts ?? new Map());
  const text = query.trim();
  const base = request?.node.kind === 'or' && /\s/.test(text) ? `(${text})` : text;
  const narrow = (...terms: readonly string[]): string =>
    [base, ...terms].filter((term) => term !== '').join(' ');
  const known = catalog.folders.mailboxes();
  const frame = pages.frame(reader, query, { asOf, problem });
  const view = (shown: ChartFilter): DashboardView => ({
    ...{ filter: shown, narrow, range, zone: zone ?? null },
    whole: frame.closing,
  });
  const state = filter === undefined ? undefined : readState(dataDir);
  try {
    const reached = catalog.reached().number;
    const content: DashboardContent = {
      now: at,
      zone: zone ?? ownZone(),
      typedZone: zone ?? null,
      wrongZone: typed !== undefined && typed !== '' && zone === undefined ? typed : null,
      range,
      base,
      commit: { number: reached, time: catalog.commitAt(Number.MAX_SAFE_INTEGER)?.time ?? null },
      mailboxes: known.slice(0, MAX_MAILBOXES).map((mailbox) => ({
        name: mailbox.address.split('@', 1)[0] ?? mailbox.address,
        query: mailboxText([mailbox]),
      })),
      data: filter === undefined ? null : dashboardData(reader, state, view(filter), at),
    };
    return {
      page: { kind: 'dashboard', frame, ...content },
      status: problem === null ? 200 : 400,
    };
  } finally {
    state?.close();
  }
}

function ownZone(): string {
  return new Intl.DateTimeFormat('en').resolvedOptions().timeZone;
}
