import { createReadStream } from 'node:fs';
import path from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import type { Reader } from '../../../engine/archive/reader.ts';
import { errnoOf } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';
import type { CommandContext } from '../../context.ts';
import { oneMessage } from '../../one-message.ts';

/** Characters of a line: more than any id, whatever stands around it. */
const LONGEST = 100;

/**
 * Yields ids of messages, or their beginnings, as they stand in the lines of a file; empty lines are left out.
 *
 * @param from a file, or `-` for standard input
 * @throws usage-ids-unreadable
 */
export async function* idsFrom(
  { stdin, signal, surroundings }: Pick<CommandContext, 'stdin' | 'signal' | 'surroundings'>,
  from: string,
): AsyncGenerator<string, void, undefined> {
  const input = from === '-' ? stdin() : createReadStream(path.resolve(surroundings.cwd, from));
  try {
    for await (const line of linesOf(addAbortSignal(signal, input))) {
      const id = line.trim();
      if (id !== '') yield id;
    }
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    const source = from === '-' ? 'standard input' : from;
    throw usageError('usage-ids-unreadable', { source, reason });
  }
}

/**
 * Returns the docids of messages.
 *
 * @throws usage-unknown-message, usage-ambiguous-id, message-purged; what `ids` throws
 */
export async function docidsOf(
  reader: Reader,
  ids: AsyncIterable<string> | Iterable<string>,
): Promise<number[]> {
  const docids: number[] = [];
  for await (const id of ids) {
    const docid = reader.catalog.messages.docidOf(oneMessage(reader, id));
    if (docid !== undefined) docids.push(docid);
  }
  return docids;
}

/** Lines as they come, each cut to what is looked at. */
async function* linesOf(input: Readable): AsyncGenerator<string, void, undefined> {
  let rest = '';
  for await (const chunk of input.setEncoding('utf8')) {
    const lines = `${rest}${chunk}`.split('\n');
    rest = (lines.pop() ?? '').slice(0, LONGEST);
    for (const line of lines) yield line.slice(0, LONGEST);
  }
  yield rest;
}
