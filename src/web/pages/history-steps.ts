import type { HistoryLine, LastSeen } from '../../catalog/message-history.ts';
import { eventText } from '../../wording/history.ts';

/** Something that happened to a message, or the moment that the page shows. */
export interface HistoryStep {
  /** Milliseconds since the epoch; null where that is not known. */
  readonly ms: number | null;
  readonly kind: 'fact' | 'ended' | 'here';
  readonly title: string;
  /** What else is known, each a sentence without a point. */
  readonly details: readonly string[];
  readonly place: Pick<HistoryLine, 'mailbox' | 'folder' | 'uid'> | null;
  readonly commit: number | null;
  /** Of a deletion: when the message was last known to be there; milliseconds since the epoch, null where that is not known. */
  readonly seen: number | null;
  /** It happened after the moment that the page shows. */
  readonly isLater: boolean;
}

const EVENTS: Readonly<Record<string, string>> = {
  appeared: 'Appeared',
  flags: 'Flags changed',
  ended: 'Deleted at the service',
  reopened: 'Came back',
  held: 'Held',
  quarantined: 'Quarantined',
  verified: 'Verified: read back, every byte',
  imported: 'Imported',
  moved: 'Moved',
};

/**
 * Returns the history of a message as a line of time, oldest first.
 *
 * @param lastSeen when the message was last known to be where it was found gone
 * @param received when the service received it; milliseconds since the epoch, or null
 * @param asOf the moment that the page shows; null for now
 */
export function historySteps(
  lines: readonly HistoryLine[],
  lastSeen: readonly LastSeen[],
  received: number | null,
  asOf: number | null,
): HistoryStep[] {
  const steps: HistoryStep[] = [];
  if (received !== null) steps.push(step(received, { title: 'Received', kind: 'fact' }));
  const flags = new Map<string, readonly string[]>();
  for (const line of lines) {
    const { event, time, mailbox, folder, uid, commit } = line;
    const place = `${mailbox} ${folder} ${line.generation} ${uid}`;
    const before = flags.get(place);
    if (line.flags !== undefined) flags.set(place, line.flags);
    const now = line.flags ?? [];
    const change = event === 'flags' ? flagsText(before ?? [], now) : '';
    const movedAway = event === 'ended' && line.detail?.reason === 'moved';
    const title = movedAway ? 'Moved away' : change || (EVENTS[event] ?? event);
    steps.push(
      step(time === null ? null : Date.parse(time), {
        title: event === 'appeared' ? `${title}${stateText(now)}` : title,
        kind: event === 'ended' && !movedAway ? 'ended' : 'fact',
        details: [
          ...(line.flags !== undefined && now.length > 0 ? [`flags: ${now.join(' ')}`] : []),
          ...(event === 'appeared' && isEmpty(line.detail) ? [] : eventText(event, line.detail)),
        ],
        place: { mailbox, folder, uid },
        commit,
        seen: event === 'ended' ? (lastSeen.find(isSameEnd(line))?.seen ?? null) : null,
      }),
    );
  }
  if (asOf === null) return steps;
  const at = steps.findIndex(({ ms }) => ms !== null && ms > asOf);
  const here = step(asOf, { title: 'You are looking at this moment', kind: 'here' });
  if (at < 0) return [...steps, here];
  const later = steps.slice(at).map((one) => ({ ...one, isLater: true }));
  return [...steps.slice(0, at), here, ...later];
}

function isSameEnd(line: HistoryLine): (end: LastSeen) => boolean {
  return ({ commit, generation, uid }) =>
    commit === line.commit && generation === line.generation && uid === line.uid;
}

function step(
  ms: number | null,
  known: Pick<HistoryStep, 'title' | 'kind'> & Partial<HistoryStep>,
): HistoryStep {
  return { ms, details: [], place: null, commit: null, seen: null, isLater: false, ...known };
}

function isEmpty(detail: HistoryLine['detail']): boolean {
  return detail === undefined || Object.keys(detail).length === 0;
}

function stateText(flags: readonly string[]): string {
  const words = [
    flags.includes('\\Seen') ? 'read' : 'unread',
    ...(flags.includes('\\Flagged') ? ['starred'] : []),
  ];
  return `, ${words.join(' and ')}`;
}

const SET: Readonly<Record<string, readonly [set: string, unset: string]>> = {
  '\\Seen': ['read', 'unread again'],
  '\\Flagged': ['starred', 'star removed'],
  '\\Answered': ['answered', 'no longer answered'],
  '\\Draft': ['a draft', 'no draft any more'],
  '\\Deleted': ['marked for deletion', 'no longer marked for deletion'],
};

/** Returns what a change of flags means, in words: `Read, and starred`; empty where only unknown flags changed. */
function flagsText(before: readonly string[], after: readonly string[]): string {
  const words = Object.entries(SET).flatMap(([flag, [set, unset]]) => {
    const [had, has] = [before.includes(flag), after.includes(flag)];
    return had === has ? [] : [has ? set : unset];
  });
  const text = words.length < 2 ? (words[0] ?? '') : words.join(', and ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}
