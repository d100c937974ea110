import { openReader, type Reader } from '../../catalog/open-reader.ts';
import { joinStreams, serveOverStream } from '../../core/listener.ts';
import { exportBack } from '../../export/elsewhere/back.ts';
import type { CommandContext, Register } from '../context.ts';
import { selectPlaces } from './export.ts';

/** Ends an export that has stalled for this long, so that another can start. */
const IDLE_MS = 600_000;

/** Run by the worker that holds an account when another node calls `mailkeep export --account`. Not for users. */
export const register: Register = (command, run) => {
  command.action(() => run(answerExport));
};

/** Serves HTTP requests over standard input and output until the input ends or stays idle for too long. */
async function answerExport(context: CommandContext): Promise<void> {
  const { output, stdin } = context;
  let reader: Reader | undefined;
  const fetch = exportBack(() => {
    reader ??= openReader(context);
    const opened = reader;
    return {
      catalog: opened.catalog,
      sources: opened.sources(),
      choose: (typed, ids) => selectPlaces(context, opened, typed, ids),
    };
  });
  const input = stdin();
  const idle = setTimeout(() => input.destroy(), IDLE_MS);
  input.on('data', () => idle.refresh());
  const write = async (bytes: Uint8Array): Promise<void> => {
    await output.bytes(bytes);
    idle.refresh();
  };
  try {
    await serveOverStream(joinStreams(input, write), fetch);
    await output.written();
  } finally {
    clearTimeout(idle);
    reader?.close();
  }
}
