import { PassThrough, Readable } from 'node:stream';
import { COMMANDS } from '../../src/cli/commands.ts';
import { type ProcessStreams, run } from '../../src/cli/run.ts';
import { collecting, screen } from './child.ts';
import { expectDeclared } from './declared-exit.ts';

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command line in this process, with streams that remember. */
export async function ran(
  args: readonly string[],
  given: Partial<ProcessStreams> = {},
): Promise<Ran> {
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  const code = await run(args, COMMANDS, {
    stdin: () => Readable.from([]),
    stdout: collecting(out),
    stderr: collecting(err),
    env: {},
    cwd: '/',
    signal: new AbortController().signal,
    now: () => Date.UTC(2026, 2, 1),
    ...given,
  });
  expectDeclared(args, code);
  return {
    code,
    stdout: Buffer.concat(out).toString('utf8'),
    stderr: Buffer.concat(err).toString('utf8'),
  };
}

/** Runs a command line with terminals on all sides, where somebody types this. */
export async function onTerminal(args: readonly string[], typed: string): Promise<Ran> {
  const [stdout, stderr] = [screen(80), screen(80)];
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  stdin.write(typed);
  const { code } = await ran(args, {
    stdin: () => stdin,
    stdout: stdout.stream,
    stderr: stderr.stream,
    env: { TERM: 'dumb' },
    now: Date.now,
  });
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}

/** A stream whose reader has gone after the first bytes. */
export function closedAfter(bytes: number): PassThrough {
  const stream = new PassThrough();
  let seen = 0;
  stream._transform = (chunk: Buffer, _encoding, done) => {
    seen += chunk.length;
    if (seen > bytes) done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    else done();
  };
  return stream;
}
