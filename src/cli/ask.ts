import { createInterface } from 'node:readline/promises';
import { type Readable, Writable } from 'node:stream';
import type { CommandContext } from './context.ts';
import { operationError } from './errors.ts';

/**
 * Asks on a terminal; questions go to standard error, so that standard output holds results only.
 *
 * @returns undefined where there is no terminal to ask on
 */
export function terminalAsker(context: Pick<CommandContext, 'stdin' | 'notices' | 'signal'>) {
  const { notices, signal } = context;
  const stdin = context.stdin();
  if (stdin.isTTY !== true) return undefined;
  const shown = notices.stream;
  const hidden = new Writable({ write: (_chunk, _encoding, done) => done() });
  const ask = async (question: string, echo: Writable): Promise<string> => {
    const reader = createInterface({ input: stdin, output: echo, terminal: true });
    const stopped = new AbortController();
    // The terminal hands Ctrl-C and Ctrl-D to the reader while it asks.
    reader.on('SIGINT', () => stopped.abort());
    reader.on('close', () => stopped.abort());
    try {
      if (echo === hidden) shown.write(question);
      const answer = await reader.question(question, {
        signal: AbortSignal.any([signal, stopped.signal]),
      });
      return answer.trim();
    } finally {
      if (echo === hidden) shown.write('\n');
      reader.close();
    }
  };
  return {
    /** @returns the answer without white space around it, or `fallback` when nothing was typed */
    line: async (question: string, fallback?: string): Promise<string> => {
      const answer = await ask(
        fallback === undefined ? `${question}: ` : `${question} [${fallback}]: `,
        shown,
      );
      return answer === '' ? (fallback ?? '') : answer;
    },
    /** What is typed is not shown. */
    secret: (question: string): Promise<string> => ask(`${question} (not shown): `, hidden),
    /** Yes unless the answer begins with n. */
    yes: async (question: string): Promise<boolean> =>
      !/^n/i.test(await ask(`${question} [Y/n] `, shown)),
  };
}

export type Asker = NonNullable<ReturnType<typeof terminalAsker>>;

/** No token is longer; a file piped here by mistake is refused early. */
const LONGEST_TOKEN = 65_536;

/** Everything on standard input, as one trimmed text; empty when there is nothing, or far too much. */
export async function pipedText(stdin: Readable): Promise<string> {
  const bytes = await pipedBytes(stdin, LONGEST_TOKEN);
  return bytes.length > LONGEST_TOKEN ? '' : bytes.toString('utf8').trim();
}

/** Everything on standard input; what comes after more than `most` bytes is left out. */
export async function pipedBytes(stdin: Readable, most: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    length += bytes.length;
    chunks.push(bytes);
    if (length > most) break;
  }
  return Buffer.concat(chunks);
}

/**
 * Asks before something that cannot be undone. Only a typed yes is one.
 *
 * @param lines what would be done, harmless for a terminal
 * @throws operation-needs-yes where there is no terminal, or one that is read by a program
 */
export async function confirmed(
  context: CommandContext,
  act: string,
  lines: readonly string[],
): Promise<boolean> {
  const asker = context.globals.json ? undefined : terminalAsker(context);
  if (asker === undefined) throw operationError('operation-needs-yes', { act });
  // A question is no notice: it is shown with --quiet as well.
  context.notices.stream.write(`${lines.join('\n')}\n`);
  const answer = await asker.line('This cannot be undone. Type yes to continue');
  if (/^yes$/i.test(answer)) return true;
  context.notices.say('Nothing was done.');
  return false;
}
