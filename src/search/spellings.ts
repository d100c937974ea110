import { searchError } from '../errors/usage.ts';
import type { SearchNode, TextNode } from './ast.ts';

/** Words and phrases of one query, each in all its spellings. */
const SPELLINGS_LIMIT = 64;
/** Of them, those with a star: the index puts together all words that begin so. */
const PREFIX_LIMIT = 6;

/** How a letter is written without its mark, apart from the plain letter, which the index has for both. */
const LONG: Readonly<Record<string, string>> = { ä: 'ae', ö: 'oe', ü: 'ue', å: 'aa', ø: 'oe' };
const VARIABLE = /[äöüåø]|[aou]e|aa/giu;

/**
 * Returns a query that finds its words in every spelling of their umlauts: Müller finds Mueller, Mueller finds Müller,
 * and so for å, ø and their pairs of letters. ß, æ and œ need nothing: the index has ss, ae and oe for them.
 *
 * @throws search-too-complex
 */
export function respelled(node: SearchNode): SearchNode {
  let count = 0;
  let prefixes = 0;
  const tally = ({ prefix }: TextNode): void => {
    count += 1;
    prefixes += prefix ? 1 : 0;
    if (count > SPELLINGS_LIMIT)
      throw searchError('search-too-complex', { limit: SPELLINGS_LIMIT, of: 'spellings' });
    if (prefixes > PREFIX_LIMIT)
      throw searchError('search-too-complex', { limit: PREFIX_LIMIT, of: 'prefixes' });
  };
  const below = (part: SearchNode): SearchNode => {
    switch (part.kind) {
      case 'and':
      case 'or':
        return { ...part, nodes: part.nodes.map(below) };
      case 'not':
        return { ...part, node: below(part.node) };
      case 'near': {
        const combined = product(part.terms.map(spellingsOf));
        for (const terms of combined) terms.forEach(tally);
        return either(combined.map((terms) => ({ ...part, terms })));
      }
      case 'text': {
        const spellings = spellingsOf(part);
        spellings.forEach(tally);
        return either(spellings);
      }
      default:
        return part;
    }
  };
  return below(node);
}

function either(nodes: readonly SearchNode[]): SearchNode {
  const [first] = nodes;
  return first !== undefined && nodes.length === 1
    ? first
    : { kind: 'or', nodes, span: first?.span ?? { start: 0, end: 0 } };
}

/** Returns a word or phrase in its spellings, as it was typed first. An exact address has one. */
function spellingsOf(node: TextNode): TextNode[] {
  const text = node.text.normalize('NFC');
  if (/^<.*>$/u.test(text)) return [node];
  const parts: string[][] = [];
  let done = 0;
  for (const { 0: letters, index } of text.matchAll(VARIABLE)) {
    const short = letters.length === 1 ? LONG[letters.toLowerCase()] : letters[0];
    parts.push([text.slice(done, index)], [letters, short ?? letters]);
    done = index + letters.length;
  }
  return product([...parts, [text.slice(done)]]).map((one) => ({ ...node, text: one.join('') }));
}

/** Returns every choice of one item of each list. @throws search-too-complex */
function product<T>(lists: readonly (readonly T[])[]): T[][] {
  let chosen: T[][] = [[]];
  for (const list of lists) {
    chosen = chosen.flatMap((before) => list.map((item) => [...before, item]));
    if (chosen.length > SPELLINGS_LIMIT)
      throw searchError('search-too-complex', { limit: SPELLINGS_LIMIT, of: 'spellings' });
  }
  return chosen;
}
