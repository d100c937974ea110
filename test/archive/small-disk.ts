import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** A disk of its own that can be filled: a file system in memory, which only root may mount. */
export class SmallDisk {
  readonly dir: string;
  readonly #ballast: string;

  private constructor(dir: string) {
    this.dir = dir;
    this.#ballast = path.join(dir, 'ballast');
  }

  /** Undefined, and said why, where none can be mounted. */
  static mounted(bytes: number): SmallDisk | undefined {
    const dir = mkdtempSync(path.join(tmpdir(), 'mailkeep-small-disk-'));
    const mount = spawnSync(
      'mount',
      ['-t', 'tmpfs', '-o', `size=${bytes},mode=700`, 'tmpfs', dir],
      {
        encoding: 'utf8',
      },
    );
    if (mount.status === 0) return new SmallDisk(dir);
    rmdirSync(dir);
    console.warn(`not tried on a full disk: ${mount.error?.message ?? mount.stderr.trim()}`);
    return undefined;
  }

  /** Leaves so much room, to a page (bytes). */
  leave(bytes: number): void {
    this.makeRoom();
    const { bsize, bavail } = statfsSync(this.dir);
    const fill = bsize * bavail - bytes;
    if (fill < 0) throw new Error(`there are only ${bsize * bavail} bytes`);
    writeFileSync(this.#ballast, Buffer.alloc(fill));
  }

  makeRoom(): void {
    rmSync(this.#ballast, { force: true });
  }

  /** It is gone from the folders at once, and altogether when nobody has a file of it open. */
  unmount(): void {
    const { status, stderr } = spawnSync('umount', ['-l', this.dir], { encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
    rmdirSync(this.dir);
  }
}
