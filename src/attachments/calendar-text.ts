/** Properties of a calendar entry that people would search for. */
const TOLD =
  /^(?:summary|description|location|comment|contact|organizer|attendee|dtstart|dtend|url|categories|x-alt-desc)$/i;

/**
 * The words of an iCalendar file (RFC 5545): its lines unfolded, what stands around the values left out, escapes
 * undone. A file that has no such lines is its text as it is.
 */
export function calendarText(source: string): string {
  const lines = source
    .replace(/\r\n?/g, '\n')
    .replace(/\n[ \t]/g, '')
    .split('\n');
  const told = lines.flatMap((line) => {
    const property = /^([A-Za-z0-9-]+)((?:;(?:"[^"]*"|[^":])*)?):(.*)$/s.exec(line);
    if (property === null || !TOLD.test(property[1] ?? '')) return [];
    const name = /;CN=("[^"]*"|[^;:]*)/i.exec(property[2] ?? '')?.[1] ?? '';
    const value = (property[3] ?? '')
      .replace(/\\n/gi, '\n')
      .replace(/\\([,;\\])/g, '$1')
      .replace(/^mailto:/i, '');
    return [`${name.replaceAll('"', '')} ${value}`.trim()];
  });
  return told.length === 0 ? source : told.join('\n');
}
