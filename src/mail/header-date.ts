/**
 * Prefixes of month names in English, German, Dutch, French, Spanish, Italian, Portuguese, Danish, Swedish, Polish and
 * Russian, in lower case without accents.
 */
const MONTHS: readonly RegExp[] = [
  /^(?:jan|gen|ene|sty|янв)/,
  /^(?:feb|fev|lut|фев)/,
  /^(?:mar|maa|mrt|mrz|мар)/,
  /^(?:apr|avr|abr|kwi|апр)/,
  /^(?:may|mai$|maio|mei$|mag|maj|маи|мая)/,
  /^(?:jun|juin|giu|cze|июн)/,
  /^(?:jul|juil|lug|lip|июл)/,
  /^(?:aug|aou|ago|sie|авг)/,
  /^(?:sep|set|wrz|сен)/,
  /^(?:oct|okt|ott|out|paz|окт)/,
  /^(?:nov|lis|ноя)/,
  /^(?:dec|dez|dic|gru|дек)/,
];

/** Names for Tuesday that start like March. */
const WEEKDAY = /^(?:martedi|martes|mardi|mar)$/;

/**
 * Unambiguous zone names (RFC 5322, 4.3, and others) in minutes east of UTC. As in the RFC, any other name means UTC.
 */
const ZONES: Readonly<Record<string, number>> = {
  ...{ est: -300, edt: -240, cst: -360, cdt: -300, mst: -420, mdt: -360, pst: -480, pdt: -420 },
  ...{ akst: -540, akdt: -480, hst: -600, cet: 60, cest: 120, met: 60, mest: 120, mez: 60 },
  ...{ mesz: 120, bst: 60, west: 60, eet: 120, eest: 180, msk: 180, msd: 240, sast: 120 },
  ...{ jst: 540, kst: 540, hkt: 480, sgt: 480, awst: 480, aest: 600, aedt: 660, nzst: 720 },
  ...{ nzdt: 780 },
};

const MAX_CHARS = 256;

const ISO = /(?<!\d)(\d{4})(?:[-/.]|年 ?)(\d{1,2})(?:[-/.]|月 ?)(\d{1,2})(?!\d)日?/;
const COMPACT = /(?<!\d)(\d{4})(\d\d)(\d\d)t?(\d\d)(\d\d)(\d\d)?(?!\d)/;
const NUMERIC = /(?<!\d)(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d\d)(?!\d)/;
const TIME =
  /(?<!\d)(\d{1,2})(?:[:.h](\d\d)(?:[:.](\d\d)(?:[.,]\d{1,9})?)?|(?= ?[ap]\.?m))(?![\d:]) ?(?:([ap])\.?m\b\.?)?/;
const OFFSET = /(?:\b(?:gmt|utc|ut)|[ z]|(?<=\d)(?=[-+]))([-+])(\d\d?)(?::?(\d\d))?(?!\d)/;

/** 1971-01-01 to 2200-01-01. Other dates are garbage, or come from clocks that were not set. */
const EARLIEST = 31_536_000_000;
const LATEST = 7_258_118_400_000;

interface Day {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

/**
 * Parses the time in a Date, Received or "From " line. Accepts RFC 5322, ctime, ISO 8601 and other unambiguous formats.
 * Unlike `Date.parse`, never depends on the machine's time zone: a date without a zone is in UTC, and one without a
 * time means the start of the day.
 *
 * @returns milliseconds since the epoch, or null if there is no plausible time
 */
export function parseHeaderDate(text: string): number | null {
  const plain = removeComments(text.slice(0, MAX_CHARS))
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/\s+/g, ' ')
    .toLowerCase();
  const compact = COMPACT.exec(plain);
  if (compact !== null) {
    const [whole, ...parts] = compact;
    const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.map((part) =>
      Number(part ?? 0),
    );
    const zone = parseZone(` ${plain.slice(compact.index + whole.length)}`);
    return toTime({ year, month, day }, [hour, minute, second], zone);
  }
  // Remove a numeric date before looking for the time, which can also contain dots.
  const numeric = ISO.exec(plain) ?? NUMERIC.exec(plain);
  const timeText =
    numeric === null
      ? plain
      : `${plain.slice(0, numeric.index)} ${plain.slice(numeric.index + numeric[0].length).replace(/^t/, '')}`;
  const time = TIME.exec(timeText);
  const before = time === null ? timeText : timeText.slice(0, time.index);
  const after = time === null ? '' : timeText.slice(time.index + time[0].length);
  const [, hour = '0', minute = '0', second = '0', half] = time ?? [];
  const day = numeric === null ? parseNamedDay(before, after) : parseNumericDay(numeric, half);
  if (day === null) return null;
  const hours = half === undefined ? Number(hour) : to24Hours(Number(hour), half);
  return toTime(day, [hours, Number(minute), Number(second)], parseZone(` ${after}`));
}

