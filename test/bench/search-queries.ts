import { type Seeded, seeded } from './seeded.ts';
import { wordOf } from './synthetic-catalog.ts';

/** A named kind of search, with different queries of it, so that no page is asked for twice in a row. */
export interface QueryKind {
  readonly name: string;
  query(i: number): string;
}

/** Ranks of words in the made-up language: in a third, in one of fifty, and in one of a thousand messages or so. */
const COMMON = 3;
const MIDDLE = 300;
const RARE = 20_000;
const VARIETY = 20;

const common = (i: number) => wordOf(COMMON + (i % VARIETY));
const rare = (i: number) => wordOf(RARE + (i % VARIETY));

/** What people type, and combinations in which each side matches many messages without the other. */
export const QUERY_KINDS: readonly QueryKind[] = [
  { name: 'common word', query: common },
  { name: 'middling word', query: (i) => wordOf(MIDDLE + (i % VARIETY)) },
  { name: 'rare word', query: rare },
  { name: 'phrase', query: (i) => `"${wordOf(i % 5)} ${wordOf(5 + (i % 4))}"` },
  { name: 'word is:unread', query: (i) => `${common(i)} is:unread` },
  { name: 'word in:folder', query: (i) => `${common(i)} in:Folder3` },
  { name: 'word has:attachment', query: (i) => `${common(i)} has:attachment` },
  { name: 'word before:', query: (i) => `${common(i)} before:2020` },
  { name: 'word larger:', query: (i) => `${common(i)} larger:20k` },
  { name: 'word from:', query: (i) => `${common(i)} from:person${i % 5}` },
  { name: 'word, rare folder', query: (i) => `${common(i)} in:Rare` },
  { name: 'rare word, rare folder', query: (i) => `${rare(i)} in:Rare` },
  { name: 'rare word, rare flag', query: (i) => `${rare(i)} flag:rare` },
  { name: 'rare word is:starred', query: (i) => `${rare(i)} is:starred` },
];

/** Queries put together by chance of all that the language has; many are odd, some are refused. */
export function generatedQueries(count: number, seed: number): string[] {
  const random = seeded('generated queries', seed);
  return Array.from({ length: count }, () => {
    const parts = Array.from({ length: 1 + random.below(random.below(6) === 0 ? 12 : 4) }, () =>
      condition(random),
    );
    return parts.join(random.below(5) === 0 ? ' OR ' : ' ');
  });
}

function condition(random: Seeded): string {
  const one = atom(random);
  switch (random.below(9)) {
    case 0:
      return `-${one}`;
    case 1:
      return `(${one} OR ${atom(random)})`;
    case 2:
      return `-(${one} ${atom(random)})`;
    case 3:
      return `(${one} OR ${atom(random)} OR ${atom(random)})`;
    default:
      return one;
  }
}

function atom(random: Seeded): string {
  const word = () => wordOf(Math.floor(40_000 * random.next() ** 4));
  const atoms: readonly (() => string)[] = [
    word,
    word,
    () => `"${word()} ${word()}"`,
    () => `"${wordOf(random.below(4))} ${wordOf(random.below(4))} ${wordOf(random.below(4))}"`,
    () => `${word().slice(0, 2)}*`,
    () => `${word()} NEAR/${1 + random.below(30)} ${word()}`,
    () => `subject:${word()}`,
    () => `from:person${random.below(2_000)}`,
    () => `in:Folder${1 + random.below(17)}`,
    () => ['in:INBOX', 'in:Rare', 'in:F*', 'in:nowhere'][random.below(4)] ?? '',
    () => ['is:unread', 'is:read', 'is:starred', 'is:draft', 'is:deleted'][random.below(5)] ?? '',
    () => ['has:attachment', 'flag:rare', 'mime:image/*', 'list:example'][random.below(4)] ?? '',
    () => `${random.below(2) === 0 ? 'before' : 'after'}:${2011 + random.below(16)}`,
    () => `${random.below(2) === 0 ? 'larger' : 'smaller'}:${1 + random.below(40)}k`,
  ];
  return atoms[random.below(atoms.length)]?.() ?? '';
}

/** What takes the longest of what is allowed. */
export const HARD_QUERIES: readonly string[] = [
  Array.from({ length: 50 }, (_, i) => wordOf(i)).join(' OR '),
  Array.from({ length: 16 }, (_, i) => wordOf(i)).join(' OR '),
  Array.from({ length: 50 }, (_, i) => wordOf(i)).join(' '),
  `"${Array.from({ length: 49 }, (_, i) => wordOf(i % 3)).join(' ')}"`,
  Array.from({ length: 5 }, (_, i) => wordOf(i)).join(' NEAR/50 '),
  `(${wordOf(0)} OR larger:1G) (${wordOf(1)} OR is:draft) (${wordOf(2)} OR in:Rare)`,
  `-(${wordOf(0)} in:INBOX) -(${wordOf(1)} is:unread) -(${wordOf(2)} is:read)`,
  '-is:read -is:unread',
  Array.from({ length: 17 }, (_, i) => `-in:Folder${i + 1}`).join(' '),
  'is:unread asof:2027-01-01',
  `${wordOf(0)} larger:1G`,
  'ba* be* bi* bo* bu* ca*',
  'ba* OR be* OR bi* OR bo* OR bu* OR ca*',
  `in:Rare is:unread ${wordOf(0)} larger:1G`,
];
