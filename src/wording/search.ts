import type { SearchFacts } from '../errors/usage.ts';
import { jsonLine } from './json.ts';
import { type Said, type Sentences, say } from './sentence.ts';

const MANUAL = '"mailkeep search --help" lists the operators.';

/** `"next" (character 8)`: what stands there, and where. */
function quoted({
  position,
  found,
}: {
  readonly position: number;
  readonly found: string;
}): string {
  return `${jsonLine(found)} (character ${position + 1})`;
}

const SPANS = 'a span is 90s, 15min, 6h, 3d, 2w, 6mo or 1y.';

function badDate(facts: { operator: string; position: number; found: string }): Said {
  const span = facts.operator === 'older_than' || facts.operator === 'newer_than';
  // Other programs take it for either.
  const [, count] = /^(\d{1,6})m$/i.exec(facts.found) ?? [];
  return say(
    `${quoted(facts)} is not a ${span ? 'time span' : 'date'}.`,
    count !== undefined
      ? `Write ${count}min for minutes, ${count}mo for months.`
      : span
        ? SPANS.replace('a', 'A')
        : `A date is 2026-03-01, 2026-03 or 2026; ${SPANS}`,
  );
}

const BRACKETS: Readonly<Record<string, string>> = {
  '(': 'Unclosed bracket',
  '{': 'Unclosed bracket',
  ')': 'Unopened bracket',
  '}': 'Unopened bracket',
  '”': 'Unopened quotation mark',
};

/** Without quotation marks, which would be a phrase in a query. */
function meant(suggestion: string | null, otherwise: string): string {
  return suggestion === null ? otherwise : `Did you mean ${suggestion}? ${otherwise}`;
}

/** What mail programs put before the subject of an answer or a forwarded message: nobody means an operator by it. */
const SUBJECT_PREFIX = /^(re|fwd?|aw|wg|sv|vs|antw):$/i;

/** `-` and NOT exclude what follows them; the others join. */
function sides(found: string): string {
  return found === '-' || found === 'NOT' ? 'its right' : 'both sides';
}

/** `>1M` and `<1M` are operators of their own. */
function comparison(found: string): string {
  const [, sign, size] = /^([<>])=?(\w+)$/.exec(found) ?? [];
  if (sign === undefined) return '';
  return `Write ${sign === '>' ? 'larger' : 'smaller'}:${size} instead. `;
}

const PARTS: Readonly<Record<SearchFacts['search-too-complex']['of'], string>> = {
  terms: 'words and filters',
  depth: 'nested brackets',
  alternatives: 'alternatives, once its filters are multiplied out',
  prefixes: 'words with a star',
  stars: 'words with a star, once filters are multiplied out',
  phrase: 'words in one phrase',
  near: 'words around NEAR',
  ranked: 'words to rank by; an order by date takes more',
  spellings: 'spellings of its words, because of spelling:any',
};

type Wildcard = SearchFacts['search-bad-wildcard'];

const WILDCARDS: Readonly<Record<Wildcard['sign'], (found: string) => Said>> = {
  '*': (found) =>
    say(
      `A star is not supported in ${found}.`,
      'Write it at the end of a word or after a closing quotation mark: inv*, "rent inv"*.',
    ),
  '?': (found) =>
    say(
      `A question mark in ${found} is not a wildcard.`,
      'Write the first letters with a star instead, such as inv*.',
    ),
  '|': (found) =>
    say(`${found} has no spaces around its bar.`, 'Write rent | deposit, or rent OR deposit.'),
  '/': (found) =>
    say(
      `Regular expressions such as ${found} are not supported.`,
      'Write words (inv* for a beginning), or put the text in quotation marks to search for it.',
    ),
};

export const SEARCH_SENTENCES: Sentences<SearchFacts> = {
  'search-empty': () => say('There is nothing to search for.', MANUAL),
  'search-unknown-operator': (facts) =>
    say(
      `Unknown operator ${quoted(facts)}.`,
      meant(
        facts.suggestion === null || SUBJECT_PREFIX.test(facts.found)
          ? null
          : `${facts.suggestion}:`,
        `Put it in quotes to search for it as text. ${MANUAL}`,
      ),
    ),
  'search-foreign-operator': (facts) =>
    say(
      `The operator ${quoted(facts)} is known from other programs but not supported: an archive has nothing it could match.`,
      meant(facts.instead === null ? null : `${facts.instead}:`, MANUAL),
    ),
  'search-missing-value': (facts) =>
    say(
      `The operator ${quoted(facts)} has no value.`,
      'Write the value without a space before it: from:anna, subject:"rent due".',
    ),
  'search-bad-value': (facts) => {
    const { operator, suggestion, expected } = facts;
    return say(
      `Unknown value ${quoted(facts)} for ${operator}:.`,
      meant(
        suggestion === null ? null : `${operator}:${suggestion}`,
        `The values are ${expected.join(', ')}.`,
      ),
    );
  },
  'search-bad-date': badDate,
  'search-ambiguous-date': (facts) =>
    say(
      `The date ${quoted(facts)} is ambiguous: day and month may be swapped.`,
      `Write it as year-month-day: ${facts.operator}:2026-03-01.`,
    ),
  'search-bad-size': (facts) =>
    say(
      `${quoted(facts)} is not a size.`,
      `${comparison(facts.found)}A size is 500, 20k, 5M or 1G bytes.`,
    ),
  'search-unbalanced': ({ found, position }) =>
    say(
      `${BRACKETS[found] ?? 'Unclosed quotation mark'} at character ${position + 1}.`,
      /["“”„]/.test(found)
        ? 'Close it, or leave it out. A shell removes quotation marks: write \'"two words"\' there.'
        : 'Balance the brackets, or put quotation marks around the text to search for it literally.',
    ),
  'search-missing-operand': (facts) =>
    say(`${quoted(facts)} needs something to search for on ${sides(facts.found)}.`),
  'search-near-operand': (facts) => say(`${quoted(facts)} joins words and phrases only.`),
  'search-misplaced-asof': (facts) =>
    say(`${quoted(facts)}: asof: applies to the complete query: write it once, outside brackets.`),
  'search-short-prefix': (facts) =>
    say(
      `Too many words begin like ${quoted(facts)}.`,
      `Write ${facts.least} letters or more before the star.`,
    ),
  'search-bad-wildcard': (facts) => WILDCARDS[facts.sign](quoted(facts)),
  'search-too-long': ({ length, limit }) =>
    say(`The query is ${length} characters long; the limit is ${limit}.`),
  'search-too-complex': ({ limit, of }) =>
    say(`The query is too complex: more than ${limit} ${PARTS[of]}.`, 'Split it into two queries.'),
};
