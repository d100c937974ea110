import { type Command, Option } from 'commander';
import { usageError } from '../../errors/usage.ts';
import { parseQuery } from '../../search/parse.ts';
import type { Body } from '../command-file.ts';
import { openReader } from '../compose/reader.ts';
import { EXIT } from '../exit-codes.ts';
import { moment } from '../moment.ts';
import { wholeNumber } from '../option-values.ts';
import { explainText, hitText, unknownText } from '../search-report.ts';
import { notSearchableText } from '../status-report.ts';

interface SearchLine {
  readonly limit: number;
  readonly sort: 'newest' | 'oldest' | 'relevance';
  readonly asOf?: string;
  readonly count?: boolean;
  readonly explain?: boolean;
}

const HELP = `
Searches everything that was ever archived, without network. Words are looked for in all of a message:
subject, addresses, text, names of attachments. All words must be there, in any order.

  "two words"            as a phrase            word*         words that begin so
  one OR two             either                 -word         without it
  from:anna  to:  cc:    people                 subject:rent  the subject only
  in:INBOX.Sent          a folder               mailbox:anna@example.org
  before:2026-03-01      received before        after:2025    received since
  has:attachment         with attachments       filename:pdf  by their names
  is:unread  is:starred  by flags               -is:deleted   still at the service

EXAMPLES
  mailkeep search from:anna invoice
  mailkeep search '"kind regards" after:2026-01-01 -in:INBOX.Sent' --limit 50
  mailkeep search has:attachment filename:pdf --sort oldest --json`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('<query...>', 'what to look for')
    .option('--limit <n>', 'how many messages to print', wholeNumber(1, 1_000_000), 20)
    .addOption(
      new Option('--sort <order>', 'order of the messages')
        .choices(['newest', 'oldest', 'relevance'])
        .default('newest'),
    )
    .option('--as-of <T>', 'what there was at that time: a date, an ISO time, or 3d ago')
    .option('--count', 'only how many messages there are in all')
    .option('--explain', 'tell how the query was understood and would be run')
    // A word may begin with a minus: it excludes.
    .allowUnknownOption()
    .addHelpText('after', HELP)
    .action((words: string[], { limit, sort, asOf, count, explain }: SearchLine) =>
      chosen(async (context) => {
        const { output, notices } = context;
        const now = context.now();
        const option = words.find((word) => word.startsWith('--'));
        if (option !== undefined) {
          throw usageError('usage-invalid', {
            command: 'search',
            problem: `unknown option '${option}'.`,
          });
        }
        const query = parseQuery(words.join(' '), { now });
        const at = asOf === undefined ? query.asOf : moment('--as-of', asOf, now);
        const reader = openReader(context);
        try {
          const request = {
            node: query.node,
            limit,
            sort,
            ...(at === null ? {} : { asOf: at }),
          };
          if (explain === true) {
            const plan = reader.catalog.explainSearch(request);
            await output.object({ query, ...plan }, () => explainText(query, plan));
            return EXIT.done;
          }
          if (count === true) {
            const found = reader.catalog.countHits(request);
            await output.object({ count: found }, () => String(found));
            return EXIT.done;
          }
          const { hits, unknown } = reader.catalog.search(request);
          for (const name of unknown) notices.warn(unknownText(name));
          for (const hit of hits) await output.line(hit.line, () => hitText(hit, output));
          if (hits.length === 0) notices.say('Nothing found.');
          const pending = reader.catalog.index.pendingCount();
          if (pending > 0) notices.warn(notSearchableText(pending));
          return EXIT.done;
        } finally {
          reader.close();
        }
      }),
    );
}
