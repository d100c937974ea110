import type { Command } from 'commander';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { exportBack } from '../../../export/elsewhere/back.ts';
import { answerOver, joined } from '../../../listener/over-stream.ts';
import { withReader } from '../../archive-access.ts';
import type { Body, CommandContext } from '../../context.ts';
import { chosenPlaces } from './chosen-places.ts';

/** Run by the worker that holds an account, for a node at which `mailkeep export --account` runs. No command for people. */
export function define(command: Command, chosen: (body: Body) => void): void {
  command.action(() => chosen(answerExport));
}

/** Answers HTTP requests on standard input and output until the input ends. */
function answerExport(context: CommandContext): Promise<ExitCode> {
  const { output, stdin } = context;
  return withReader(context, async (reader) => {
    const fetch = exportBack({
      catalog: reader.catalog,
      sources: reader.sources(),
      choose: (typed, ids) => chosenPlaces(context, reader, typed, ids),
    });
    await answerOver(
      joined(stdin(), (bytes) => output.bytes(bytes)),
      fetch,
    );
    await output.written();
    return EXIT.done;
  });
}
