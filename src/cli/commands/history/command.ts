import type { Command } from 'commander';
import { purgedMessage } from '../../../engine/archive/purged-message.ts';
import type { Reader } from '../../../engine/archive/reader.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { eventText } from '../../../wording/history.ts';
import { withReader } from '../../archive-access.ts';
import type { Body, CommandContext } from '../../context.ts';
import { oneMessage } from '../../one-message.ts';
import { present } from '../../output.ts';
import { dateText } from '../../place-line.ts';

const HELP = `
Lists every recorded fact about a message: where it appeared, how its flags changed, where it was deleted. For a
pruned or forgotten message, only that and when is left.

EXAMPLES
  mailkeep history 3f2a91c4`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('<id>', 'id of a message, or its beginning')
    .addHelpText('after', HELP)
    .action((typed: string) =>
      chosen((context) => withReader(context, (reader) => printHistory(context, reader, typed))),
    );
}

async function printHistory(
  { output }: CommandContext,
  reader: Reader,
  typed: string,
): Promise<ExitCode> {
  const purged = purgedMessage(reader, typed);
  if (purged !== undefined) {
    const { time, reason, id } = purged;
    await output.line(
      { time, event: 'purged', id, detail: { reason } },
      () => `${dateText(time)}  ${'purged'.padEnd(12)} ${reason}; nothing else is left of it`,
    );
    return EXIT.done;
  }
  for (const line of reader.catalog.history(oneMessage(reader, typed))) {
    const { time, event, mailbox, folder, uid, flags = [], detail } = line;
    const more = present([flags.length > 0 && flags.join(' '), eventText(event, detail)]);
    await output.line(line, () =>
      `${dateText(time)}  ${event.padEnd(12)} ${terminalLine(`${mailbox} / ${folder} / ${uid}  ${more.join('  ')}`)}`.trimEnd(),
    );
  }
  return EXIT.done;
}
