import type { SearchNode } from '../../src/catalog/query-ast.ts';

/** Parts of a message that have text of their own. */
export type ScannedField =
  | 'subject'
  | 'from'
  | 'to'
  | 'cc'
  | 'bcc'
  | 'delivered'
  | 'body'
  | 'filename';

/** A document and what a plain scan knows of it. */
export interface ScannedDocument {
  readonly docid: number;
  readonly fields: Readonly<Partial<Record<ScannedField, string>>>;
  readonly attachment: boolean;
  readonly size: number;
  /** Current places; when there are none, the last one, and `ended` is true. */
  readonly places: readonly { readonly folder: string; readonly flags: readonly string[] }[];
  readonly mailboxes: readonly string[];
  readonly ended: boolean;
  /** When it was stored, and when it ended; milliseconds since the epoch. */
  readonly addedAt?: number;
  readonly endedAt?: number | undefined;
}

const ALL_FIELDS: readonly ScannedField[] = [
  'subject',
  'from',
  'to',
  'cc',
  'bcc',
  'delivered',
  'body',
  'filename',
];
const PARTS: Readonly<Record<string, readonly ScannedField[]>> = {
  any: ALL_FIELDS,
  recip: ['to', 'cc', 'bcc'],
  contact: ['from', 'to', 'cc', 'bcc'],
  deliveredto: ['delivered'],
  ...Object.fromEntries(ALL_FIELDS.map((field) => [field, [field]])),
};

const LETTERS: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  ł: 'l',
  đ: 'd',
  ð: 'd',
  þ: 'th',
  ħ: 'h',
  ı: 'i',
  ё: 'е',
  ς: 'σ',
};

export const UNSPACED = /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Thai}]/u;

const LETTER = '[\\p{scx=Han}\\p{scx=Hira}\\p{scx=Kana}\\p{scx=Hang}\\p{scx=Thai}]';
/** A word ends where letters of such a script begin, and where they end. */
const RUNS = new RegExp(`(?:${LETTER}\\p{M}*)+|(?:(?!${LETTER}).)+`, 'gu');

/** All words of a text, also on one line with a blank before and after each. */
interface Line {
  readonly words: ReadonlySet<string>;
  readonly text: string;
}

const linesOf = new Map<string, Line>();

/** The words of a text as the tokenizer of the index is documented to have them: letters, digits and marks, folded. */
export function plainWords(text: string): string[] {
  const lower = text
    .normalize('NFKC')
    .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
    .toLowerCase()
    .replace(/[ßæœøłđðþħıёς]/g, (letter) => LETTERS[letter] ?? letter);
  const bare = lower
    .normalize('NFD')
    .replace(/(?<![^\p{Script=Latin}\p{Script=Greek}\P{L}][\u0300-\u036f]*)[\u0300-\u036f]/gu, '')
    .normalize('NFC');
  return (bare.match(/[\p{L}\p{N}\p{M}\p{Co}]+/gu) ?? []).flatMap((word) => word.match(RUNS) ?? []);
}

function line(text: string): Line {
  let known = linesOf.get(text);
  if (known === undefined) {
    const words = plainWords(text);
    known = { words: new Set(words), text: ` ${words.join(' ')} ` };
    linesOf.set(text, known);
  }
  return known;
}

/** Words one after the other; in scripts without spaces, characters one after the other. */
export function contains(text: string, phrase: string, prefix: boolean): boolean {
  return finder(phrase, prefix)(line(text));
}

function finder(phrase: string, prefix: boolean): (line: Line) => boolean {
  const words = plainWords(phrase);
  const [first] = words;
  if (first === undefined) return () => false;
  if (UNSPACED.test(phrase)) return ({ text }) => text.includes(first);
  const sought = ` ${words.join(' ')}${prefix ? '' : ' '}`;
  // Looking for the words spares most texts the search.
  const whole = prefix ? words.slice(0, -1) : words;
  return (all) => whole.every((word) => all.words.has(word)) && all.text.includes(sought);
}

type Test = (doc: ScannedDocument) => boolean;

/**
 * The plain scan: a query is a list of alternatives, each a list of conditions. Those on places that are asked
 * for, not excluded, mean one place; two folders mean a place in each.
 */
