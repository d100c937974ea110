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
  const rows =
    scope === undefined
      ? connection.all(PLACES, { docid })
      : connection.all(PLACES_WITHIN, { docid, mailboxes: JSON.stringify(scope.mailboxes) });
  for (const place of rows) {
    const key = { folder: place.folder_id, generation: place.generation, uid: place.uid };
    const name = names.get(place.folder_id);
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
    for (const { commit, event, ...more } of steps)
      lines.push({
        time: isoTime(timeOf(connection, commit) ?? null),
        commit,
        event,
        id,
        mailbox: name?.address ?? '',
        folder: name?.path ?? '',
        generation: place.generation,
        uid: place.uid,
        ...more,
      });
  }
  return lines.sort((a, b) => a.commit - b.commit);
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
