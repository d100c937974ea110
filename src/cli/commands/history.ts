import { findPurgedMessage, type Reader } from '../../catalog/open-reader.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { eventText } from '../../core/text.ts';
import { findMessage, withReader } from '../archive.ts';
import type { CommandContext, Register } from '../context.ts';
import { dateText, joinReport, type Output } from '../output.ts';

const HELP = `
Lists every recorded fact about a message: where it appeared, how its flags changed, where it was deleted. For a
pruned or forgotten message, only that and when is left.

EXAMPLES
  mailkeep history 3f2a91c4`;

export const register: Register = (command, run) => {
  command
    .argument('<id>', 'id of a message, or its beginning')
    .addHelpText('after', HELP)
    .action((typed: string) =>
      run((context) => withReader(context, (reader) => printHistory(context, reader, typed))),
    );
};

async function printHistory(
  { output }: CommandContext,
  reader: Reader,
  typed: string,
): Promise<void> {
  const purged = findPurgedMessage(reader, typed);
  if (purged !== undefined) {
    const { time, reason, id } = purged;
    await output.line(
      { time, event: 'purged', id, detail: { reason } },
      () => `${dateText(time)}  ${'purged'.padEnd(12)} ${reason}; nothing else is left of it`,
    );
    return;
  }
  for (const line of reader.catalog.history(findMessage(reader, typed)))
    await printHistoryLine(output, line);
}

export type HistoryLine = ReturnType<Reader['catalog']['history']>[number];

export async function printHistoryLine(output: Output, line: HistoryLine): Promise<void> {
  const { time, event, mailbox, folder, uid, flags = [], detail } = line;
  const more = joinReport([flags.length > 0 && flags.join(' '), eventText(event, detail)]);
  await output.line(line, () =>
    `${dateText(time)}  ${event.padEnd(12)} ${terminalLine(`${mailbox} / ${folder} / ${uid}  ${more.join('  ')}`)}`.trimEnd(),
  );
}
