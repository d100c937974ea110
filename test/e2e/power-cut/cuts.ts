import path from 'node:path';
import { scanLog } from '../../../src/archive/log-reader.ts';
import { type Random, randomFrom } from '../../../src/sandbox/generated-mail.ts';
import type { SimulatedDisk } from '../../archive/simulated-disk.ts';
import { type FolderTree, treeOf, without } from './folder-tree.ts';
import type { DiskChange } from './open-file.ts';
import type { Recording } from './recording.ts';
import { Replay } from './replay.ts';

/** Where the power goes, and how much of what was not synced it leaves. */
export interface Cut {
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
export function drawCuts({ changes }: Recording, count: number, seed: number): Cut[] {
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
export async function* leftByCuts(
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
