import type { FlagSet, MessageId } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import { folderNames } from './folder-names.ts';
import { isoTime, timeOf } from './moments.ts';
import type { PlaceQueries } from './places.ts';
import { type Builder, query } from './query.ts';
import { foldersOf, type Scope } from './scope.ts';

/** Something that happened to a message at a place. `detail` holds the remaining fields of the fact. */
export interface HistoryLine {
  readonly time: string | null;
  readonly commit: number;
  readonly event: string;
  readonly id: MessageId;
  readonly mailbox: string;
  readonly folder: string;
  readonly generation: number;
  readonly uid: number;
  readonly flags?: FlagSet;
  readonly detail?: Readonly<Record<string, unknown>>;
}

const placesOf = (db: Builder, docid: number) =>
  db
    .selectFrom('places')
    .select(['id', 'folder_id', 'generation', 'uid'])
    .select(['from_commit', 'to_commit', 'flag_set', 'reason'])
    .where('docid', '=', docid)
    .orderBy('id');
const PLACES = query<{ docid: number }>()((db, p) => placesOf(db, p.docid));
/** The same in some mailboxes, a JSON array of their numbers. */
const PLACES_WITHIN = query<{ docid: number; mailboxes: string }>()((db, p) =>
  placesOf(db, p.docid).where('folder_id', 'in', foldersOf(p.mailboxes)),
);
const SPANS = query<{ place: number }>()((db, p) =>
  db
    .selectFrom('spans')
    .select(['from_commit', 'to_commit', 'flag_set', 'resumed', 'reason'])
    .where('place_id', '=', p.place)
    .orderBy('from_commit')
    .orderBy('id'),
);
const EVENTS = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .selectFrom('events')
    .select(['commit_number', 'event', 'detail'])
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation, uid: p.uid }))
    .orderBy('id'),
);
const QUARANTINED = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .selectFrom('quarantine')
    .select(['from_commit', 'to_commit', 'reason', 'detail'])
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation, uid: p.uid }))
    .orderBy('id'),
);
/** The last complete comparison of a folder in commits of `from` to `to`, without the last. */
const COMPARED = query<{ folder: number; generation: number; from: number; to: number }>()(
  (db, p) =>
    db
      .selectFrom('certificates')
      .select('since')
      .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation }))
      .where('complete', '=', (eb) => eb.lit(1))
      .where('commit_number', '>=', p.from)
      .where('commit_number', '<', p.to)
      .orderBy('commit_number', 'desc')
      .limit((eb) => eb.lit(1)),
);

type Step = Pick<HistoryLine, 'commit' | 'event' | 'flags' | 'detail'>;

/** Returns everything that happened to a message, in the order of commits; empty for an unknown docid. With a scope, at its places there. */
export function history(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  docid: number,
  id: MessageId,
  scope?: Scope,
): HistoryLine[] {
  const names = folderNames(connection);
  const lines: HistoryLine[] = [];
  for (const { folder, generation, uid, steps } of stepsByPlace(connection, places, docid, scope)) {
    const name = names.get(folder);
    for (const { commit, event, ...more } of steps)
      lines.push({
        time: isoTime(timeOf(connection, commit) ?? null),
        commit,
        event,
        id,
        mailbox: name?.address ?? '',
        folder: name?.path ?? '',
        generation,
        uid,
        ...more,
      });
  }
  return lines.sort((a, b) => a.commit - b.commit);
}

/** When a message was last known to be at a place where a later commit found it gone. */
export interface LastSeen extends Pick<HistoryLine, 'commit' | 'generation' | 'uid'> {
  /** When the commit found it gone; milliseconds since the epoch, like `seen`. */
  readonly found: number;
  /** When the last complete comparison of the folder that still had it began. */
  readonly seen: number;
}

/**
 * Returns for each end of a message at a place when it was last known to be there. Only a complete comparison that is in
 * the log proves that: an end without one in its time is left out.
 */
export function lastSeen(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  docid: number,
  scope?: Scope,
): LastSeen[] {
  const ends: LastSeen[] = [];
  for (const { folder, generation, uid, steps } of stepsByPlace(connection, places, docid, scope)) {
    let from = 0;
    /** What the brake holds was missed already, though its place is still open. */
    let missed: number | null = null;
    for (const { commit, event, detail } of steps.toSorted((a, b) => a.commit - b.commit)) {
      if (event === 'appeared' || event === 'reopened') [from, missed] = [commit, null];
      else if (event === 'held') missed = detail?.held === true ? (missed ?? commit) : null;
      if (event !== 'ended') continue;
      const within = { folder, generation, from, to: missed ?? commit };
      const seen = Date.parse(connection.get(COMPARED, within)?.since ?? '');
      const found = timeOf(connection, commit);
      // Also false for NaN; clocks are set back at times.
      if (found !== undefined && seen < found) ends.push({ commit, generation, uid, found, seen });
    }
  }
  return ends;
}

interface PlaceSteps {
  readonly folder: number;
  readonly generation: number;
  readonly uid: number;
  readonly steps: readonly Step[];
}

function* stepsByPlace(
  connection: Connection,
  places: Pick<PlaceQueries, 'flags'>,
  docid: number,
  scope: Scope | undefined,
): Generator<PlaceSteps, void, undefined> {
  const rows =
    scope === undefined
      ? connection.all(PLACES, { docid })
      : connection.all(PLACES_WITHIN, { docid, mailboxes: JSON.stringify(scope.mailboxes) });
  for (const place of rows) {
    const key = { folder: place.folder_id, generation: place.generation, uid: place.uid };
    const spans = connection.all(SPANS, { place: place.id });
    const last = { ...place, resumed: null };
    const events = connection.all(EVENTS, key).map(
      (event): Step => ({
        commit: event.commit_number,
        event: event.event,
        detail: parseDetail(event.detail),
      }),
    );
    const said = (step: Step): Step => ({
      ...step,
      ...events.find(({ commit, event }) => commit === step.commit && event === step.event),
    });
    const steps: Step[] = [
      ...intervalSteps([...spans, last], places).map(said),
      // The intervals already include these two.
      ...events.filter(({ event }) => event !== 'appeared' && event !== 'reopened'),
      ...connection.all(QUARANTINED, key).map(({ from_commit, reason, detail }) => ({
        commit: from_commit,
        event: 'quarantined',
        detail: { reason, detail },
      })),
    ];
    yield { ...key, steps };
  }
}

interface Interval {
  readonly from_commit: number;
  readonly to_commit: number | null;
  readonly flag_set: number;
  readonly resumed: number | null;
  readonly reason: string | null;
}

function intervalSteps(
  intervals: readonly Interval[],
  places: Pick<PlaceQueries, 'flags'>,
): Step[] {
  const steps: Step[] = [];
  let before: Interval | undefined;
  for (const interval of intervals) {
    const event =
      before === undefined ? 'appeared' : before.resumed === null ? 'flags' : 'reopened';
    steps.push({ commit: interval.from_commit, event, flags: places.flags(interval.flag_set) });
    const ended =
      interval.resumed !== null || (interval.to_commit !== null && interval === intervals.at(-1));
    if (ended && interval.to_commit !== null)
      steps.push({
        commit: interval.to_commit,
        event: 'ended',
        detail: { reason: interval.reason },
      });
    before = interval;
  }
  return steps;
}

function parseDetail(text: string): Readonly<Record<string, unknown>> {
  const parsed: unknown = JSON.parse(text);
  return typeof parsed === 'object' && parsed !== null ? { ...parsed } : {};
}
