import type { Span } from '../../search/ast.ts';
import { type Token, tokenize } from '../../search/lexer.ts';

export type Tint = 'text' | 'op' | 'neg' | 'past';

/** A stretch of the query as it is drawn. */
export interface Ink extends Span {
  readonly tint: Tint;
  /** What an error is about. */
  readonly wrong: boolean;
}

/** Cuts a query into stretches that are drawn alike: operators are tinted, text is not. */
export function inkOf(query: string, wrong: Span | null): Ink[] {
  const edges = new Set([0, query.length]);
  const tinted = tokenize(query).tokens.filter((token) => tintOf(token) !== 'text');
  for (const { start, end } of wrong === null ? tinted : [...tinted, wrong])
    for (const edge of [start, end]) if (edge <= query.length) edges.add(edge);
  const cuts = [...edges].sort((a, b) => a - b);
  const stretches: Ink[] = [];
  let at = 0;
  for (const [i, start] of cuts.entries()) {
    const end = cuts[i + 1];
    if (end === undefined) break;
    while ((tinted[at]?.end ?? query.length) <= start && at < tinted.length) at += 1;
    const token = tinted[at];
    const tint = token !== undefined && token.start <= start ? tintOf(token) : 'text';
    const isWrong = wrong !== null && wrong.start <= start && end <= wrong.end;
    stretches.push({ start, end, tint, wrong: isWrong });
  }
  return stretches;
}

function tintOf(token: Token): Tint {
  switch (token.type) {
    case 'word':
    case 'phrase':
      return 'text';
    case '-':
    case 'NOT':
      return 'neg';
    case 'operator':
      return token.name.toLowerCase() === 'asof' ? 'past' : 'op';
    default:
      return 'op';
  }
}
