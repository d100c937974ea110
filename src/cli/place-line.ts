import type { PlaceLine } from '../catalog/list.ts';
import { padColumns, terminalLine } from '../mail/terminal-safe.ts';
import { localTime } from './amounts.ts';
import type { Output } from './output.ts';

/** The characters of an id that people read; enough to tell the messages of one archive apart. */
export const SHORT_ID = 8;

export function shortId(id: string | null): string {
  return id === null ? 'quarant.' : id.slice(0, SHORT_ID);
}

export function senderText(from: PlaceLine['from']): string {
  if (from === null) return '';
  return from.name === '' ? from.address : from.name;
}

/** A received date as people read it, in their time zone; blanks where there is none. */
export function dateText(date: string | null): string {
  return date === null ? ' '.repeat(16) : localTime(Date.parse(date));
}

/** One place as a line: fitted to the terminal, whole elsewhere. */
export function placeText(place: PlaceLine, output: Output): string {
  const { colours } = output;
  const unread = !place.flags.includes('\\Seen');
  const flagged = place.flags.includes('\\Flagged') ? '*' : ' ';
  const from = padColumns(terminalLine(senderText(place.from)), 24);
  const subject = terminalLine(place.subject ?? '(no subject)');
  const ended = place.endedAt === null ? '' : `  ended ${dateText(place.endedAt)}`;
  const folder = `  ${terminalLine(place.folder)}${ended}`;
  const start = `${dateText(place.date)}  ${shortId(place.id)} ${unread ? 'N' : ' '}${flagged} ${from}  `;
  const room = output.interactive
    ? Math.max(20, output.columns - start.length - folder.length)
    : 60;
  const text = padColumns(subject, room);
  return `${colours.dim(start)}${unread ? colours.bold(text) : text}${colours.dim(folder)}`;
}
