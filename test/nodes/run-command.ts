import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { buffer, text } from 'node:stream/consumers';

/** How one process ended, and what it printed. */
export interface Ended {
  readonly wallMs: number;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Runs the program once; no configuration of the user is found. */
export async function runCommand(
  node: string,
  args: readonly string[],
  cwd: string,
): Promise<Ended> {
  const started = performance.now();
  const child = spawn(node, args, {
    cwd,
    env: { PATH: process.env.PATH ?? '', HOME: cwd, XDG_CONFIG_HOME: cwd },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = await Promise.all([
    buffer(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  const wallMs = performance.now() - started;
  return { wallMs, code: child.exitCode, signal: child.signalCode, stdout, stderr };
}

/**
 * Returns what was abnormal about the end of a process, or undefined. Normal is exit code 0, no signal and nothing on
 * standard error, which is where Node.js prints warnings, failed assertions and crashes.
 */
export function abnormalEnd({ code, signal, stderr }: Ended): string | undefined {
  if (signal !== null) return `ended by ${signal}${excerpt(stderr)}`;
  if (code !== 0) return `exit code ${code}${excerpt(stderr)}`;
  if (stderr !== '') return `standard error${excerpt(stderr)}`;
  return undefined;
}

function excerpt(stderr: string): string {
  return stderr === '' ? '' : `: ${stderr.trim().slice(0, 500)}`;
}

/** Returns the SHA-256 of what a process printed, in hexadecimal. */
export function digest(stdout: Buffer): string {
  return createHash('sha256').update(stdout).digest('hex');
}
