import { logFolder } from '../../../archive/format/layout.ts';
import { catalogFile } from '../../../catalog/open.ts';
import type { ChartFilter } from '../../../catalog/stats/chart-filter.ts';
import type { Years } from '../../../catalog/stats/correspondents.ts';
import { bytesIn, bytesOf } from '../../../engine/status/disk-samples.ts';
import { type FolderProof, folderProofs } from '../../../engine/status/folder-proofs.ts';
import { DOCIDS_PER_SECOND, docidAt } from '../../../mail/docid.ts';
import { isImported } from '../../../mail/import-host.ts';
import { localMoment, wallTime } from '../../../search/dates.ts';
import { mailboxKey } from '../../../state/scopes.ts';
import type { StateFile } from '../../../state/state-file.ts';
import { closingOf, type FolderSums } from '../closing-sum.ts';
import { folderText, mailboxText } from '../query-text.ts';
import type { ServedReader } from '../served-archive.ts';
import type {
  ChangesOfTime,
  Closing,
  Correspondents,
  DashboardAsk,
  DashboardData,
  FoundChanges,
  ProofAge,
  Rhythm,
  StoredBytes,
} from './dashboard-data.ts';
import {
  asOfTerm,
  dateTerm,
  lastHours,
  observedTerm,
  type Period,
  periodsOf,
  type Range,
  timeBounds,
} from './periods.ts';
import { gathered, type Narrow, ofReceived, type ShownMailbox } from './received-charts.ts';
import { hoursOfWeek } from './rhythm.ts';
import { diskSamples, quarantinedNow, requestsIn, verifiedSegments } from './state-charts.ts';
import { typeGroups } from './type-groups.ts';

/** Correspondents that are shown. */
const MOST_PEOPLE = 8;
/** Hours of requests, where no range is asked for. */
const HOURS = 48;
/** Folders whose proofs are shown: those that wait longest. */
const MOST_PROOFS = 2_000;

type Archive = ServedReader;

/** Which part of the archive a dashboard shows, and how its queries are narrowed to it. */
export interface DashboardView extends DashboardAsk {
  readonly filter: ChartFilter;
  readonly narrow: Narrow;
  /** The closing sum of all that the reader may know. */
  readonly whole: FolderSums;
}

/** Returns all numbers of a dashboard, as of one commit. */
export function dashboardData(
  archive: Archive,
  state: StateFile | undefined,
  view: DashboardView,
  now: number,
): DashboardData {
  return archive.catalog.snapshot(() => made(archive, state, view, now));
}

function made(
  archive: Archive,
  state: StateFile | undefined,
  view: DashboardView,
  now: number,
): DashboardData {
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

/** The mailboxes of a view by their addresses, and the keys of all of them. */
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
): Closing {
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
    incomplete: watched.filter(({ complete }) => complete === false).length,
    comparedAt: watched.length === 0 || oldest === 0 ? null : oldest,
  };
}

/** Folders that are compared with a service. */
function watchedOf(folders: readonly FolderProof[]): FolderProof[] {
  return folders.filter((folder) => !folder.unwatched && !isImported(folder));
}

function changes({ catalog }: Archive, view: DashboardView, now: number): ChangesOfTime {
  const zone = view.zone ?? undefined;
  const first = firstCommit({ catalog }, now);
  const periods = periodsOf(view.range ?? '90d', now, first, zone);
  const counted = catalog.charts.changes(view.filter, timeBounds(periods));
  const isCounted = (at: number): boolean =>
    at >= counted.since && (periods.list[at]?.to ?? 0) > first && catalog.reached().number > 0;
  const known = (what: 'stored' | 'ended') =>
    counted.periods.map((period, at) => (isCounted(at) ? period[what] : null));
  const changed = (period: Pick<Period, 'from' | 'to'>): FoundChanges => ({
    stored: view.narrow(observedTerm('added', period)),
    ended: view.narrow(observedTerm('deleted', period)),
  });
  const firstCounted = periods.list.find((_, at) => isCounted(at));
  return {
    unit: periods.unit,
    periods: periods.list,
    stored: known('stored'),
    ended: known('ended'),
    found: periods.list.map(changed),
    all: changed({ from: firstCounted?.from ?? 0, to: periods.list.at(-1)?.to ?? now }),
    asOf: periods.list.map(({ to }) => view.narrow(to > now ? '' : asOfTerm(to))),
    since: catalog.reached().number === 0 ? null : first,
    cut: counted.since > 0,
  };
}

/** When the archive began; now for one without a commit. */
function firstCommit({ catalog }: Pick<Archive, 'catalog'>, now: number): number {
  return catalog.charts.firstCommitAt() ?? now;
}

function proofs(folders: readonly FolderProof[], several: boolean, narrow: Narrow): ProofAge[] {
  return watchedOf(folders)
    .map(({ address, mailbox, folder, at, complete }) => {
      const inBox = several ? [mailboxText([{ address, mailbox }])] : [];
      const inFolder = folderText(folder);
      const query = inFolder === null ? null : narrow(...inBox, inFolder);
      return { address, folder, at, complete: complete !== false, query };
    })
    .sort((a, b) => (a.at ?? 0) - (b.at ?? 0))
    .slice(0, MOST_PROOFS);
}

/** Attachments by what people call their types; each content counts once. */
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

function correspondents(
  { catalog }: Archive,
  { filter, range, zone }: DashboardView,
  now: number,
): Correspondents {
  const last = wallTime(now, zone ?? undefined).year;
  if (range === 'all') {
    const people = catalog.charts.correspondents(filter, null, MOST_PEOPLE);
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
    people: catalog.charts.correspondents(filter, years, MOST_PEOPLE),
    term: dateTerm(period),
  };
}

function rhythm({ catalog }: Archive, view: DashboardView, now: number, oldest: number): Rhythm {
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
