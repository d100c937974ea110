import { type Command, Option } from 'commander';
import type { Reader } from '../../catalog/open-reader.ts';
import type { SearchNode, SearchQuery } from '../../catalog/query-ast.ts';
import {
  expandSaved,
  readSavedSearches,
  readSearchName,
  type SavedSearch,
  saveSearch,
} from '../../catalog/saved-searches.ts';
import type {
  PageRequest,
  PreparedQuery,
  SearchHit,
  SearchPage,
  SearchPlan,
} from '../../catalog/search.ts';
import type { Respelling } from '../../catalog/spelling.ts';
import { usageError } from '../../core/error-tables.ts';
import { EXIT, type ExitCode } from '../../core/errors.ts';
import { nearest } from '../../core/names.ts';
import { displayWidth, fitColumns, terminalLine, terminalSafe } from '../../core/terminal-safe.ts';
import { notSearchableText, savedTerm } from '../../core/text.ts';
import {
  findMessage,
  readQuery,
  refuseUnknown,
  warnBeforeFirstCommit,
  withReader,
} from '../archive.ts';
import { terminalPrompter } from '../ask.ts';
import {
  type CommandContext,
  type Flags,
  invalidUsage,
  type Register,
  refuse,
  type Values,
} from '../context.ts';
import { unknownWordHint } from '../help-text.ts';
import { minusWords, parseTime, wholeNumber } from '../option-values.ts';
import {
  createCountTimer,
  FORMAT_HELP,
  footerText,
  formatOption,
  type LineFormat,
  lineWriter,
  type Output,
  placeText,
  printId,
  type Report,
  refuseTwoFormats,
  SEARCH_COLUMNS,
  shortId,
} from '../output.ts';

export function hitText({ line, matches, attachmentMatches }: SearchHit, output: Output): Report {
  const more = line.places.length - 1;
  const also = more > 0 ? output.colours.dim(` +${more}`) : '';
  const attached = line.matchedAttachments.map(({ number, filename, snippet }, i) => {
    const name = fitColumns(terminalLine(filename ?? '(no name)'), MAX_OF_A_NAME);
    const before = `[${number}] ${name}: `;
    const piece = snippetText(snippet, attachmentMatches[i] ?? [], output, displayWidth(before));
    return `    ${output.colours.dim(before)}${piece}`;
  });
  return [
    `${placeText(line, output)}${also}`,
    // If an attachment matched, the start of the message does not explain the hit.
    ...(line.snippet === '' || (matches.length === 0 && attached.length > 0)
      ? []
      : [`    ${snippetText(line.snippet, matches, output)}`]),
    ...attached,
  ];
}

const MAX_OF_A_NAME = 40;

/** Returns the snippet with matches in bold, cut to fit after `taken` columns. First makes each piece terminal-safe. */
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
      const shown = room > 0 ? fitColumns(terminalSafe(piece.text).replace(/\s/g, ' '), room) : '';
      room -= displayWidth(shown);
      return piece.matched ? output.colours.bold(shown) : shown;
    })
    .join('');
}

function explainText(query: SearchQuery, plan: SearchPlan): Report {
  return [
    ...nodeLines(query.node, ''),
    ...(query.asOf === null ? [] : [`as of ${new Date(query.asOf).toISOString()}`]),
    ...plan.drives.flatMap(({ driver, sql }) => ['', `by ${driver}:`, ...sql.map(terminalLine)]),
  ];
}

function nodeLines(node: SearchNode, indent: string): string[] {
  const { kind, span: _span, ...rest } = node;
  if (kind === 'and' || kind === 'or') {
    return [`${indent}${kind}`, ...node.nodes.flatMap((part) => nodeLines(part, `${indent}  `))];
  }
  if (kind === 'not') return [`${indent}not`, ...nodeLines(node.node, `${indent}  `)];
  return [`${indent}${kind} ${terminalLine(JSON.stringify(rest))}`];
}

/** Maximum number of hits held in memory. */
const PRINTED_PAGE = 2_000;

/**
 * Yields hits in pages, so that an unlimited search needs little memory. A search by relevance has a single page,
 * because it cannot be resumed.
 */
function* searchPages(
  search: PreparedQuery,
  request: PageRequest,
): Generator<SearchPage, void, undefined> {
  let { limit, after } = request;
  for (;;) {
    const most = request.sort === 'relevance' ? limit : Math.min(limit, PRINTED_PAGE);
    const page = search.page({ ...request, limit: most, after });
    yield page;
    limit -= most;
    after = page.hits.at(-1)?.docid;
    if (after === undefined || page.hits.length < most || limit <= 0) return;
  }
}

