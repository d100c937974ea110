import type { Command } from 'commander';
import { refuseUnknownChoice } from '../../../engine/archive/chosen-names.ts';
import type { ExitCode } from '../../../errors/exit-codes.ts';
import { streamExport } from '../../../export/stream-export.ts';
import { jsonLine } from '../../../wording/json.ts';
import { withReader } from '../../archive-access.ts';
import type { Body, CommandContext } from '../../context.ts';
import { refuseUnknown } from '../../unknown-names.ts';
import { exitOfExport, type SelectionLine, selectionOf, unknownInQuery } from './command.ts';

/** The command `export` as another node of a fleet asks for it: a zip on standard output, and its result on standard error. */
export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--query <Q>', 'only messages that this query finds')
    .option('--mailbox <address>', 'only this mailbox')
    .option('--folder <path>', 'only this folder')
    .option('--deleted', 'messages deleted at the service')
    .option('--with-deleted', 'also messages deleted at the service')
    .option('--as-of <T>', 'what existed at that time')
    .action((options: SelectionLine) => chosen((context) => sendZip(context, options)));
}

async function sendZip(context: CommandContext, options: SelectionLine): Promise<ExitCode> {
  const { output, notices, signal } = context;
  return withReader(context, async (reader) => {
    refuseUnknownChoice(reader, options);
    const selection = await selectionOf(context, reader, options);
    refuseUnknown(unknownInQuery(reader, selection), notices);
    const { catalog } = reader;
    const result = await streamExport(
      { format: 'zip', selection, catalog, sources: reader.sources(), signal },
      { begin: () => undefined, write: (bytes) => output.bytes(bytes) },
    );
    notices.stream.write(`${jsonLine({ result })}\n`);
    return exitOfExport(result);
  });
}
