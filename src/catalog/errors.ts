import { defineErrors, type Sentence } from '../core/errors.ts';
import { jsonLine } from '../core/terminal-safe.ts';

const MANUAL = '"mailkeep search --help" lists the operators.';

/** `position` counts UTF-16 code units from 0. `found` is the text at that position. */
type At = {
  position: number;
  found: string;
};

/** Formats text and position as `"next" (character 8)`. */
function quoted({
  position,
  found,
}: {
  readonly position: number;
  readonly found: string;
}): string {
  return `${jsonLine(found)} (character ${position + 1})`;
}

/** Omits quotation marks, which would turn the suggestion into a phrase. */
function didYouMean(suggestion: string | null, fallback: string): string {
  return suggestion === null ? fallback : `Did you mean ${suggestion}? ${fallback}`;
}

/** Subject prefixes of replies and forwarded messages, which are not operators. */
const SUBJECT_PREFIX = /^(re|fwd?|aw|wg|sv|vs|antw):$/i;

const SPANS = 'a span is 90s, 15min, 6h, 3d, 2w, 6mo or 1y.';

function badDate(facts: { operator: string; position: number; found: string }): Sentence {
  const span = facts.operator === 'older_than' || facts.operator === 'newer_than';
  // Ambiguous: other programs use `m` for minutes or months.
  const [, count] = /^(\d{1,6})m$/i.exec(facts.found) ?? [];
  return [
    `${quoted(facts)} is not a ${span ? 'time span' : 'date'}.`,
    count !== undefined
      ? `Write ${count}min for minutes, ${count}mo for months.`
      : span
        ? SPANS.replace('a', 'A')
        : `A date is 2026-03-01, 2026-03 or 2026; ${SPANS}`,
  ];
}

/** Returns a hint for `>1M` and `<1M`, which have their own operators here. */
function comparison(found: string): string {
  const [, sign, size] = /^([<>])=?(\w+)$/.exec(found) ?? [];
  if (sign === undefined) return '';
  return `Write ${sign === '>' ? 'larger' : 'smaller'}:${size} instead. `;
}

const BRACKETS: Readonly<Record<string, string>> = {
  '(': 'Unclosed bracket',
  '{': 'Unclosed bracket',
  ')': 'Unopened bracket',
  '}': 'Unopened bracket',
  '”': 'Unopened quotation mark',
};

/** `-` and NOT apply to the term on their right; the others join two terms. */
function sides(found: string): string {
  return found === '-' || found === 'NOT' ? 'its right' : 'both sides';
}

const WILDCARDS: Readonly<Record<'*' | '?' | '|' | '/', (found: string) => Sentence>> = {
  '*': (found) => [
    `A star is not supported in ${found}.`,
    'Write it at the end of a word or after a closing quotation mark: inv*, "rent inv"*.',
  ],
  '?': (found) => [
    `A question mark in ${found} is not a wildcard.`,
    'Write the first letters with a star instead, such as inv*.',
  ],
  '|': (found) => [
    `${found} has no spaces around its bar.`,
    'Write rent | deposit, or rent OR deposit.',
  ],
  '/': (found) => [
    `Regular expressions such as ${found} are not supported.`,
    'Write words (inv* for a beginning), or put the text in quotation marks to search for it.',
  ],
};

const PARTS = {
  terms: 'words and filters',
  depth: 'nested brackets',
  alternatives: 'alternatives, once its filters are multiplied out',
  prefixes: 'words with a star',
  stars: 'words with a star, once filters are multiplied out',
  phrase: 'words in one phrase',
  near: 'words around NEAR',
  ranked: 'words to rank by; an order by date takes more',
  spellings: 'spellings of its words, because of spelling:any',
} as const;

