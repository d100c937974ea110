import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'vitest';
import { type Ended, mailkeep } from '../../cli/child.ts';
import { type FolderTree, readTree, treeOf } from './folder-tree.ts';
import type { DiskChange } from './open-file.ts';
import { Replay } from './replay.ts';
import { type SystemCall, systemCalls } from './system-calls.ts';

/** Every call that can change a disk or say what a descriptor means; and those that a replay has to refuse. */
const CALLS = [
  ...['open', 'openat', 'creat', 'close', 'dup', 'dup2', 'dup3', 'fcntl', 'lseek', 'ioctl'],
  ...['write', 'pwrite64', 'writev', 'pwritev', 'pwritev2', 'copy_file_range', 'sendfile'],
  ...['splice', 'truncate', 'ftruncate', 'fallocate', 'fsync', 'fdatasync', 'sync_file_range'],
  ...['rename', 'renameat', 'renameat2', 'unlink', 'unlinkat', 'mkdir', 'mkdirat', 'rmdir'],
  ...['link', 'linkat', 'symlink', 'symlinkat', 'mmap', 'msync', 'io_uring_setup'],
  ...['clone', 'clone3', 'fork', 'vfork'],
];

/** A run of the program: what it found below a folder, and what it did to that. */
export interface Recording {
  readonly root: string;
  readonly cwd: string;
  readonly before: FolderTree;
  readonly after: FolderTree;
  readonly calls: readonly SystemCall[];
  /** In order, what changed the disk or made it durable. */
  readonly changes: readonly Exclude<DiskChange, undefined>[];
  readonly ended: Ended;
}

/**
 * Runs the built program to its end and records what it does to the disk below `root`. That nothing is missing from the
 * record is proved: carried out on what was there before, it gives every byte that is there now.
 */
export async function record(root: string, args: readonly string[]): Promise<Recording> {
  const cwd = mkdtempSync(path.join(tmpdir(), 'mailkeep-record-'));
  const file = path.join(cwd, 'calls');
  const before = readTree(root);
  // Strings are longer than any write here; 2²⁴ is the most that it takes.
  const strace = ['strace', '-f', '--seccomp-bpf', '-xx', '-s', String(2 ** 24), '-o', file];
  const under = [...strace, '-e', `trace=${CALLS.join(',')}`];
  // Calls about files must be calls, and not entries of a queue, which no replay can follow.
  const ended = await mailkeep(args, { cwd, under, env: { UV_USE_IO_URING: '0' } });
  const calls = systemCalls(readFileSync(file, 'latin1'));
  rmSync(cwd, { recursive: true, force: true });
  const replay = new Replay(root, before, cwd);
  const changes: Exclude<DiskChange, undefined>[] = [];
  for (const call of calls) {
    const change = await replay.apply(call);
    if (change !== undefined) changes.push(change);
  }
  const [replayed, real] = [treeOf(replay.disk, root), readTree(root)];
  expect([...replayed.files.keys()]).toEqual([...real.files.keys()]);
  const differing = [...real.files].filter(([name, bytes]) => {
    return replayed.files.get(name)?.equals(bytes) !== true;
  });
  expect(differing.map(([name]) => name)).toEqual([]);
  expect(replayed.folders).toEqual(real.folders);
  return { root, cwd, before, after: real, calls, changes, ended };
}
