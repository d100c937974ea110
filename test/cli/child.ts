import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { ConfigInput } from '../../src/config/schema.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { expectDeclared } from './declared-exit.ts';

export const program = fileURLToPath(new URL('../../dist/mailkeep.cjs', import.meta.url));

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

/** Runs the built program to its end. */
export async function mailkeep(args: readonly string[], options: Spawned = {}): Promise<Ended> {
  const ended = await start(args, options).ended;
  if (ended.code !== null) expectDeclared(args, ended.code);
  return ended;
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
