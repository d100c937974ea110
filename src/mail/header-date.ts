const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/** Minutes east of UTC of the obsolete zone names (RFC 5322, 4.3); any other name means UTC there too. */
const ZONES: Readonly<Record<string, number>> = {
  est: -300,
  edt: -240,
  cst: -360,
  cdt: -300,
  mst: -420,
  mdt: -360,
  pst: -480,
  pdt: -420,
  cet: 60,
  cest: 120,
  bst: 60,
};

const DATE_TIME =
  /(\d{1,2})[ \t-]+([a-z]{3})[a-z]*[ \t.,-]+(\d{2,4})[ \t]+(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?(?:\.\d+)?[ \t]*(?:([+-])(\d{2}):?(\d{2})|([a-z]+))?/i;
/** `Thu Jan  1 12:30:00 2026`: ctime, as in mbox "From " lines, with an optional zone before the year. */
const CTIME =
  /([a-z]{3})[ \t]+(\d{1,2})[ \t]+(\d{1,2}):(\d{2})(?::(\d{2}))?[ \t]+(?:([a-z]{3,4})[ \t]+)?(\d{4})/i;

/** 1970-01-01 to 2200-01-01: a received date outside of it comes from a broken clock. */
const EARLIEST = 0;
const LATEST = 7_258_118_400_000;

/**
 * Returns the time in a Date, Received or "From " line, in milliseconds since the epoch. Never depends on the
 * machine's zone (which Date.parse does for a text without one): no zone means UTC.
 *
 * @returns null where no plausible time is found
 */
export function parseHeaderDate(text: string): number | null {
  const plain = DATE_TIME.exec(text);
  if (plain !== null) {
    const [, day, month, year, hour, minute, second, sign, zoneHours, zoneMinutes, zoneName] =
      plain;
    const east =
      zoneHours !== undefined
        ? (sign === '-' ? -1 : 1) * (Number(zoneHours) * 60 + Number(zoneMinutes))
        : (ZONES[(zoneName ?? '').toLowerCase()] ?? 0);
    return instant(fullYear(Number(year)), month ?? '', day, hour, minute, second, east);
  }
  const ctime = CTIME.exec(text);
  if (ctime === null) return null;
  const [, month, day, hour, minute, second, zoneName, year] = ctime;
  const east = ZONES[(zoneName ?? '').toLowerCase()] ?? 0;
  return instant(Number(year), month ?? '', day, hour, minute, second, east);
}

/** Two and three digit years (RFC 5322, 4.3). */
function fullYear(year: number): number {
  if (year < 50) return 2000 + year;
  return year < 1000 ? 1900 + year : year;
}

function instant(
  year: number,
  monthName: string,
  day: string | undefined,
  hour: string | undefined,
  minute: string | undefined,
  second: string | undefined,
  minutesEast: number,
): number | null {
  const month = MONTHS.indexOf(monthName.toLowerCase());
  if (month < 0) return null;
  const utc = Date.UTC(
    year,
    month,
    Number(day),
    Number(hour),
    Number(minute),
    // A leap second has no number of its own here.
    Math.min(59, Number(second ?? 0)),
  );
  const time = utc - minutesEast * 60_000;
  return time >= EARLIEST && time < LATEST ? time : null;
}
