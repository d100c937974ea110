import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { CommandContext } from '../../context.ts';

/** How long a browser may take to start and read the file, in milliseconds. */
const READ_MS = 60_000;

/**
 * Opens a sign-in link in the user's browser. The link itself never stands on a command line, where every user of the
 * machine could read it: the browser gets a file that only this user can read, which leads to it.
 */
export function openInBrowser(
  url: string,
  { notices, surroundings: { env } }: Pick<CommandContext, 'notices' | 'surroundings'>,
): void {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-sign-in-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  const file = path.join(folder, 'sign-in.html');
  const page = `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=${url}"><title>mailkeep</title>`;
  writeFileSync(file, page, { mode: 0o600 });
  const [command, ...args] = opener(file);
  const child = spawn(command, args, { stdio: 'ignore', detached: true, env: { ...env } });
  child.on('error', () => notices.warn(`No browser could be started (${command}).`));
  child.unref();
  setTimeout(remove, READ_MS).unref();
  process.once('exit', remove);
}

function opener(file: string): [string, ...string[]] {
  if (process.platform === 'darwin') return ['open', file];
  if (process.platform === 'win32') return ['cmd', '/c', 'start', '', file];
  return ['xdg-open', file];
}
