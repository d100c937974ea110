import { createInterface } from 'node:readline/promises';
import { type Readable, Writable } from 'node:stream';
import { bytesAtMost } from '../core/streams.ts';
import type { CommandContext } from './context.ts';
import { declinedError, operationError } from './errors.ts';

/**
 * Returns functions that prompt the user, or undefined without a terminal. Prompts go to standard error, leaving
 * standard output free for results.
 */
export function terminalPrompter(context: Pick<CommandContext, 'stdin' | 'notices' | 'signal'>) {
  const { notices, signal } = context;
  const stdin = context.stdin();
  if (stdin.isTTY !== true) return undefined;
  const shown = notices.stream;
  const hidden = new Writable({ write: (_chunk, _encoding, done) => done() });
  const ask = async (question: string, echo: Writable): Promise<string> => {
    const reader = createInterface({ input: stdin, output: echo, terminal: true });
    const stopped = new AbortController();
    // During a prompt, Ctrl-C and Ctrl-D go to the reader.
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
    /** Returns the trimmed answer, or `fallback` if it is empty. */
    line: async (question: string, fallback?: string): Promise<string> => {
      const answer = await ask(
        fallback === undefined ? `${question}: ` : `${question} [${fallback}]: `,
        shown,
      );
      return answer === '' ? (fallback ?? '') : answer;
    },
    secret: (question: string): Promise<string> => ask(`${question} (not shown): `, hidden),
    yes: async (question: string): Promise<boolean> =>
      !/^n/i.test(await ask(`${question} [Y/n] `, shown)),
    /** @throws operation-declined */
    async agree(question: string): Promise<void> {
      if (!(await this.yes(question))) throw declinedError('operation-declined', {});
    },
  };
}

export type Prompter = NonNullable<ReturnType<typeof terminalPrompter>>;

/** In bytes. Larger than any token, so the wrong file is rejected early. */
const MAX_TOKEN = 65_536;

/** Returns standard input as trimmed text, or an empty string if it is too long. */
export async function readStdinText(stdin: Readable): Promise<string> {
  return (await bytesAtMost(stdin, MAX_TOKEN))?.toString('utf8').trim() ?? '';
}

/**
 * Asks the user to confirm an irreversible action by typing yes.
 * @param lines the planned actions, terminal-safe
 * @throws operation-declined, and operation-needs-yes without a terminal or with --json
 */
export async function confirm(
  context: CommandContext,
  act: string,
  lines: readonly string[],
): Promise<void> {
  const prompter = context.globals.json ? undefined : terminalPrompter(context);
  if (prompter === undefined) throw operationError('operation-needs-yes', { act });
  // Prompts appear even with --quiet.
  context.notices.stream.write(`${lines.join('\n')}\n`);
  const answer = await prompter.line('This cannot be undone. Type yes to continue');
  if (!/^yes$/i.test(answer)) throw declinedError('operation-declined', {});
}
