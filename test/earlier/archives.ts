import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';

/** A commit that changed what is on the disk, and the archive that shows it. */
export interface EarlierArchive {
  readonly commit: string;
  readonly subject: string;
  /** What the commit changed: `catalog`, `log`, `state`. */
  readonly changed: readonly string[];
  /** The commit whose program made the archive: this one, or the first later one that works. */
  readonly madeBy: string;
  /** Why this commit made none itself. */
  readonly reason?: string;
  /** What the program did. */
  readonly steps: readonly string[];
  /** The ids of its messages, by their names in `mail.ts`. */
  readonly messages: Readonly<Record<string, string>>;
}

const inside = (name: string) =>
  fileURLToPath(new URL(`../fixtures/earlier/${name}`, import.meta.url));
const list = inside('archives.json');
/** A folder for each commit. They differ little, so they are compressed together. */
const packed = inside('archives.tar.zst');
/** The largest window that decoders accept by default: 128 MiB. */
const WINDOW_LOG = 27;

export function readList(): EarlierArchive[] {
  return existsSync(list) ? JSON.parse(readFileSync(list, 'utf8')) : [];
}

export function writeList(archives: readonly EarlierArchive[]): void {
  writeFileSync(list, `[\n${archives.map((one) => JSON.stringify(one)).join(',\n')}\n]\n`);
}

export function unpackArchives(folder: string): void {
  tar(['-x'], folder, zstdDecompressSync(readFileSync(packed)));
}

export function packArchives(folder: string): void {
  const owner = ['--owner=0', '--group=0', '--numeric-owner', '--mtime=@0', '--sort=name'];
  const bytes = tar(['-c', ...owner, '.'], folder);
  const params = {
    [constants.ZSTD_c_compressionLevel]: 19,
    [constants.ZSTD_c_windowLog]: WINDOW_LOG,
    [constants.ZSTD_c_enableLongDistanceMatching]: 1,
  };
  writeFileSync(packed, zstdCompressSync(bytes, { params }));
}

function tar(line: readonly string[], cwd: string, input?: Buffer): Buffer {
  const done = spawnSync('tar', line, { cwd, input, maxBuffer: 2 ** 30 });
  if (done.status !== 0) throw new Error(done.stderr.toString());
  return done.stdout;
}
