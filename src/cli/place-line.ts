import type { HitCount } from '../catalog/search/search.ts';
import type { PlaceLine } from '../mail/lines.ts';
import { displayWidth, fitColumns, padColumns, terminalLine } from '../mail/terminal-safe.ts';
import { count, counted, localTime } from '../wording/amounts.ts';
import type { Output } from './output.ts';

/** Columns of one name: more than any address or path that people choose. */
const MOST = 200;

/**
 * Returns an address, a folder's path or both for a line of a report: harmless for a terminal, and cut to 200 columns,
 * because a service may name things at any length. JSON has them in full.
 */
export function shownName(...parts: readonly string[]): string {
  return parts.map((part) => fitColumns(terminalLine(part), MOST)).join(' / ');
}

/**
 * Returns a command to type, which works on the same archive.
 *
 * @param data the folder that `--data` names, if any
 */
export function commandLine(command: string, data: string | undefined): string {
  if (data === undefined) return `mailkeep ${command}`;
  const word = /^[\w@%+=:,./-]+$/.test(data) ? data : `'${data.replaceAll("'", "'\\''")}'`;
  return terminalLine(`mailkeep ${command} --data ${word}`);
}

/** Counting starts when the page is printed, and only a person waits for it. */
const COUNTING_MS = 100;

/** Returns a function that says whether there is time left to count what does not fit on a page. */
export function countingTime(now: () => number): () => boolean {
  const end = now() + COUNTING_MS;
  return () => now() < end;
}

/**
 * Returns the line below a page: how many there are in all, and how to get more.
 *
 * @param noun what is counted, such as `message`
 * @param more options that print more, such as `-n`
 */
export function footerText(shown: number, all: HitCount, noun: string, more: string): string {
  if (all.complete && all.count <= shown) return counted(shown, noun);
  const many = all.complete ? counted(all.count, noun) : `more than ${counted(all.count, noun)}`;
  return `${count(shown)} of ${many}; more with ${more}`;
}

/** The characters of an id that people read; enough to distinguish the messages of one archive. */
export const SHORT_ID = 8;

export function shortId(id: string | null): string {
  return id === null ? 'quarant.' : id.slice(0, SHORT_ID);
}

export function senderText(from: PlaceLine['from']): string {
  if (from === null) return '';
  return from.name === '' ? from.address : from.name;
}

/** A received date as people read it, in their time zone. */
export function dateText(date: string | null): string {
  return date === null ? 'no date'.padEnd(16) : localTime(Date.parse(date));
}

interface Columns {
  readonly sender: number;
  readonly subject: number;
  /** 0: not shown. */
  readonly folder: number;
}

/** Where nobody measures lines, nothing is cut short that a reader may want whole. */
const UNMEASURED: Columns = { sender: 24, subject: 60, folder: Number.POSITIVE_INFINITY };
/** Date, id and flags, with the blanks behind them. */
const START_COLUMNS = 16 + 2 + SHORT_ID + 1 + 2 + 1;

/** A narrower terminal has a place in three lines. */
const ONE_LINE_COLUMNS = 64;

/** How a terminal's line is shared, the same for every line of a list. */
function columnsOf(output: Output, ended: number): Columns {
  if (!output.interactive) return UNMEASURED;
  const folder = output.columns >= 110 ? 24 : output.columns >= 78 ? 14 : 0;
  const room = output.columns - START_COLUMNS - (folder === 0 ? 0 : folder + 2) - ended - 2;
  const sender = Math.max(8, Math.min(24, Math.floor(room / 3)));
  return { sender, subject: Math.max(8, room - sender), folder };
}

/** One place as a line: fitted to the terminal, whole elsewhere. */
export function placeText(place: PlaceLine, output: Output): string {
  const { colours } = output;
  const unread = !place.flags.includes('\\Seen');
  const flagged = place.flags.includes('\\Flagged') ? '*' : ' ';
  const ended = place.endedAt === null ? '' : `  deleted ${dateText(place.endedAt)}`;
  const columns = columnsOf(output, ended.length);
  const start = `${dateText(place.date)}  ${shortId(place.id)} ${unread ? 'N' : ' '}${flagged} `;
  if (output.interactive && output.columns < ONE_LINE_COLUMNS) {
    const room = output.columns - 2;
    const about = `${terminalLine(senderText(place.from))}: ${terminalLine(place.subject ?? '(no subject)')}`;
    const shown = fitColumns(about, room);
    const folder = tailColumns(terminalLine(place.folder), Math.max(0, room - ended.length));
    return [
      colours.dim(start.trimEnd()),
      `  ${unread ? colours.bold(shown) : shown}`,
      colours.dim(`  ${folder}${ended}`),
    ].join('\n');
  }
  const sender = padColumns(terminalLine(senderText(place.from)), columns.sender);
  const subject = padColumns(terminalLine(place.subject ?? '(no subject)'), columns.subject);
  const folder =
    columns.folder === 0 ? '' : `  ${tailColumns(terminalLine(place.folder), columns.folder)}`;
  return [
    colours.dim(`${start}${sender}  `),
    unread ? colours.bold(subject) : subject,
    colours.dim(`${folder}${ended}`),
  ].join('');
}

/** The end of a path, which distinguishes folders better than their beginning. */
function tailColumns(path: string, columns: number): string {
  if (displayWidth(path) <= columns) return path;
  // No character takes less than one column, but for marks that join the one before.
  const characters = [...path.slice(-4 * columns)];
  while (displayWidth(characters.join('')) > columns - 1) characters.shift();
  return `…${characters.join('')}`;
}
