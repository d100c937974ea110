import { LineQuotes } from '../mailfiles/mbox.ts';
import type { NamedMessage } from './names.ts';

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/** The "From " line of a message: its sender where that is one plain word, and its received time in UTC, as asctime writes it. */
export function fromLine({ from, date }: Pick<NamedMessage, 'from' | 'date'>): string {
  const address = from?.address ?? '';
  const plain = address.includes('@', 1) && !address.endsWith('@') && /^[!-~]+$/.test(address);
  const sender = plain ? address : 'MAILER-DAEMON';
  const at = new Date(date ?? 0);
  const two = (value: number, fill = '0'): string => String(value).padStart(2, fill);
  const day = `${DAYS[at.getUTCDay()]} ${MONTHS[at.getUTCMonth()]} ${two(at.getUTCDate(), ' ')}`;
  const time = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
  return `From ${sender} ${day} ${time} ${String(at.getUTCFullYear()).padStart(4, '0')}\n`;
}

/** Letters of Status and X-Status, as mutt, Dovecot and Thunderbird's importers read them. */
const STATUS = [['\\seen', 'R']] as const;
const X_STATUS = [
  ['\\answered', 'A'],
  ['\\flagged', 'F'],
  ['\\draft', 'T'],
  ['\\deleted', 'D'],
] as const;

/** Header lines that tell a message's flags; keywords that are no single word are left out. */
export function statusHeaders(flags: readonly string[], lineEnd: string): string {
  const set = new Set(flags.map((flag) => flag.toLowerCase()));
  const letters = (table: readonly (readonly [string, string])[]): string =>
    table.map(([flag, letter]) => (set.has(flag) ? letter : '')).join('');
  const keywords = flags.filter((flag) => /^[!-[\]-~]+$/.test(flag));
  // O: it is no longer new.
  const lines = [`Status: ${letters(STATUS)}O`];
  if (letters(X_STATUS) !== '') lines.push(`X-Status: ${letters(X_STATUS)}`);
  if (keywords.length > 0) lines.push(`X-Keywords: ${keywords.join(' ')}`);
  return lines.map((line) => line + lineEnd).join('');
}

/** The pieces of a source with every "From " line quoted, and a line end at the end where there is none. */
export async function* quotedPieces(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
): AsyncGenerator<Buffer, { readonly lineEndAdded: boolean }, undefined> {
  const quotes = new LineQuotes(1);
  let last: number | undefined;
  const noted = (piece: Buffer): Buffer => {
    if (piece.length > 0) last = piece[piece.length - 1];
    return piece;
  };
  for await (const piece of pieces) for (const settled of quotes.take(piece)) yield noted(settled);
  for (const rest of quotes.end()) yield noted(rest);
  // An empty source needs none: it ends where it begins.
  const lineEndAdded = last !== undefined && last !== 0x0a;
  if (lineEndAdded) yield Buffer.from('\n');
  return { lineEndAdded };
}
