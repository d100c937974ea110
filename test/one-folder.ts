import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let folder: string | undefined;

/**
 * Gives all tests of a run, and the programs they start, one folder for what is temporary: a test that fails, or a
 * program that it kills, leaves nothing behind. The name is short, for the paths of sockets have 108 bytes.
 */
export function setup(): void {
  folder = mkdtempSync(join(tmpdir(), 'mk-'));
  // A mail server that a test starts reads as a user of its own, and has to come through.
  chmodSync(folder, 0o711);
  process.env.TMPDIR = folder;
}

export function teardown(): void {
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
}
