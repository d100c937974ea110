import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { CommandContext } from '../../context.ts';

/**
 * Opens a sign-in link in the user's browser. The link itself never stands on a command line, where every user of the
 * machine could read it: the browser gets a file that only this user can read, which leads to it.
 *
 * @param keptMs how long the browser may take to start and read the file, in milliseconds
 * @returns resolves when the file is removed: after that time, when the command is interrupted, or where there is no browser
 */
export async function openInBrowser(
  url: string,
  {
    notices,
    signal,
    surroundings: { env },
  }: Pick<CommandContext, 'notices' | 'signal' | 'surroundings'>,
  keptMs: number,
): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-sign-in-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  const file = path.join(folder, 'sign-in.html');
  const page = `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=${url}"><title>mailkeep</title>`;
  writeFileSync(file, page, { mode: 0o600 });
  const [command, ...args] = opener(file);
  const child = spawn(command, args, { stdio: 'ignore', detached: true, env: { ...env } });
  child.unref();
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, keptMs);
    const end = (): void => {
      clearTimeout(timer);
      resolve();
    };
    const failed = (): void => {
      notices.warn(`No browser could be started (${command}).`);
      end();
    };
    child.once('error', failed);
    child.once('exit', (code) => {
      if (code !== null && code !== 0) failed();
    });
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  });
  process.off('exit', remove);
  remove();
}

function opener(file: string): [string, ...string[]] {
  if (process.platform === 'darwin') return ['open', file];
  if (process.platform === 'win32') return ['cmd', '/c', 'start', '', file];
  return ['xdg-open', file];
}