/** Removes comments, which can be nested (RFC 5322, 3.2.2). An unclosed comment extends to the end. */
function removeComments(text: string): string {
  let depth = 0;
  let result = '';
  for (const char of text) {
    if (char === '(') depth += 1;
    else if (char === ')') depth = Math.max(0, depth - 1);
    else if (depth === 0) result += char;
    if (char === '(') result += ' ';
  }
  return result;
}

function to24Hours(hour: number, half: string): number {
  // Some programs add "PM" to 24-hour times: 13:05 PM.
  if (hour > 12) return hour;
  return (hour % 12) + (half === 'p' ? 12 : 0);
}

/**
 * Parses a date with a month name, such as `3 march 2020`, `march 3, 2020`, `3-mar-20`, or ctime with the year last.
 */
function parseNamedDay(before: string, after: string): Day | null {
  const words = [...before.matchAll(/\p{L}{3,}|\d+/gu)].map(([word]) => word);
  const names = words.flatMap((word, at) => {
    const month = MONTHS.findIndex((name) => name.test(word));
    return month < 0 ? [] : [{ word, at, month: month + 1 }];
  });
  // In `mar 3 mar 2020`, the first `mar` is Tuesday in Italian. The month is next to a number.
  const match =
    names.length > 1
      ? (names.findLast(({ word }) => !WEEKDAY.test(word)) ?? names.at(-1))
      : names[0];
  if (match === undefined) return null;
  const numbers = words.map((word, at) => ({ at, word })).filter(({ word }) => /^\d/.test(word));
  const years = [...after.matchAll(/(?<![-+\d:])\d{4}(?!\d)/g)].map(([year]) => year);
  const [first, second] = numbers.slice(-2);
  const isLone = second === undefined;
  // The year comes first in `2020 march 3`, and after the time in ctime.
  const isYearFirst = !isLone && (first?.word.length ?? 0) >= 3;
  const dayText = isYearFirst ? second?.word : first?.word;
  const yearText = isLone ? years[0] : isYearFirst ? first?.word : second.word;
  if (dayText === undefined || yearText === undefined || yearText.length < 2) return null;
  return { year: expandYear(yearText), month: match.month, day: Number(dayText) };
}

function parseNumericDay(match: RegExpExecArray, half: string | undefined): Day | null {
  const [whole, first = '', second = '', third = '', fourth = ''] = match;
  if (/^\d{4}/.test(whole)) {
    return { year: Number(first), month: Number(second), day: Number(third) };
  }
  const [a, b] = [Number(first), Number(third)];
  const year = expandYear(fourth);
  // Dots always mean day before month. Only American dates combine slashes with AM or PM.
  if (second === '.' || a > 12 || a === b) return { year, month: b, day: a };
  return b > 12 || (second === '/' && half !== undefined) ? { year, month: a, day: b } : null;
}

/** Returns a zone's offset in minutes east of UTC. */
function parseZone(text: string): number {
  const [, sign, hours, minutes = '0'] = OFFSET.exec(text) ?? [];
  if (sign !== undefined && Number(hours) <= 15 && Number(minutes) < 60) {
    return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
  }
  const name = [...text.matchAll(/[a-z]{2,5}/g)].map(([word]) => ZONES[word]).find(Boolean);
  return name ?? 0;
}

/** Expands two- and three-digit years (RFC 5322, 4.3). */
function expandYear(text: string): number {
  const year = Number(text);
  if (text.length > 3) return year;
  return year < 50 ? 2000 + year : 1900 + year;
}

function toTime(
  { year, month, day }: Day,
  [hour, minute, second]: readonly [number, number, number],
  minutesEast: number,
): number | null {
  const isTime =
    minute < 60 && second <= 60 && (hour < 24 || (hour === 24 && minute + second === 0));
  if (month < 1 || month > 12 || !isTime) return null;
  // JavaScript has no leap seconds.
  const utc = Date.UTC(year, month - 1, day, hour, minute, Math.min(59, second));
  if (day < 1 || day > new Date(Date.UTC(year, month, 0)).getUTCDate()) return null;
  const time = utc - minutesEast * 60_000;
  return time >= EARLIEST && time < LATEST ? time : null;
}
