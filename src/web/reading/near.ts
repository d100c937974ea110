import type { SearchHit } from '../../catalog/search/hit.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { SearchNode } from '../../search/ast.ts';
import { parseQuery } from '../../search/parse.ts';
import type { Near } from '../pages/message-props.ts';
import { within } from './mail-list.ts';
import { asOf, filterText } from './query-text.ts';

/** A page is not worth waiting for longer than this, in milliseconds, for each of the numbers. */
const COUNTING_MS = 25;

/** Characters of the longest address that mail can be sent to (RFC 5321, sections 4.5.3.1.1 and 4.5.3.1.2). */
const MOST_ADDRESS = 320;

/** Returns the mail around a message: of its sender, its day, its folder; as the archive knew it at a time. */
export function nearTo(
  reader: Pick<Reader, 'catalog'>,
  { line }: SearchHit,
  moment: number | null,
  now: number,
): readonly Near[] {
  const { from, date } = line;
  const [place] = line.places;
  const around: Omit<Near, 'found'>[] = [];
  if (from !== null && from.address.length <= MOST_ADDRESS)
    around.push({
      label: `All mail with ${from.name === '' ? from.address : from.name}`,
      query: `contact:<${from.address}>`,
    });
  if (date !== null) around.push({ label: 'That day', query: dayQuery(Date.parse(date)) });
  if (place !== undefined)
    around.push({
      label: place.folder,
      query: `${filterText('mailbox', place.mailbox)} ${filterText('in', place.folder)}`,
    });
  return around.flatMap(({ label, query }) => {
    const node = understood(query, now);
    if (node === null) return [];
    const request = { node, asOf: moment ?? undefined };
    const found = reader.catalog.countHitsWhile(request, within(COUNTING_MS));
    return [{ label, query: asOf(query, moment), found }];
  });
}

/** Strangers choose addresses and people choose folders: not each of them can be written in a query. */
function understood(query: string, now: number): SearchNode | null {
  try {
    return parseQuery(query, { now }).node;
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'usage') throw error;
    return null;
  }
}

/** The day of a moment in the zone of this machine, in which queries are understood. */
function dayQuery(ms: number): string {
  const at = new Date(ms);
  const day = new Date(Date.UTC(at.getFullYear(), at.getMonth(), at.getDate()));
  return `on:${day.toISOString().slice(0, 10)}`;
}
