import { type Command, Option } from 'commander';
import type { Reader } from '../../../engine/archive/reader.ts';
import {
  accountHosts,
  type SavedSearch,
  savedSearches,
  saveSearch,
  withSaved,
} from '../../../engine/saved-searches.ts';
import { EXIT } from '../../../errors/exit-codes.ts';
import { usageError } from '../../../errors/usage.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { nearest } from '../../../names/nearest.ts';
import { parseQuery } from '../../../search/parse.ts';
import { notSearchableText } from '../../../wording/catalog.ts';
import { withReader } from '../../archive-access.ts';
import { terminalAsker } from '../../ask.ts';
import type { Body, CommandContext } from '../../context.ts';
import { FORMAT_HELP, formatOption, type LineFormat, refuseTwoFormats } from '../../line-format.ts';
import { oneMessage } from '../../one-message.ts';
import { given, minusWords, moment, wholeNumber } from '../../option-values.ts';
import { refuseUnknown, warnBeforeBeginning } from '../../unknown-names.ts';
import { explainText, printFound } from './print-found.ts';

interface SearchLine {
  readonly limit?: number;
  readonly format: LineFormat;
  readonly sort: 'newest' | 'oldest' | 'relevance';
  readonly asOf?: string;
  readonly after?: string;
  readonly count?: boolean;
  readonly explain?: boolean;
  readonly save?: string;
  readonly replace?: boolean;
  readonly saved?: boolean;
  readonly forget?: string;
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

/** Messages of a page, where the line does not say. */
const PAGE = 20;
/** What programs read next is complete unless the line says otherwise. */
const EVERYTHING = 1_000_000_000;

/** `-word` excludes. */
export const takesMinusWords = true;

export function define(command: Command, chosen: (body: Body) => void): void {
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
    .option('--after <id>', 'continue after this message, the last one of the previous page')
    .option('--count', 'print only the total number of messages')
    .option('--explain', 'show how the query was understood and would be run')
    .option('--save <name>', 'save the query under a name, to use as @NAME')
    .option('--replace', 'with --save: replace a search saved under that name without asking')
    .option('--saved', 'list the saved searches')
    .option('--forget <name>', 'delete a saved search')
    // A word may begin with a minus: it excludes.
    .allowUnknownOption()
    .addHelpText('after', HELP)
    .action((words: string[], options: SearchLine) =>
      chosen(async (context) => {
        const { output, notices, report } = context;
        const { format, sort, asOf, count, explain } = options;
        const limit = options.limit ?? (format === 'text' ? PAGE : EVERYTHING);
        const now = context.now();
        const option = words.find((word) => word.startsWith('--'));
        if (option !== undefined) {
          const typed = option.replace(/=.*/s, '');
          const { unknownWordHint } = await import('../../suggestions.ts');
          const long = command.options.flatMap((known) => known.long ?? []);
          const meant = nearest(typed, long);
          const hint =
            unknownWordHint(typed, command, command.parent ?? command) ??
            (meant === null ? '' : `Did you mean ${meant}?`);
          const problem = `unknown option '${option}'. ${hint}`.trim();
          throw usageError('usage-invalid', { command: 'search', problem });
        }
        if (options.after !== undefined && sort === 'relevance') {
          throw usageError('usage-invalid', {
            command: 'search',
            problem: '--after needs an order by date: relevance changes with each message.',
          });
        }
        refuseTwoFormats('search', format, output.json);
        return withReader(context, async (reader) => {
          const saved = () => savedSearches(reader.dataDir);
          const movedAside = (file: string): void => report({ event: 'state-put-aside', file });
          if (options.saved === true) {
            for (const search of saved())
              await output.line(search, () => `@${search.name}  ${terminalLine(search.query)}`);
            return EXIT.done;
          }
          if (options.forget !== undefined) {
            const name = options.forget.replace(/^@/, '');
            withSaved(`@${name}`, saved);
            saveSearch(reader.dataDir, name, undefined, movedAside);
            notices.say(`Forgot @${name}.`);
            return EXIT.done;
          }
          const text = withSaved(words.join(' '), saved);
          const query = parseQuery(text, { now });
          if (options.save !== undefined) {
            const name = options.save.replace(/^@/, '');
            const before = saved().find((search) => search.name === name);
            if (options.replace !== true && !(await mayReplace(context, before, text)))
              return EXIT.done;
            saveSearch(reader.dataDir, name, text, movedAside);
            notices.say(`Saved as @${name}.`);
            return EXIT.done;
          }
          const at = asOf === undefined ? query.asOf : moment('--as-of', asOf, now);
          warnBeforeBeginning(reader.catalog, at, notices);
          const after = options.after === undefined ? undefined : docidOf(reader, options.after);
          const request = {
            node: query.node,
            limit,
            sort,
            accounts: accountHosts(query.node, context),
            ...given({ asOf: at ?? undefined, after }),
          };
          if (explain === true) {
            const plan = reader.catalog.explainSearch(request);
            refuseUnknown(plan.unknown, notices);
            await output.object({ query, ...plan }, () => explainText(query, plan));
            return EXIT.done;
          }
          if (count === true) {
            refuseUnknown(reader.catalog.explainSearch(request).unknown, notices);
            const found = reader.catalog.countHits(request);
            await output.object({ count: found }, () => String(found));
            warnOfPending(reader, notices);
            return EXIT.done;
          }
          const code = await printFound(context, reader, request, format);
          warnOfPending(reader, notices);
          return code;
        });
      }),
    );
}

/**
 * Whether a query may be saved under a name that `before` has. Asks on a terminal.
 *
 * @throws usage-search-exists where there is no terminal to ask on
 */
async function mayReplace(
  context: CommandContext,
  before: SavedSearch | undefined,
  query: string,
): Promise<boolean> {
  if (before === undefined || before.query === query) return true;
  const asker = context.globals.json ? undefined : terminalAsker(context);
  if (asker === undefined) throw usageError('usage-search-exists', { ...before });
  const shown = terminalLine(before.query);
  const answer = await asker.line(`@${before.name} is already saved: ${shown}\nReplace it? [y/N]`);
  if (/^y(es)?$/i.test(answer)) return true;
  context.notices.say('Nothing was saved.');
  return false;
}

function warnOfPending({ catalog }: Reader, notices: CommandContext['notices']): void {
  const pending = catalog.index.pendingCount();
  if (pending > 0) notices.warn(notSearchableText(pending));
}

/** Where a page begins: behind the message that an id, or its beginning, names. */
function docidOf(reader: Reader, typed: string): number | undefined {
  return reader.catalog.messages.docidOf(oneMessage(reader, typed));
}
