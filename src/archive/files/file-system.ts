import { existsSync, readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';

export interface FileSystem {
  /** As the kernel names it: `ext4`, `nfs4`, `fuse.sshfs`. */
  readonly type: string;
  readonly mountPoint: string;
  /** Reached over a network: its locks and its promises that data is on the disk are often untrue. */
  readonly network: boolean;
}

/** Names of network file systems in Linux's tables; those in user space stand behind `fuse.`. */
const NETWORK = new Set(
  '9p afs beegfs ceph cifs coda gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs smb3 smbfs'.split(
    ' ',
  ),
);
const NETWORK_FUSE =
  /^fuse\.(.*ssh|.*s3|davfs|webdav|glusterfs|ceph|rclone|gvfs|smb|nfs|juicefs|gcsfuse|blobfuse)/;

/**
 * The file system that holds a folder, or would, were the folder made; null where the system has no such table
 * (it is Linux's).
 */
export function fileSystemOf(folder: string): FileSystem | null {
  const table = '/proc/self/mountinfo';
  if (!existsSync(table)) return null;
  return fileSystemIn(readFileSync(table, 'utf8'), realpathSync(nearestExisting(folder)));
}

/** Finds the mount of an absolute path in the text of /proc/self/mountinfo (proc_pid_mountinfo(5)). */
export function fileSystemIn(mountinfo: string, folder: string): FileSystem | null {
  let found: FileSystem | null = null;
  for (const line of mountinfo.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const mountPoint = unescaped(before.split(' ')[4] ?? '');
    const type = after.split(' ')[0] ?? '';
    // Of mounts over each other the last one is seen.
    if (mountPoint === '' || !contains(mountPoint, folder)) continue;
    if (found !== null && mountPoint.length < found.mountPoint.length) continue;
    found = { type, mountPoint, network: NETWORK.has(type) || NETWORK_FUSE.test(type) };
  }
  return found;
}

function contains(mountPoint: string, folder: string): boolean {
  return mountPoint === '/' || folder === mountPoint || folder.startsWith(`${mountPoint}/`);
}

/** Blanks and backslashes stand as octal numbers. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}

function nearestExisting(folder: string): string {
  let at = path.resolve(folder);
  while (!existsSync(at)) at = path.dirname(at);
  return at;
}