/** @throws usage-unknown-name before anything is printed */
async function printFound(
  context: CommandContext,
  search: PreparedQuery,
  request: PageRequest,
  format: LineFormat,
  respell: () => Respelling | null,
): Promise<ExitCode> {
  const { output, notices, signal } = context;
  const isIds = format === 'ids';
  const printed = await (isIds ? printIds : printHits)(context, search, request, format);
  if (signal.aborted) return EXIT.interrupted;
  if (printed.count === 0) {
    // Programs do not wait for it.
    const other = format === 'text' && !output.json ? respell() : null;
    const hint = other === null ? '' : ` Did you mean ${terminalLine(other.query)}?`;
    notices.say(`Nothing found.${hint}`);
  } else if (printed.last !== undefined && output.interactive && format === 'text')
    notices.say(footer(context, search, request, printed.count, printed.last));
  return EXIT.done;
}

/** Prints only ids. Skips snippets, which would require message text. */
async function printIds(
  { output, notices, signal }: CommandContext,
  search: PreparedQuery,
  request: PageRequest,
): Promise<{ count: number; last?: undefined }> {
  refuseUnknown(search.unknownNames(), notices);
  let count = 0;
  for (const id of search.ids(request)) {
    if (signal.aborted) break;
    await printId(output, id);
    count += 1;
  }
  return { count };
}

async function printHits(
  { output, notices, signal }: CommandContext,
  search: PreparedQuery,
  request: PageRequest,
  format: LineFormat,
): Promise<{ count: number; last?: SearchHit | undefined }> {
  let print = async (hit: SearchHit): Promise<unknown> =>
    output.line(hit.line, () => hitText(hit, output));
  let count = 0;
  let last: SearchHit | undefined;
  for (const { hits } of searchPages(search, request)) {
    if (last === undefined) {
      refuseUnknown(search.unknownNames(), notices);
      if (format !== 'text') {
        const write = await lineWriter(format, SEARCH_COLUMNS, output);
        print = ({ line }) => write(line);
      }
    }
    for (const hit of hits) {
      if (signal.aborted) return { count };
      await print(hit);
      count += 1;
      last = hit;
    }
  }
  return { count, last };
}

/** Returns the line shown below a page. Terminal only, so that scripts do not wait for the count. */
function footer(
  { now }: Pick<CommandContext, 'now'>,
  search: PreparedQuery,
  request: PageRequest,
  printed: number,
  { line }: SearchHit,
): string {
  const isAll = printed < request.limit && request.after === undefined;
  const all = isAll
    ? { count: printed, complete: true }
    : search.countWhile(createCountTimer(now), request);
  const next = request.sort === 'relevance' ? '-n' : `-n, or with --page-after ${shortId(line.id)}`;
  return footerText(printed, all, 'message', next);
}

interface SearchLine
  extends Flags<'count' | 'explain' | 'replace' | 'saved'>,
    Values<'asOf' | 'pageAfter' | 'save' | 'forget'>,
    Values<'limit', number> {
  readonly format: LineFormat;
  readonly sort: 'newest' | 'oldest' | 'relevance';
}

const HELP = `
Searches everything that was ever archived, offline. Words match anywhere in a message: subject, addresses,
text, names of attachments. All words must match, in any order.

  "two words"            as a phrase            word*         words with this beginning
  one OR two             either                 -word         without it
  from:anna  to:  cc:    people                 subject:rent  the subject only
  in:INBOX.Sent          a folder               mailbox:anna@example.org
  before:2026-03-01      received before        after:2025    received since
  has:attachment         with attachments       filename:pdf  by their names
  is:unread  is:starred  by flags               -is:deleted   still at the service
  thread:3f2a91c4        the message's thread   @NAME         a saved search
  spelling:any           Müller also as Mueller, Mueller also as Müller; also ö ä å ø

Relative dates in a saved search are resolved on the day it is used. docs/search.md documents the language.
${FORMAT_HELP}

EXAMPLES
  mailkeep search from:anna invoice
  mailkeep search '"kind regards" after:2026-01-01 -in:INBOX.Sent' --limit 50
  mailkeep search has:attachment filename:pdf --sort oldest --json
  mailkeep search from:landlord --format ids | mailkeep export --ids - --format eml --to rent`;

const PAGE = 20;
/** Output for programs is unlimited by default. */
const EVERYTHING = 1_000_000_000;

export const takesMinusWords = true;

