import { spawn } from 'node:child_process';
import { finished } from 'node:stream/promises';
import type { CommandContext } from '../../context.ts';

/** Shows colours, ends by itself when all fits on a screen, and leaves the text on it. */
const DEFAULT_PAGER = 'less -FRX';

/** The pager that somebody wants: `MAILKEEP_PAGER`, `PAGER`, or less; undefined where they want none. */
export function wantedPager(env: Readonly<Record<string, string | undefined>>): string | undefined {
  const wanted = env.MAILKEEP_PAGER ?? env.PAGER ?? DEFAULT_PAGER;
  return wanted.trim() === '' || wanted.trim() === 'cat' ? undefined : wanted;
}

/**
 * Prints a text that people read, through their pager where standard output is a terminal. The text must be
 * harmless for terminals already. A pager that cannot be started is done without.
 */
export async function printPaged(
  { output, surroundings: { env } }: Pick<CommandContext, 'output' | 'surroundings'>,
  text: string,
): Promise<void> {
  const pager = output.interactive ? wantedPager(env) : undefined;
  if (pager === undefined || !(await paged(pager, env, text))) await output.text(text);
}

/** False when the pager could not be started. */
async function paged(
  pager: string,
  env: Readonly<Record<string, string | undefined>>,
  text: string,
): Promise<boolean> {
  // A shell, because people write options and pipes into these variables; nothing of the mail is in the command.
  const child = spawn('/bin/sh', ['-c', pager], {
    stdio: ['pipe', 'inherit', 'inherit'],
    // As git does: without its options, less would show our colours as their codes.
    env: { ...env, LESS: env.LESS ?? 'FRX' },
  });
  const ended = new Promise<number | null>((resolve) => {
    child.on('error', () => resolve(NOT_FOUND));
    child.on('close', resolve);
  });
  child.stdin.end(`${text}\n`);
  // Whoever leaves the pager early has read enough.
  await finished(child.stdin).catch(() => undefined);
  const code = await ended;
  return code !== NOT_FOUND && code !== NOT_EXECUTABLE;
}

/** What a shell ends with when there is no such command, or none that may be run. */
const NOT_FOUND = 127;
const NOT_EXECUTABLE = 126;
