import { parseHeaderDate } from '../../mail/header-date.ts';

/** A server that a message passed through, as the server itself wrote it down. Any of it may be forged. */
export interface Hop {
  /** Who handed the message over; empty where the line does not say. */
  readonly from: string;
  /** Who took it. */
  readonly by: string;
  /** How: `ESMTPS` and the like. */
  readonly with: string;
  /** Milliseconds since the epoch; null where no plausible time stands there. */
  readonly time: number | null;
  /** Milliseconds since the hop before it; negative where clocks differ, null where a time is missing. */
  readonly delay: number | null;
}

/** Hops of one message: real mail has some ten. */
const MOST_HOPS = 100;
/** Characters of a line that are read, from its beginning and for its date from its end: real ones have some 300. */
const MOST_CHARS = 4_000;
const DATE_CHARS = 200;
/** Characters of a name that are shown. */
const NAME_CHARS = 200;

/** Returns the way that a message took by its Received lines, first hop first: each server writes its line above the others. */
export function hopsOf(
  fields: readonly { readonly name: string; readonly value: string }[],
): readonly Hop[] {
  const lines = fields.filter(({ name }) => name.toLowerCase() === 'received').slice(0, MOST_HOPS);
  const hops: Hop[] = [];
  let before: number | null = null;
  for (const { value } of lines.toReversed()) {
    const hop = hopOf(value);
    const delay = hop.time === null || before === null ? null : hop.time - before;
    hops.push({ ...hop, delay });
    before = hop.time ?? before;
  }
  return hops;
}

const CLAUSES = ['from', 'by', 'with'] as const;
type Clause = (typeof CLAUSES)[number];

/** RFC 5321 section 4.4: clauses of a word and its value with comments in brackets, then a semicolon and the date. */
function hopOf(value: string): Omit<Hop, 'delay'> {
  const found: Record<Clause, string> = { from: '', by: '', with: '' };
  const seen = new Set<Clause>();
  let clause: Clause | undefined;
  for (const { text, comment } of wordsOf(value.slice(0, MOST_CHARS))) {
    const next = comment ? undefined : CLAUSES.find((word) => word === text.toLowerCase());
    if (next !== undefined && !seen.has(next)) {
      seen.add(next);
      clause = next;
    } else if (comment && clause !== 'from') {
      // Versions and ciphers; of the sender's side, a comment names what the server looked up.
    } else if (!comment && OTHER_CLAUSES.has(text.toLowerCase())) clause = undefined;
    else if (clause !== undefined && found[clause].length < NAME_CHARS) {
      const known = found[clause];
      found[clause] = `${known}${known === '' ? '' : ' '}${text}`.slice(0, NAME_CHARS);
    }
  }
  const end = value.lastIndexOf(';');
  const time = end < 0 ? null : parseHeaderDate(value.slice(end + 1).slice(0, DATE_CHARS));
  return { ...found, time };
}

const OTHER_CLAUSES = new Set(['id', 'for', 'via']);

/** The words of a line up to the semicolon outside of comments; a comment is one word, with its brackets. */
function* wordsOf(line: string): Iterable<{ readonly text: string; readonly comment: boolean }> {
  let depth = 0;
  let start = 0;
  const word = (end: number, comment: boolean) => {
    const text = line.slice(start, end).trim();
    return text === '' ? [] : [{ text, comment }];
  };
  for (let at = 0; at < line.length; at += 1) {
    const sign = line[at] ?? '';
    if (sign === '(') {
      if (depth === 0) {
        yield* word(at, false);
        start = at;
      }
      depth += 1;
    } else if (sign === ')' && depth > 0) {
      depth -= 1;
      if (depth > 0) continue;
      yield* word(at + 1, true);
      start = at + 1;
    } else if (depth === 0 && (sign === ';' || BLANK.test(sign))) {
      yield* word(at, false);
      start = at + 1;
      if (sign === ';') return;
    }
  }
  yield* word(line.length, depth > 0);
}

const BLANK = /\s/;