/** An error in the query; exit code 2. */
export const searchError = defineErrors({
  usage: {
    /** The query is empty, or contains only characters that are never indexed. */
    'search-empty': (_: { query: string }) => ['There is nothing to search for.', MANUAL],
    /** `suggestion` is the operator most likely meant. Quotes turn the term into plain text. */
    'search-unknown-operator': (facts: At & { suggestion: string | null }) => [
      `Unknown operator ${quoted(facts)}.`,
      didYouMean(
        facts.suggestion === null || SUBJECT_PREFIX.test(facts.found)
          ? null
          : `${facts.suggestion}:`,
        `Put it in quotes to search for it as text. ${MANUAL}`,
      ),
    ],
    /** An operator from another program, for data that archives do not have. `instead` is an operator to try. */
    'search-foreign-operator': (facts: At & { instead: string | null }) => [
      `The operator ${quoted(facts)} is known from other programs but not supported: an archive has nothing it could match.`,
      didYouMean(facts.instead === null ? null : `${facts.instead}:`, MANUAL),
    ],
    'search-missing-value': (facts: At & { expected: string }) => [
      `The operator ${quoted(facts)} has no value.`,
      'Write the value without a space before it: from:anna, subject:"rent due".',
    ],
    /** `expected` lists the valid values. */
    'search-bad-value': (
      facts: At & { operator: string; expected: readonly string[]; suggestion: string | null },
    ) => {
      const { operator, suggestion, expected } = facts;
      return [
        `Unknown value ${quoted(facts)} for ${operator}:.`,
        didYouMean(
          suggestion === null ? null : `${operator}:${suggestion}`,
          `The values are ${expected.join(', ')}.`,
        ),
      ];
    },
    'search-bad-date': badDate,
    'search-ambiguous-date': (facts: At & { operator: string }) => [
      `The date ${quoted(facts)} is ambiguous: day and month may be swapped.`,
      `Write it as year-month-day: ${facts.operator}:2026-03-01.`,
    ],
    'search-bad-size': (facts: At & { operator: string }) => [
      `${quoted(facts)} is not a size.`,
      `${comparison(facts.found)}A size is 500, 20k, 5M or 1G bytes.`,
    ],
    'search-unbalanced': ({ found, position }: At) => [
      `${BRACKETS[found] ?? 'Unclosed quotation mark'} at character ${position + 1}.`,
      /["“”„]/.test(found)
        ? 'Close it, or leave it out. A shell removes quotation marks: write \'"two words"\' there.'
        : 'Balance the brackets, or put quotation marks around the text to search for it literally.',
    ],
    'search-missing-operand': (facts: At) =>
      `${quoted(facts)} needs something to search for on ${sides(facts.found)}.`,
    'search-near-operand': (facts: At) => `${quoted(facts)} joins words and phrases only.`,
    'search-misplaced-asof': (facts: At) =>
      `${quoted(facts)}: asof: applies to the complete query: write it once, outside brackets.`,
    'search-short-prefix': (facts: At & { least: number }) => [
      `Too many words begin like ${quoted(facts)}.`,
      `Write ${facts.least} letters or more before the star.`,
    ],
    /** A character that other programs use as a wildcard, alternative or regular expression. */
    'search-bad-wildcard': (facts: At & { sign: '*' | '?' | '|' | '/' }) =>
      WILDCARDS[facts.sign](quoted(facts)),
    'search-too-long': ({ length, limit }: { length: number; limit: number }) =>
      `The query is ${length} characters long; the limit is ${limit}.`,
    'search-too-complex': (f: { limit: number; of: keyof typeof PARTS }) => [
      `The query is too complex: more than ${f.limit} ${PARTS[f.of]}.`,
      'Split it into two queries.',
    ],
  },
});

export const rebuildError = defineErrors({
  interrupted: {
    'rebuild-interrupted': (_: { commits: number }) => [
      'Interrupted. The catalog is as it was before.',
      'Run "mailkeep rebuild" again.',
    ],
  },
  retryable: ['rebuild-interrupted'],
});
