import { accountHosts } from '../../catalog/saved-searches.ts';
import { describeError } from '../../core/errors.ts';
import { joinStreams, serveOverStream } from '../../core/listener.ts';
import { openBack } from '../../web/elsewhere/back.ts';
import type { CommandContext, Register } from '../context.ts';

/** Run by the worker that holds an account when another node calls `mailkeep web --account`. Not for users. */
export const register: Register = (command, run) => {
  command.action(() => run(answerWeb));
};

async function answerWeb(context: CommandContext): Promise<void> {
  const { only, now, notices, output, stdin } = context;
  if (only === undefined) throw new Error('it answers for one archive');
  const back = openBack({
    ...only,
    accounts: (node) => accountHosts(node, context),
    now,
    onError: (error) =>
      notices.warn(`A request could not be answered: ${describeError(error).message}`),
  });
  try {
    const stream = joinStreams(stdin(), (bytes) => output.bytes(bytes));
    await serveOverStream(stream, back.fetch);
    await output.written();
  } finally {
    await back.close();
  }
}