export const register: Register = (command, run) => {
  command
    .argument('[query...]', 'what to look for', minusWords)
    .option(
      '-n, --limit <n>',
      'how many messages to print (default: 20; as ids or CSV all)',
      wholeNumber(1, 1_000_000),
    )
    .addOption(formatOption().conflicts(['count', 'explain', 'save', 'saved', 'forget']))
    .addOption(
      new Option('--sort <order>', 'order of the messages')
        .choices(['newest', 'oldest', 'relevance'])
        .default('newest'),
    )
    .option('--as-of <T>', 'what existed at that time: a date, an ISO time, or a span such as 3d')
    .option('--page-after <id>', 'continue after this message, the last one of the previous page')
    .option('--count', 'print only the total number of messages')
    .option('--explain', 'show how the query was understood and would be run')
    .option('--save <name>', 'save the query under a name, to use as @NAME')
    .option('--replace', 'with --save: replace a search saved under that name without asking')
    .option('--saved', 'list the saved searches')
    .option('--forget <name>', 'delete a saved search')
    // A leading minus excludes a word.
    .allowUnknownOption()
    .addHelpText('after', HELP)
    .action((words: string[], options: SearchLine) =>
      run(async (context) => {
        const option = words.find((word) => word.startsWith('--'));
        if (option !== undefined) throw await unknownOption(command, option);
        refuse('search', {
          '--page-after needs an order by date: relevance changes with each message.':
            options.pageAfter !== undefined && options.sort === 'relevance',
        });
        refuseTwoFormats('search', options.format, context.output.json);
        return withReader(context, (reader) =>
          options.saved === true || options.save !== undefined || options.forget !== undefined
            ? keepSearches(context, reader, words, options)
            : search(context, reader, words, options),
        );
      }),
    );
};

async function unknownOption(command: Command, option: string): Promise<Error> {
  const typed = option.replace(/=.*/s, '');
  const meant = nearest(
    typed,
    command.options.flatMap((known) => known.long ?? []),
  );
  const hint =
    (await unknownWordHint(typed, command, command.parent ?? command)) ??
    (meant === null ? '' : `Did you mean ${meant}?`);
  return invalidUsage('search', `unknown option '${option}'. ${hint}`.trim());
}

async function keepSearches(
  context: CommandContext,
  reader: Reader,
  words: readonly string[],
  { saved: isListing, save, forget, replace }: SearchLine,
): Promise<ExitCode> {
  const { output, notices, report } = context;
  const { dataDir } = reader;
  const saved = readSavedSearches(dataDir);
  const movedAside = (file: string): void => report({ event: 'state-put-aside', file });
  if (isListing === true) {
    for (const { name, query } of saved)
      await output.line({ name, query }, () => `${savedTerm(name)}  ${terminalLine(query)}`);
    return EXIT.done;
  }
  const name = readSearchName(forget ?? save ?? '');
  if (forget !== undefined) {
    expandSaved(savedTerm(name), () => saved);
    saveSearch(dataDir, name, undefined, movedAside);
    notices.say(`Forgot ${savedTerm(name)}.`);
    return EXIT.done;
  }
  const { text } = readQuery(context, reader, words.join(' '));
  const before = saved.find((one) => one.name === name);
  if (replace !== true && !(await mayReplace(context, before, text))) return EXIT.done;
  saveSearch(dataDir, name, text, movedAside);
  notices.say(`Saved as ${savedTerm(name)}.`);
  return EXIT.done;
}

async function search(
  context: CommandContext,
  reader: Reader,
  words: readonly string[],
  { format, sort, asOf, count, explain, ...options }: SearchLine,
): Promise<ExitCode> {
  const { output, notices, now } = context;
  const { catalog } = reader;
  const { text, query, accounts } = readQuery(context, reader, words.join(' '));
  const at = asOf === undefined ? query.asOf : parseTime('--as-of', asOf, now());
  warnBeforeFirstCommit(catalog, at, notices);
  const last = options.pageAfter === undefined ? undefined : findMessage(reader, options.pageAfter);
  const after = last === undefined ? undefined : catalog.messages.docidOf(last);
  const limit = options.limit ?? (format === 'text' ? PAGE : EVERYTHING);
  const wanted = { node: query.node, accounts, asOf: at ?? undefined };
  const search = catalog.prepare(wanted);
  const request = { limit, sort, after };
  if (explain === true) {
    const plan = search.explain(request);
    refuseUnknown(plan.unknown, notices);
    await output.object({ query, ...plan }, () => explainText(query, plan));
    return EXIT.done;
  }
  let code: ExitCode = EXIT.done;
  if (count === true) {
    refuseUnknown(search.unknownNames(), notices);
    const found = search.count(request);
    await output.object({ count: found }, () => String(found));
  } else {
    const respell = () => catalog.respell(text, wanted, createCountTimer(now));
    code = await printFound(context, search, request, format, respell);
  }
  const pending = catalog.index.pendingCount();
  if (pending > 0) notices.warn(notSearchableText(pending));
  return code;
}

/**
 * Returns whether a query may replace a saved one. Asks the user on a terminal.
 * @throws usage-search-exists without a terminal
 */
async function mayReplace(
  context: CommandContext,
  before: SavedSearch | undefined,
  query: string,
): Promise<boolean> {
  if (before === undefined || before.query === query) return true;
  const prompter = context.globals.json ? undefined : terminalPrompter(context);
  if (prompter === undefined) throw usageError('usage-search-exists', { ...before });
  const shown = terminalLine(before.query);
  const answer = await prompter.line(
    `${savedTerm(before.name)} is already saved: ${shown}\nReplace it? [y/N]`,
  );
  if (/^y(es)?$/i.test(answer)) return true;
  context.notices.say('Nothing was saved.');
  return false;
}
