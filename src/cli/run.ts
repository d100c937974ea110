import { fstatSync, writeSync } from 'node:fs';
import { type Readable, Writable } from 'node:stream';
import {
  combineExitCodes,
  describeError,
  EXIT,
  type ExitCode,
  exitCodeFor,
} from '../core/errors.ts';
import { pathProblem } from '../core/s3-target.ts';
import { terminalSafe } from '../core/terminal-safe.ts';
import { commandName } from './command-name.ts';
import { type CommandEntry, type Globals, invalidUsage } from './context.ts';
import { wrappedHelp } from './help-text.ts';
import { OutputClosed, streamOutput } from './output.ts';
import { hasSwitch, parseCommandLine } from './program.ts';
import { printError, reportEvents, streamNotices, WORDS } from './warnings.ts';

export interface ProcessStreams {
  /** Opened on demand, because opening takes time and most commands do not read it. */
  readonly stdin: () => Readable & { readonly isTTY?: boolean };
  readonly stdout: Writable & { isTTY?: boolean; columns?: number };
  readonly stderr: Writable & { isTTY?: boolean };
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly signal: AbortSignal;
  readonly now: () => number;
}

/** Parses and runs a command line. Turns every error into a sentence and an exit code. */
export async function run(
  args: readonly string[],
  commands: readonly CommandEntry[],
  surface: ProcessStreams,
): Promise<ExitCode> {
  const { stdin, stdout, stderr, env, cwd, signal, now } = surface;
  const json = hasSwitch(args, '--json');
  const noColour = hasSwitch(args, '--no-color');
  const output = streamOutput(stdout, { json, env, noColour });
  let verbose = false;
  // A later failure to write output does not undo the command's result.
  let ended: ExitCode = EXIT.done;
  try {
    const columns = helpColumns(stdout, env);
    const request = await parseCommandLine(args, commands, columns);
    if (request.kind === 'print') {
      await output.text(wrappedHelp(request.text, columns));
      await output.written();
      return EXIT.done;
    }
    const name = commandName(args) ?? '';
    if (!LIGHT.includes(name)) {
      await import('./all-errors.ts');
      const { setProcessName } = await import('../archive/lock.ts');
      setProcessName(name);
    }
    verbose = request.verbose;
    const globals = withEnvironment(request.globals, env);
    const { quiet } = globals;
    const notices = streamNotices(stderr, { json, quiet, verbose, env, noColour });
    const environment = { cwd, env };
    const report = reportEvents(notices);
    const base = { globals, environment, signal, now, report, words: WORDS };
    const context = { ...base, output, notices, stdin };
    const startedAt = now();
    ended = (await request.body(context)) ?? EXIT.done;
    await output.written();
    // Warnings come last: with --json, an error must be the only object on standard error.
    if (ended === EXIT.done) notices.settle();
    notices.detail(`time: ${now() - startedAt} ms`);
    return ended;
  } catch (error) {
    // The reader has closed our output.
    if (error instanceof OutputClosed) return ended;
    // A signal ended a wait or prompt.
    if (error instanceof Error && error.name === 'AbortError') {
      printError(stderr, json, { code: 'interrupted', message: 'Interrupted.', hint: null });
      return EXIT.interrupted;
    }
    // Without the sentences, the error is still reported, by its code and facts.
    await import('./all-errors.ts').catch(() => undefined);
    return combineExitCodes([ended, reportError(error, json, { stderr, env, verbose })]);
  }
}

/** Commands that never write to the archive, and only describe errors from modules that they load. */
const LIGHT = ['init', 'config', 'api', 'webhooks', 'mcp'];

/** Longer lines are hard to read. */
const MAX_HELP_COLUMNS = 100;

/** Returns the width of help, from the terminal or COLUMNS. */
function helpColumns(
  { isTTY, columns }: ProcessStreams['stdout'],
  { COLUMNS }: ProcessStreams['env'],
): number {
  // A terminal with no size set reports 0.
  const width = isTTY === true && columns ? columns : Number(COLUMNS ?? '');
  return width >= 20 ? Math.min(width, MAX_HELP_COLUMNS) : 80;
}

/**
 * Applies `MAILKEEP_DATA` and checks `MAILKEEP_CONFIG`, unless the line has `--data` or `--config`.
 * @throws usage-invalid for an empty variable, which would silently select another archive or configuration
 */
function withEnvironment(globals: Globals, env: ProcessStreams['env']): Globals {
  const { MAILKEEP_DATA: data, MAILKEEP_CONFIG: config } = env;
  const values = { data: globals.data ?? data, config: globals.config ?? config };
  for (const [option, value] of Object.entries(values)) {
    const found = value === undefined ? undefined : pathProblem(value);
    if (value?.trim() !== '' && found === undefined) continue;
    const variable = `MAILKEEP_${option.toUpperCase()}`;
    const problem =
      found === undefined
        ? `${variable} is set, but empty. Unset it, or set it to a path.`
        : `${variable} takes a path: ${found}.`;
    throw invalidUsage('', problem);
  }
  return { ...globals, data: values.data };
}

/**
 * Reports an error on standard error and returns the exit code. Adds the stack with `--verbose` or MAILKEEP_DEBUG. With
 * `--json`, standard error contains a single object, and only MAILKEEP_DEBUG adds the stack.
 */
function reportError(
  error: unknown,
  json: boolean,
  { stderr, env, verbose = false }: Pick<ProcessStreams, 'stderr' | 'env'> & { verbose?: boolean },
): ExitCode {
  printError(stderr, json, describeError(error));
  if ((env.MAILKEEP_DEBUG ?? '') !== '' || (verbose && !json))
    stderr.write(`${terminalSafe(stackOf(error))}\n`);
  return exitCodeFor(error);
}

function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : `\ncaused by: ${stackOf(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}

const STANDARD_OUTPUT = 1;

/**
 * Writes standard output to a file. Node.js treats a short write as complete, so a full disk would truncate a result
 * without an error. This class writes all bytes.
 */
class FileOutput extends Writable {
  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    try {
      for (let at = 0; at < chunk.length; ) at += writeSync(STANDARD_OUTPUT, chunk, at);
      done();
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)));
    }
  }
}

export async function runProcess(commands: readonly CommandEntry[]): Promise<void> {
  const interruption = new AbortController();
  // The first signal stops the command at the next safe point, the second immediately.
  const interrupt = (): void => {
    if (interruption.signal.aborted) process.exit(EXIT.interrupted);
    interruption.abort();
  };
  process.on('SIGINT', interrupt);
  process.on('SIGTERM', interrupt);
  // The reader has closed standard error, so failures to write there are ignored.
  process.stderr.on('error', () => {});

  const args = process.argv.slice(2);
  const { env, stderr } = process;
  // Node.js would print the line that threw, which is a page of minified source.
  process.on('uncaughtException', (error) =>
    process.exit(reportError(error, hasSwitch(args, '--json'), { stderr, env })),
  );

  process.exitCode = await run(args, commands, {
    stdin: () => process.stdin,
    stdout: fstatSync(STANDARD_OUTPUT).isFile() ? new FileOutput() : process.stdout,
    stderr,
    env,
    cwd: process.cwd(),
    signal: interruption.signal,
    now: Date.now,
  });
}
