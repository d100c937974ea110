import { spawnSync } from 'node:child_process';
import { chownSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { mailkeep, program, type Spawned } from './child.ts';

export const NOBODY = 65_534;
/** A command that runs another as nobody, for root only. */
export const AS_NOBODY = [
  'setpriv',
  '--reuid',
  String(NOBODY),
  '--regid',
  String(NOBODY),
  '--clear-groups',
];

const isRoot = process.getuid?.() === 0;

/**
 * Why the system would not refuse this process anything, and no other user can be taken: the permissions of files mean
 * nothing to root. Null where they can be tried.
 */
export const unrefused = isRoot ? whyNot() : null;

function whyNot(): string | null {
  const [command = '', ...rest] = AS_NOBODY;
  const { status } = spawnSync(command, [...rest, 'test', '-r', program]);
  return status === 0 ? null : 'root, and nobody else can run the program';
}

/** Runs the program as a user whom permissions bind: nobody, where the tests run as root. */
export function unprivileged(args: readonly string[], options: Spawned = {}) {
  if (!isRoot) return mailkeep(args, options);
  const home = mkdtempSync(path.join(tmpdir(), 'nobody-'));
  chownSync(home, NOBODY, NOBODY);
  const env = { HOME: home, XDG_CONFIG_HOME: home, TMPDIR: home, ...options.env };
  return mailkeep(args, { ...options, cwd: home, env, under: AS_NOBODY });
}
