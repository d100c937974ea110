import { readdirSync } from 'node:fs';
import path from 'node:path';
import { logFolder, parseSegmentName } from '../../../archive/format/layout.ts';
import type { Catalog } from '../../../catalog/catalog.ts';
import { bytesOf } from '../../../engine/status/disk-samples.ts';
import { knownDamageOfLog, recalledVerification } from '../../../health/verification.ts';
import { requestsOf } from '../../../state/measured.ts';
import { placeKey } from '../../../state/scopes.ts';
import type { StateFile } from '../../../state/state-file.ts';
import type {
  Brick,
  BrickState,
  Gigabytes,
  Quarantined,
  RequestPeriod,
  Requests,
  Verified,
} from './dashboard-data.ts';
import type { Period, Periods } from './periods.ts';

const HOUR_MS = 3_600_000;
/** What was verified so long ago at most counts as recent: a day, and the time that a verification takes. */
const RECENT_MS = 26 * HOUR_MS;
/** Rows of the list of what is in quarantine. */
const MOST_ENTRIES = 8;

/** Returns how large the archive was, from the first sample that is remembered. */
export function diskSamples(state: StateFile | undefined, { list }: Periods): Gigabytes['disk'] {
  const from = list[0]?.from ?? 0;
  const samples = (state?.entries('disk-sample') ?? []).map(({ value }) => ({
    at: value.at,
    bytes: value.log + value.catalog,
  }));
  return samples.filter(({ at }) => at >= from).sort((a, b) => a.at - b.at);
}

/** Returns the requests of all gates in periods, and the budget that they shared. */
export function requestsIn(state: StateFile | undefined, { unit, list }: Periods): Requests {
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
  // A gate of an account that has gone has no budget any more.
  const budgets = [...gates.values()].filter(({ day }) => day >= dayBefore(latest));
  return {
    unit,
    since,
    perMinute:
      budgets.length === 0 ? null : budgets.reduce((sum, { perMinute }) => sum + perMinute, 0),
    periods: list.map((period, at): RequestPeriod => {
      const { requests, refused, failed } = counts[at] ?? { requests: 0, refused: 0, failed: 0 };
      const isKnown = since !== null && period.to > since;
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

/** Returns each segment of the log with what is known of its last verification. */
export function verifiedSegments(
  state: StateFile | undefined,
  { catalog, dataDir }: { readonly catalog: Catalog; readonly dataDir: string },
  now: number,
): Verified {
  const folder = logFolder(dataDir);
  const files = new Map<number, number>();
  for (const name of readdirSync(folder)) {
    const file = parseSegmentName(name);
    // Of several generations the newest holds; where a file is just being replaced, either.
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
  const bricks = segments.map(([segment, bytes]): Brick => {
    const checkup = checkups.get(segment);
    const isWhole = checkup !== undefined && checkup.covered > 0 && checkup.covered >= checkup.end;
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

/** Returns what is in quarantine, the newest first, and how often it was tried again. */
export function quarantinedNow(
  state: StateFile | undefined,
  { quarantine }: Pick<Catalog, 'quarantine'>,
  isShown: (host: string, mailbox: string) => boolean,
): Quarantined {
  const open = quarantine.open().filter(({ host, mailbox }) => isShown(host, mailbox));
  const entries = open
    .toSorted((a, b) => b.since - a.since || a.uid - b.uid)
    .slice(0, MOST_ENTRIES)
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
