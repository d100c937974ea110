import type { Catalog } from '../../../catalog/catalog.ts';
import type { SearchHit } from '../../../catalog/search/hit.ts';
import type { SearchPlan, SearchRequest, SearchResult } from '../../../catalog/search/search.ts';
import type { Reader } from '../../../engine/archive/reader.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import {
  displayWidth,
  fitColumns,
  terminalLine,
  terminalSafe,
} from '../../../mail/terminal-safe.ts';
import type { SearchNode, SearchQuery } from '../../../search/ast.ts';
import type { CommandContext } from '../../context.ts';
import { type LineFormat, lineWriter, printId, SEARCH_COLUMNS } from '../../line-format.ts';
import type { Output } from '../../output.ts';
import { countingTime, footerText, placeText, shortId } from '../../place-line.ts';
import { refuseUnknown } from '../../unknown-names.ts';

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

/** Hits that are held in memory at once. */
const PAGE = 2_000;

/**
 * Returns the hits of a search in pages, of which the first names what is unknown. So a search without a limit fits into
 * memory; by relevance, which cannot be continued, there is one page.
 */
export function* searchPages(
  { search }: Pick<Catalog, 'search'>,
  request: SearchRequest,
): Generator<SearchResult, void, undefined> {
  let { limit, after } = request;
  for (;;) {
    const most = request.sort === 'relevance' ? limit : Math.min(limit, PAGE);
    const page = search({
      ...request,
      limit: most,
      ...(after === undefined ? {} : { after }),
    });
    yield page;
    limit -= most;
    after = page.hits.at(-1)?.docid;
    if (after === undefined || page.hits.length < most || limit <= 0) return;
  }
}

/**
 * Prints what a search finds.
 *
 * @throws usage-unknown-name, before anything is printed
 */
export async function printFound(
  context: CommandContext,
  reader: Reader,
  request: SearchRequest,
  format: LineFormat,
): Promise<ExitCode> {
  const { output, notices, signal } = context;
  const isIds = format === 'ids';
  const printed = await (isIds ? printIds : printHits)(context, reader, request, format);
  if (signal.aborted) return EXIT.interrupted;
  if (printed.count === 0) notices.say('Nothing found.');
  else if (printed.last !== undefined && output.interactive && format === 'text')
    notices.say(footer(context, reader, request, printed.count, printed.last));
  return EXIT.done;
}

interface Printed {
  readonly count: number;
  readonly last?: SearchHit | undefined;
}

/** Texts are neither read nor searched for what to show of them. */
async function printIds(
  { output, notices, signal }: CommandContext,
  { catalog }: Reader,
  request: SearchRequest,
): Promise<Printed> {
  refuseUnknown(catalog.explainSearch(request).unknown, notices);
  let count = 0;
  for (const id of catalog.foundIds(request)) {
    if (signal.aborted) break;
    await printId(output, id);
    count += 1;
  }
  return { count };
}

async function printHits(
  { output, notices, signal }: CommandContext,
  { catalog }: Reader,
  request: SearchRequest,
  format: LineFormat,
): Promise<Printed> {
  const lines = format === 'text' ? undefined : lineWriter(format, SEARCH_COLUMNS, output);
  let count = 0;
  let last: SearchHit | undefined;
  for (const { hits, unknown } of searchPages(catalog, request)) {
    if (last === undefined) {
      refuseUnknown(unknown, notices);
      await lines?.begin();
    }
    for (const hit of hits) {
      if (signal.aborted) return { count };
      if (lines === undefined) await output.line(hit.line, () => hitText(hit, output));
      else await lines.write(hit.line);
      count += 1;
      last = hit;
    }
  }
  return { count, last };
}

/** The line below a page; only a terminal has it, so that no script waits for what is counted. */
function footer(
  { now }: Pick<CommandContext, 'now'>,
  { catalog }: Reader,
  request: SearchRequest,
  printed: number,
  { line }: SearchHit,
): string {
  const isAll = printed < request.limit && request.after === undefined;
  const all = isAll
    ? { count: printed, complete: true }
    : catalog.countHitsWhile(request, countingTime(now));
  const next = request.sort === 'relevance' ? '-n' : `-n, or with --after ${shortId(line.id)}`;
  return footerText(printed, all, 'message', next);
}
