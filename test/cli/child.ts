import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable, Writable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { runCommandLine } from '../../src/cli/commands.ts';
import type { ConfigInput } from '../../src/core/config-schema.ts';
import type { Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { expectDeclared } from './declared-exit.ts';

export const program = fileURLToPath(new URL('../../dist/mailkeep.cjs', import.meta.url));
const commandLine = new URL('../../dist/command-line.js', import.meta.url).href;

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  /** Standard output as it came. */
  readonly bytes: Buffer;
  readonly stderr: string;
}

export interface Spawned {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** A command that runs the program for us, such as one that watches it. */
  readonly under?: readonly string[];
  /** The program to run instead of the one that was built here. */
  readonly program?: string;
  /** The clock of a line that runs in this process. */
  readonly now?: () => number;
  /** Runs it as a process of its own, where a test is about signals, descriptors or what a process keeps. */
  readonly alone?: boolean;
}

/** Starts the built program; nothing of the tests' own environment reaches it but PATH and HOME. */
export function start(args: readonly string[], options: Spawned = {}) {
  const { cwd, env = {}, input, under = [], program: file = program } = options;
  const home = mkdtempSync(path.join(tmpdir(), 'mailkeep-home-'));
  const [command = process.execPath, ...rest] = [...under, process.execPath, file, ...args];
  const child = spawn(command, rest, {
    cwd: cwd ?? home,
    env: { PATH: process.env.PATH ?? '', HOME: home, XDG_CONFIG_HOME: home, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.end(input ?? '');
  const ended: Promise<Ended> = Promise.all([
    buffer(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]).then(([bytes, stderr]) => ({
    code: child.exitCode,
    signal: child.signalCode,
    stdout: bytes.toString('utf8'),
    bytes,
    stderr,
  }));
  return { child, ended };
}

/** Variables that Node.js reads itself, from the environment of its process. */
const OF_THE_PROCESS = /^(?:NODE_|UV_|TZ$|PATH$|HOME$|TMPDIR$|LD_|LANG$|LC_)/;

/**
 * Runs the built program until it ends: in this process, which is faster, or in a child process if an option needs
 * one.
 */
export async function mailkeep(args: readonly string[], options: Spawned = {}): Promise<Ended> {
  const { under, program: file, alone = false, env = {} } = options;
  const inside =
    !alone &&
    under === undefined &&
    file === undefined &&
    !Object.keys(env).some((name) => OF_THE_PROCESS.test(name));
  const ended = await (inside ? runInside(args, options) : start(args, options).ended);
  if (ended.code !== null) expectDeclared(args, ended.code);
  return ended;
}

async function runInside(args: readonly string[], options: Spawned): Promise<Ended> {
  const built: { runCommandLine: typeof runCommandLine } = await import(commandLine);
  const home = mkdtempSync(path.join(tmpdir(), 'mailkeep-home-'));
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  const code = await built.runCommandLine(args, {
    stdin: () => Readable.from(options.input === undefined ? [] : [Buffer.from(options.input)]),
    stdout: collecting(stdout),
    stderr: collecting(stderr),
    env: { PATH: process.env.PATH, HOME: home, XDG_CONFIG_HOME: home, ...options.env },
    cwd: options.cwd ?? home,
    signal: new AbortController().signal,
    now: options.now ?? Date.now,
  });
  const bytes = Buffer.concat(stdout);
  return {
    code,
    signal: null,
    stdout: bytes.toString('utf8'),
    bytes,
    stderr: Buffer.concat(stderr).toString('utf8'),
  };
}

export function collecting(chunks: Buffer[]): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk);
      done();
    },
  });
}

/** What is printed to a terminal of this width, or to no terminal. */
export function screen(columns?: number) {
  const chunks: Buffer[] = [];
  const terminal = columns === undefined ? {} : { isTTY: true, columns };
  return {
    stream: Object.assign(collecting(chunks), terminal),
    text: () => Buffer.concat(chunks).toString('utf8'),
  };
}

/** JSON Lines as values. */
export function jsonLines(stdout: string): unknown[] {
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line): unknown => JSON.parse(line));
}

export interface Workplace {
  readonly folder: string;
  readonly config: string;
  readonly data: string;
}

/** A folder with a configuration for a running sandbox; `change` alters what would be written. */
export function workplace(
  sandbox: Pick<Sandbox, 'mailboxUrl' | 'tokens'>,
  change: (config: ConfigInput) => ConfigInput = (config) => config,
): Workplace {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-work-'));
  const config = path.join(folder, 'config.json');
  const content = change({
    accounts: [{ name: 'main', baseUrl: sandbox.mailboxUrl, token: { file: './token' } }],
    rateLimit: { requestsPerMinute: 1_000_000, concurrency: 8 },
    minFreeBytes: 0,
  });
  writeFileSync(path.join(folder, 'token'), `${sandbox.tokens.mailbox}\n`, { mode: 0o600 });
  writeFileSync(config, JSON.stringify(content), { mode: 0o600 });
  return { folder, config, data: path.join(folder, 'data') };
}

/** A sandbox that has mail, and an archive with that mail. */
export async function synced(options: Parameters<typeof startSandbox>[0], now = Date.now) {
  const { startSandbox } = await import('../../src/sandbox/sandbox.ts');
  const sandbox = await startSandbox(options);
  const work = workplace(sandbox);
  const { code, stderr } = await mailkeep(['sync', '--config', work.config], { now });
  if (code !== 0) throw new Error(stderr);
  return { sandbox, work };
}

/** The same with these messages. */
export function syncedFrom(messages: Iterable<Buffer | string>) {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-mail-'));
  for (const [i, source] of [...messages].entries())
    writeFileSync(path.join(folder, `${i}.eml`), source);
  return synced({ from: [folder] });
}
