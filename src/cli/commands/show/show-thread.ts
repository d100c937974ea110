import type { Reader } from '../../../engine/archive/reader.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import type { MessageId } from '../../../mail/words.ts';
import { readMessage } from '../../../mime/reading.ts';
import type { CommandContext } from '../../context.ts';
import { messageJson } from './message-json.ts';
import { messageText } from './message-text.ts';
import { printPaged } from './pager.ts';

/**
 * Shows every message of a thread, oldest first, as `show` shows one; on a terminal all in one go through the
 * pager. In JSON, one line a message.
 */
export async function showThread(
  context: CommandContext,
  reader: Reader,
  id: MessageId,
  { pager }: { readonly pager: boolean },
): Promise<ExitCode> {
  const { output, signal } = context;
  const paged: string[] | undefined = pager && output.interactive ? [] : undefined;
  for (const [i, one] of reader.catalog.threadOf(id).entries()) {
    if (signal.aborted) return EXIT.interrupted;
    const reading = await readMessage(reader.sources().streamMessage(one));
    const text = (): string => {
      const own = messageText(one, reading, output);
      return i === 0 ? own : `\n${output.colours.dim('─'.repeat(40))}\n${own}`;
    };
    if (paged === undefined) await output.line(messageJson(reader, one, reading), text);
    else paged.push(text());
  }
  if (paged !== undefined) await printPaged(context, paged.join('\n'));
  return EXIT.done;
}
