import type { SearchFacts } from '../../errors/search.ts';
import { jsonLine } from '../json-text.ts';
import { type Said, type Sentences, say } from './sentence.ts';

const MANUAL = '"mailkeep search --help" lists the operators.';

/** `at character 12: "frm:anna"`. */
function at({ position, found }: { readonly position: number; readonly found: string }): string {
  return `at character ${position + 1}${found === '' ? '' : `: ${jsonLine(found)}`}`;
}

function meant(suggestion: string | null, otherwise: string): string {
  return suggestion === null ? otherwise : `Did you mean ${suggestion}? ${otherwise}`;
}

const SPANS = 'a span is 90s, 15min, 6h, 3d, 2w, 6mo or 1y.';

function badDate(facts: { operator: string; position: number; found: string }): Said {
  const span = facts.operator === 'older_than' || facts.operator === 'newer_than';
  // Other programs take it for either.
  const [, count] = /^(\d{1,6})m$/i.exec(facts.found) ?? [];
  return say(
    `${facts.operator} takes a ${span ? 'span' : 'date'}, ${at(facts)} is none.`,
    count !== undefined
      ? `Write ${count}min for minutes, ${count}mo for months.`
      : span
        ? SPANS.replace('a', 'A')
        : `A date is 2026-03-01, 2026-03 or 2026; ${SPANS}`,
  );
}

const PARTS: Readonly<Record<SearchFacts['search-too-complex']['of'], string>> = {
  terms: 'words and filters',
  depth: 'brackets within each other',
  alternatives: 'alternatives, once its filters are multiplied out',
  prefixes: 'words with a star',
  stars: 'words with a star, once filters are multiplied out',
  phrase: 'words in one phrase',
  near: 'words around NEAR',
  ranked: 'words to rank by; an order by date takes more',
};

export const SEARCH_SENTENCES: Sentences<SearchFacts> = {
  'search-empty': () => say('There is nothing to look for.', MANUAL),
  'search-unknown-operator': (facts) =>
    say(
      `There is no such operator ${at(facts)}.`,
      meant(
        facts.suggestion === null ? null : `${facts.suggestion}:`,
        `Put it in quotes to look for it as text. ${MANUAL}`,
      ),
    ),
  'search-foreign-operator': (facts) =>
    say(
      `An archive has nothing that this operator could find, ${at(facts)}.`,
      meant(facts.instead, MANUAL),
    ),
  'search-missing-value': (facts) =>
    say(
      `There is nothing to look for behind the operator ${at(facts)}.`,
      'Write it without a blank between: from:anna, subject:"rent due".',
    ),
  'search-bad-value': (facts) =>
    say(
      `${facts.operator} does not know what stands ${at(facts)}.`,
      meant(facts.suggestion, `It knows: ${facts.expected.join(', ')}.`),
    ),
  'search-bad-date': badDate,
  'search-ambiguous-date': (facts) =>
    say(
      `The date ${at(facts)} could be read in two ways.`,
      `Write it as year-month-day: ${facts.operator}:2026-03-01.`,
    ),
  'search-bad-size': (facts) =>
    say(
      `${facts.operator} takes a size, ${at(facts)} is none.`,
      'A size is 500, 20k, 5M or 1G bytes.',
    ),
  'search-unbalanced': (facts) =>
    say(
      `A quotation mark or bracket has no partner ${at(facts)}.`,
      /["“”„]/.test(facts.found)
        ? 'Close it, or leave it out. A shell takes quotation marks away: write \'"two words"\' there.'
        : 'Close it, or put quotation marks around it to look for it as text.',
    ),
  'search-missing-operand': (facts) =>
    say(`Something to look for is missing beside what stands ${at(facts)}.`),
  'search-near-operand': (facts) =>
    say(`NEAR stands between words and phrases only; look ${at(facts)}.`),
  'search-misplaced-asof': (facts) =>
    say(`asof: is about the whole query, and stands once and outside brackets; look ${at(facts)}.`),
  'search-short-prefix': (facts) =>
    say(
      `Too many words begin like what stands ${at(facts)}.`,
      `Write ${facts.least} letters or more before the star.`,
    ),
  'search-too-long': ({ length, limit }) =>
    say(`The query is ${length} characters long; ${limit} are taken.`),
  'search-too-complex': ({ limit, of }) =>
    say(`The query is too complex: more than ${limit} ${PARTS[of]}.`, 'Make two queries of it.'),
};
