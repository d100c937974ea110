import type { ListSort } from '../../reading/list-place.ts';
import type { ListBar, ListSpine } from '../../reading/spine.ts';

/** A stretch of the spine: a month, week or day with messages, or the time between two of them, however long it is. */
export interface SpineSlot {
  /** Milliseconds since the epoch, from `from` (included) to `to` (excluded). */
  readonly from: number;
  readonly to: number;
  readonly bar: ListBar | null;
  /** Messages that came since the moment that the list is of. */
  readonly later: number;
  /** Messages above it. */
  readonly before: number;
}

/** The spine from top to bottom. Positions on it are parts of its length, from 0 to 1. */
export interface SpineScale {
  readonly sort: ListSort;
  readonly unit: ListSpine['unit'];
  readonly slots: readonly SpineSlot[];
  readonly messages: number;
  /** Messages of the fullest slot. */
  readonly most: number;
}

/** Lays the bars of a spine out in the order of the list. */
export function spineScale({ bars, unit, messages }: ListSpine, sort: ListSort): SpineScale {
  const ordered = sort === 'newest' ? bars.toReversed() : bars;
  const slots: SpineSlot[] = [];
  let before = 0;
  for (const bar of ordered) {
    const above = slots.at(-1);
    const gap =
      above === undefined
        ? null
        : sort === 'newest'
          ? { from: bar.to, to: above.from }
          : { from: above.to, to: bar.from };
    if (gap !== null && gap.from < gap.to) slots.push({ ...gap, bar: null, later: 0, before });
    const { from, to, later = 0 } = bar;
    slots.push({ from, to, bar: bar.messages > 0 ? bar : null, later, before });
    before += bar.messages;
  }
  const most = bars.reduce((found, { messages: m, later = 0 }) => Math.max(found, m + later), 0);
  return { sort, unit, slots, messages, most };
}

/** Returns the moment at a position. */
export function timeAt(scale: SpineScale, position: number): number {
  const { slots, sort } = scale;
  const slot = slotAt(scale, position);
  if (slot === undefined) return 0;
  const part = clamp(position) * slots.length - slots.indexOf(slot);
  const { from, to } = slot;
  // The last moment of a slot belongs to it, the first one of the next does not.
  const last = to - 1;
  return Math.round(sort === 'newest' ? last - part * (last - from) : from + part * (last - from));
}

/** Returns the slot at a position; undefined for a spine without any. */
export function slotAt({ slots }: SpineScale, position: number): SpineSlot | undefined {
  return slots[Math.min(slots.length - 1, Math.floor(clamp(position) * slots.length))];
}

/** Returns the position of a moment; what lies beyond the spine is at its ends. */
export function positionOf({ slots, sort }: SpineScale, time: number): number {
  let [low, high] = [0, slots.length];
  // The first slot that does not lie completely above the moment.
  while (low < high) {
    const middle = (low + high) >> 1;
    const slot = slots[middle];
    const isAbove = slot !== undefined && (sort === 'newest' ? slot.from > time : slot.to <= time);
    if (isAbove) low = middle + 1;
    else high = middle;
  }
  const slot = slots[low];
  if (slot === undefined) return slots.length === 0 ? 0 : 1;
  const last = slot.to - 1;
  const length = Math.max(1, last - slot.from);
  const part = clamp(sort === 'newest' ? (last - time) / length : (time - slot.from) / length);
  return (low + part) / slots.length;
}

/** Returns about how many messages come before a moment, in the order of the list. */
export function messagesBefore(scale: SpineScale, time: number): number {
  const { slots } = scale;
  const position = positionOf(scale, time);
  const slot = slotAt(scale, position);
  if (slot === undefined) return 0;
  const part = position * slots.length - slots.indexOf(slot);
  return Math.min(
    Math.max(0, scale.messages - 1),
    slot.before + Math.floor(part * (slot.bar?.messages ?? 0)),
  );
}

/** Returns the beginning of the bar that is so many bars away from a moment, as the list meets it; null beyond the ends. */
export function stepFrom(scale: SpineScale, time: number, bars: number): number | null {
  const filled = scale.slots.filter(({ bar }) => bar !== null);
  if (filled.length === 0) return null;
  const isNewest = scale.sort === 'newest';
  const reached = filled.findIndex(({ from, to }) => (isNewest ? from <= time : time < to));
  const at = reached < 0 ? filled.length : reached;
  const wanted = at + bars;
  if (wanted < 0 || wanted >= filled.length) return null;
  const slot = filled[wanted];
  if (slot === undefined) return null;
  return isNewest ? slot.to - 1 : slot.from;
}

/** A word at the spine: a year, a month or a day. */
export interface SpineLabel {
  readonly text: string;
  /** Number of the slot that it stands at. */
  readonly slot: number;
  readonly isYear: boolean;
}

/** Words for a year, month and day, in the reader's zone. */
export interface DateWords {
  readonly year: (time: number) => string;
  readonly month: (time: number) => string;
  readonly day: (time: number) => string;
}

/**
 * Returns the words along a spine that have room: years first, then months, then days.
 *
 * @param room slots that one word takes at least
 */
export function spineLabels(scale: SpineScale, words: DateWords, room: number): SpineLabel[] {
  const taken: SpineLabel[] = [];
  const isFree = (slot: number) => taken.every((label) => Math.abs(label.slot - slot) >= room);
  const levels = [
    { word: words.year, isYear: true },
    ...(scale.unit === 'day'
      ? [
          { word: words.month, isYear: false },
          { word: words.day, isYear: false },
        ]
      : [{ word: words.month, isYear: false }]),
  ];
  for (const { word, isYear } of levels) {
    let above = '';
    for (const [slot, { from, to, bar, later }] of scale.slots.entries()) {
      if (bar === null && later === 0) continue;
      // The middle: a week belongs to the month that has most of it.
      const text = word((from + to) / 2);
      if (text !== above && isFree(slot)) taken.push({ text, slot, isYear });
      above = text;
    }
  }
  return taken.toSorted((a, b) => a.slot - b.slot);
}

function clamp(part: number): number {
  return Number.isNaN(part) ? 0 : Math.min(1, Math.max(0, part));
}
