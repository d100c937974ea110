import type { Readable, Writable } from 'node:stream';
import { nameProcess } from '../archive/lock-holder.ts';
import { terminalSafe } from '../mail/terminal-safe.ts';
import { commandName } from './command-name.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';
import { streamNotices } from './notices.ts';
import { OutputClosed, streamOutput } from './output.ts';
import { parseCommandLine, wantsJson } from './program.ts';
import type { CommandEntry } from './reading-commands.ts';
import { sentenceOf } from './sentences.ts';
import { exitOf, tell } from './tell.ts';

/** The process as a command sees it. */
export interface Surface {
  /** Asked for when it is read: opening it costs time, and most commands never do. */
  readonly stdin: () => Readable & { readonly isTTY?: boolean };
  readonly stdout: Writable & { isTTY?: boolean; columns?: number };
  readonly stderr: Writable & { isTTY?: boolean };
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly signal: AbortSignal;
  readonly now: () => number;
}

/** Parses and runs one command line; every error becomes its sentence and its exit code here. */
export async function run(
  args: readonly string[],
  commands: readonly CommandEntry[],
  surface: Surface,
): Promise<ExitCode> {
  const { stdin, stdout, stderr, env, cwd, signal, now } = surface;
  const json = wantsJson(args);
  const output = streamOutput(stdout, { json, env });
  try {
    const request = await parseCommandLine(args, commands);
    if (request.kind === 'print') {
      await output.text(request.text);
      await output.written();
      return EXIT.done;
    }
    const { globals } = request;
    nameProcess(commandName(args) ?? '');
    const notices = streamNotices(stderr, { json, quiet: globals.quiet, env });
    const surroundings = { cwd, env };
    const context = { globals, output, notices, surroundings, stdin, signal, now };
    const code = await request.body(context);
    await output.written();
    return code;
  } catch (error) {
    // Whoever read our output had enough.
    if (error instanceof OutputClosed) return EXIT.done;
    if (isAbort(error)) {
      tell(stderr, json, { code: 'interrupted', message: 'Interrupted.', hint: null });
      return EXIT.interrupted;
    }
    return reported(error, json, { stderr, env });
  }
}

/** Reports an error on standard error, with its stack where MAILKEEP_DEBUG asks for it; returns the exit code. */
export function reported(
  error: unknown,
  json: boolean,
  { stderr, env }: Pick<Surface, 'stderr' | 'env'>,
): ExitCode {
  tell(stderr, json, sentenceOf(error));
  if (debugging(env)) stderr.write(`${terminalSafe(stackOf(error))}\n`);
  return exitOf(error);
}

/** A wait or a question that was given up because of a signal. */
function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}

function debugging(env: Surface['env']): boolean {
  return (env.MAILKEEP_DEBUG ?? '') !== '';
}

function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : `\ncaused by: ${stackOf(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}
