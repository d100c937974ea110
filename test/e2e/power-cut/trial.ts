import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'vitest';
import { scanLog } from '../../../src/archive/log-reader.ts';
import { type Random, randomFrom } from '../../../src/sandbox/generated-mail.ts';
import type { SimulatedDisk } from '../../archive/simulated-disk.ts';
import { type Ended, mailkeep } from '../../cli/child.ts';
import { type FolderTree, readTree, treeOf, without, writeTree } from './folder-tree.ts';
import { type DiskChange, Replay } from './replay.ts';
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
interface Recording {
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

/** Where the power goes, and how much of what was not synced it leaves. */
interface Cut {
  /** Changes of the disk that came before. */
  readonly after: number;
  /** How likely each unsynced thing is to be left: 0 is the worst cut, 1 a mere kill. */
  readonly share: number;
  readonly seed: number;
}

/** What a power cut left. */
export interface Left {
  readonly cut: Cut;
  readonly tree: FolderTree;
  /** What there was before the run, and after all of it. */
  readonly atStart: FolderTree;
  readonly atEnd: FolderTree;
  /** Whether the command is to be run again, or only its remains checked. */
  readonly goesOn: boolean;
  /** The last change before it, for messages of failures. */
  readonly last: DiskChange;
  /** The program had done all that it did when the cut came. */
  readonly isOver: boolean;
  /**
   * Hashes of the commits of the log in `data` that were synced before it, or of all when it was over: none of them may
   * be missing.
   */
  readonly committed: readonly string[];
}

/**
 * Draws cuts of a recording: half of them at any change, and half, in turn, just before or after a change that is not
 * a mere write, where something is made durable, named or removed. The second comes at the very end.
 */
function drawCuts({ changes }: Recording, count: number, seed: number): Cut[] {
  const random = randomFrom(seed, 'power cuts');
  const turning = changes.flatMap(({ what }, at) => (what === 'write' ? [] : [at, at + 1]));
  const adjacent = shuffled([...new Set(turning)], random);
  const cuts = Array.from({ length: count }, (_, n): Cut => {
    const at = n % 2 === 0 ? adjacent[(n / 2) % adjacent.length] : random.below(changes.length + 1);
    return {
      after: n === 1 ? changes.length : (at ?? 0),
      share: random.pick([0, 0.1, 0.5, 0.67, 0.9, 1]),
      seed: random.below(2 ** 31),
    };
  });
  return cuts.sort((a, b) => a.after - b.after);
}

function shuffled<T>(list: readonly T[], random: Random): T[] {
  const keyed = list.map((item) => ({ item, key: random.unit() }));
  return keyed.sort((a, b) => a.key - b.key).map(({ item }) => item);
}

/**
 * What each cut leaves, in the order of the cuts, which has to be that of the changes. Before it comes, only to be looked
 * at, what a cut at the same moment leaves that loses all, and one that loses nothing.
 */
async function* leftByCuts(
  { root, cwd, before, after, calls, changes }: Recording,
  cuts: readonly Cut[],
): AsyncGenerator<Left, void, undefined> {
  const replay = new Replay(root, before, cwd);
  let last: DiskChange;
  let done = 0;
  let next = 0;
  const data = path.join(root, 'data');
  let committed = await commitsOf(replay.disk, data);
  const due = function* (): Generator<Left> {
    for (let cut = cuts[next]; cut?.after === done; cut = cuts[next]) {
      const others = [0, 1].filter((share) => share !== cut.share);
      for (const share of [...others, cut.share]) {
        const random = randomFrom(cut.seed, 'what is left');
        const disk = replay.disk.leftByPowerCut(() => random.unit() < share);
        const lost = replay.newFolders().filter(() => random.unit() >= share);
        yield {
          cut: { ...cut, share },
          tree: without(treeOf(disk, root), root, lost),
          atStart: before,
          atEnd: after,
          goesOn: share === cut.share,
          last,
          isOver: done === changes.length,
          committed,
        };
      }
      next += 1;
    }
  };
  yield* due();
  for (const call of calls) {
    const change = await replay.apply(call);
    if (change === undefined) continue;
    last = change;
    done += 1;
    if (change.what === 'sync' && change.path.startsWith(`${data}/log/`)) {
      const now = await commitsOf(replay.disk, data);
      if (now.length > committed.length) committed = now;
    }
    if (done === changes.length) committed = await commitsOf(replay.disk, data);
    yield* due();
  }
}

/** Up to the first damage: a repair begins with some. */
async function commitsOf(disk: SimulatedDisk, dir: string): Promise<string[]> {
  const hashes: string[] = [];
  if (!disk.paths().includes(path.join(dir, 'FORMAT'))) return hashes;
  for await (const event of scanLog({ dir, files: disk.files })) {
    if (event.what === 'damage') break;
    if (event.what === 'batch') hashes.push(event.batch.commit.hash);
  }
  return hashes;
}

/** Cuts of each command; by hand, hundreds: MAILKEEP_POWER_CUTS=200 MAILKEEP_SEED=5 npx vitest run test/e2e/power-cut */
const CUTS = Number(process.env.MAILKEEP_POWER_CUTS ?? 2);
const SEED = Number(process.env.MAILKEEP_SEED ?? 1);

export interface Trial {
  readonly name: string;
  /** Puts there what the command finds. */
  prepare(work: string): void | Promise<void>;
  args(work: string): string[];
  /** What has to hold when the power is back. */
  afterCut(work: string, left: Left): Promise<unknown>;
  /** What has to hold when the same command has finished. */
  afterEnd(work: string, left: Left): Promise<unknown>;
}

/** Milliseconds that a test may take with so many cuts: a watchdog. */
export const WATCHDOG = 120_000 + CUTS * 20_000;

/**
 * Runs a command once, then takes the power from it at many moments: each time everything is put back as the cut left
 * it, looked at, and the same command has to finish.
 */
export async function powerCuts(trial: Trial): Promise<void> {
  const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-power-'));
  await trial.prepare(work);
  const args = trial.args(work);
  const recording = await record(work, args);
  expect(`${recording.ended.code} ${recording.ended.stderr}`).toMatch(/^0 /);
  const { changes } = recording;
  for await (const left of leftByCuts(recording, drawCuts(recording, CUTS, SEED))) {
    const { cut, last } = left;
    try {
      writeTree(work, left.tree);
      await trial.afterCut(work, left);
      if (!left.goesOn) continue;
      const again = await mailkeep(args);
      expect(`${again.code} ${again.stderr}`).toMatch(/^0 /);
      await trial.afterEnd(work, left);
    } catch (error) {
      const seen =
        last === undefined ? 'nothing' : `${last.what} ${path.relative(work, last.path)}`;
      throw new Error(
        `${trial.name}, seed ${SEED}: power cut after ${cut.after} of ${changes.length} changes (${seen}), ` +
          `leaving ${cut.share} of what was not synced (seed ${cut.seed}), in ${work}`,
        { cause: error },
      );
    }
  }
  rmSync(work, { recursive: true, force: true });
  console.info(`${trial.name}: ${CUTS} power cuts among ${changes.length} changes, seed ${SEED}`);
}