export function matcher(node: SearchNode): Test {
  const ways = waysOf(node, true).map((way): Test => {
    const places = way.filter(({ test, holds }) => holds && isPlaceTest(test));
    const folders = places.filter(({ test }) => test.kind === 'folder');
    const states = places.filter(({ test }) => test.kind !== 'folder');
    const together = (folders.length === 0 ? [states] : folders.map((one) => [one, ...states])).map(
      (tests) => tests.map(({ test }) => placeTest(test)),
    );
    const others = way.flatMap((one) => {
      if (places.includes(one)) return [];
      const fits = testOf(one.test);
      return [(doc: ScannedDocument) => fits(doc) === one.holds];
    });
    return (doc) =>
      together.every((tests) => oneOf(doc, tests)) && others.every((holds) => holds(doc));
  });
  return (doc) => ways.some((way) => way(doc));
}

interface Condition {
  readonly test: SearchNode;
  readonly holds: boolean;
}

function waysOf(node: SearchNode, holds: boolean): Condition[][] {
  if (node.kind === 'not') return waysOf(node.node, !holds);
  if (node.kind !== 'and' && node.kind !== 'or') return [[{ test: node, holds }]];
  const parts = node.nodes.map((part) => waysOf(part, holds));
  if ((node.kind === 'or') === holds) return parts.flat();
  return parts.reduce(
    (ways, part) => ways.flatMap((way) => part.map((more) => [...way, ...more])),
    [[]] as Condition[][],
  );
}

function isPlaceTest(node: SearchNode): boolean {
  return node.kind === 'folder' || (node.kind === 'state' && node.state !== 'deleted');
}

const linesOfDocs = new WeakMap<ScannedDocument, Readonly<Record<ScannedField, Line>>>();

function linesIn(doc: ScannedDocument): Readonly<Record<ScannedField, Line>> {
  const known =
    linesOfDocs.get(doc) ??
    (Object.fromEntries(
      ALL_FIELDS.map((field) => [field, line(doc.fields[field] ?? '')]),
    ) as Record<ScannedField, Line>);
  linesOfDocs.set(doc, known);
  return known;
}

function testOf(node: SearchNode): Test {
  switch (node.kind) {
    case 'all':
      return () => true;
    case 'text': {
      const parts = PARTS[node.field] ?? [];
      const isIn = finder(node.text, node.prefix);
      return (doc) => {
        const lines = linesIn(doc);
        return parts.some((part) => isIn(lines[part]));
      };
    }
    case 'has':
      return ({ attachment }) => attachment;
    case 'folder':
    case 'state': {
      const test = placeTest(node);
      return isPlaceTest(node) ? (doc) => oneOf(doc, [test]) : ({ ended }) => ended;
    }
    case 'mailbox':
      return ({ mailboxes }) => mailboxes.includes(node.value);
    case 'received':
      return ({ docid }) => isBetween(Math.floor(docid / 64) * 1000, node);
    case 'observed':
      return ({ addedAt, ended, endedAt }) => {
        const at = node.what === 'added' ? addedAt : ended ? endedAt : undefined;
        return at !== undefined && isBetween(at, node);
      };
    case 'size':
      return ({ size }) => (node.min ?? 0) <= size && size <= (node.max ?? Infinity);
    default:
      throw new Error(`the scan knows no ${node.kind}`);
  }
}

function isBetween(
  time: number,
  { from, to }: { from: number | null; to: number | null },
): boolean {
  return (from === null || time >= from) && (to === null || time < to);
}

type PlaceTest = (place: ScannedDocument['places'][number]) => boolean;

function placeTest(node: SearchNode): PlaceTest {
  if (node.kind === 'folder') return ({ folder: path }) => path === node.value;
  if (node.kind === 'state') {
    const seen = (flags: readonly string[]) => flags.includes('\\Seen');
    const starred = (flags: readonly string[]) => flags.includes('\\Flagged');
    if (node.state === 'unread') return ({ flags }) => !seen(flags);
    if (node.state === 'read') return ({ flags }) => seen(flags);
    if (node.state === 'starred') return ({ flags }) => starred(flags);
  }
  return () => true;
}

function oneOf(doc: ScannedDocument, tests: readonly PlaceTest[]): boolean {
  return doc.places.some((at) => tests.every((fits) => fits(at)));
}
