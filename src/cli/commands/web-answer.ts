import type { Command } from 'commander';
import { accountHosts } from '../../catalog/saved-searches.ts';
import { EXIT, type ExitCode, sentenceOf } from '../../core/errors.ts';
import { answerOver, joined } from '../../core/listener.ts';
import { openBack } from '../../web/elsewhere/back.ts';
import type { Body, CommandContext } from '../context.ts';

/** Run by the worker that holds an account, for a node at which `mailkeep web --account` runs. No command for people. */
export function define(_command: Command, chosen: (body: Body) => void): void {
  _command.action(() => chosen(answerWeb));
}

/** Answers HTTP requests on standard input and output until the input ends. */
async function answerWeb(context: CommandContext): Promise<ExitCode> {
  const { only, now, notices, output, stdin } = context;
  if (only === undefined) throw new Error('it answers for one archive');
  const back = openBack({
    ...only,
    accounts: (node) => accountHosts(node, context),
    now,
    onError: (error) =>
      notices.warn(`A request could not be answered: ${sentenceOf(error).message}`),
  });
  try {
    const stream = joined(stdin(), (bytes) => output.bytes(bytes));
    await answerOver(stream, back.fetch);
    await output.written();
  } finally {
    await back.close();
  }
  return EXIT.done;
}
