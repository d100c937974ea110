import type { SearchHit } from '../catalog/search/hit.ts';
import type { UnknownName } from '../catalog/search/resolve.ts';
import type { SearchPlan } from '../catalog/search/search.ts';
import { displayWidth, fitColumns, terminalLine, terminalSafe } from '../mail/terminal-safe.ts';
import type { SearchNode, SearchQuery } from '../search/ast.ts';
import type { Output } from './output.ts';
import { placeText } from './place-line.ts';

/** A hit as two lines: the message, and the piece of its text that matched; then one for each attachment that did. */
export function hitText({ line, matches, attachmentMatches }: SearchHit, output: Output): string {
  const more = line.places.length - 1;
  const also = more > 0 ? output.colours.dim(` +${more}`) : '';
  const attached = line.matchedAttachments.map(({ number, filename, snippet }, i) => {
    const name = fitColumns(terminalLine(filename ?? '(no name)'), MOST_OF_A_NAME);
    const before = `[${number}] ${name}: `;
    const piece = snippetText(snippet, attachmentMatches[i] ?? [], output, displayWidth(before));
    return `    ${output.colours.dim(before)}${piece}`;
  });
  return [
    `${placeText(line, output)}${also}`,
    // The beginning of the text explains nothing where an attachment is why the message was found.
    ...(line.snippet === '' || (matches.length === 0 && attached.length > 0)
      ? []
      : [`    ${snippetText(line.snippet, matches, output)}`]),
    ...attached,
  ].join('\n');
}

/** Columns of an attachment's name. */
const MOST_OF_A_NAME = 40;

/**
 * The snippet with what matched in bold, fitted to a terminal, where `taken` columns stand before it. Each piece is
 * made harmless before it is marked.
 */
function snippetText(
  text: string,
  matches: SearchHit['matches'],
  output: Output,
  taken = 0,
): string {
  const pieces: { readonly text: string; readonly matched: boolean }[] = [];
  let at = 0;
  for (const { start, end } of matches) {
    pieces.push({ text: text.slice(at, start), matched: false });
    pieces.push({ text: text.slice(start, end), matched: true });
    at = end;
  }
  pieces.push({ text: text.slice(at), matched: false });
  let room = output.interactive ? output.columns - 5 - taken : Number.POSITIVE_INFINITY;
  return pieces
    .map((piece) => {
      const shown = room > 0 ? fitColumns(harmless(piece.text), room) : '';
      room -= displayWidth(shown);
      return piece.matched ? output.colours.bold(shown) : shown;
    })
    .join('');
}

function harmless(piece: string): string {
  return terminalSafe(piece).replace(/\s/g, ' ');
}

/** A name in a query that nothing has now; what never was is an error already. */
export function unknownText({ kind, found, never }: UnknownName): string {
  const name = `${kind} "${terminalLine(found)}"`;
  return never ? `the archive has no ${name}` : `nothing in the archive is in the ${name} now`;
}

/** How a query was understood, as a tree, and the statements that answer it. */
export function explainText(query: SearchQuery, plan: SearchPlan): string {
  return [
    ...nodeLines(query.node, ''),
    ...(query.asOf === null ? [] : [`as of ${new Date(query.asOf).toISOString()}`]),
    ...plan.drives.flatMap(({ driver, sql }) => ['', `by ${driver}:`, ...sql.map(terminalLine)]),
  ].join('\n');
}

function nodeLines(node: SearchNode, indent: string): string[] {
  const { kind, span: _span, ...rest } = node;
  if (kind === 'and' || kind === 'or') {
    return [`${indent}${kind}`, ...node.nodes.flatMap((part) => nodeLines(part, `${indent}  `))];
  }
  if (kind === 'not') return [`${indent}not`, ...nodeLines(node.node, `${indent}  `)];
  return [`${indent}${kind} ${terminalLine(JSON.stringify(rest))}`];
}
