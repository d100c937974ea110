import { accessSync, constants, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { demoError } from './errors.ts';

/** Debian installs PostgreSQL versions outside PATH, and system programs in directories of root's PATH. */
const POSTGRESQL = '/usr/lib/postgresql';
const SYSTEM = ['/usr/sbin', '/sbin'];
/** PostgreSQL refuses to run as root. Its package creates this user. */
const OWNER = 'postgres';

const PACKAGES = {
  initdb: 'postgresql',
  postgres: 'postgresql',
  pg_isready: 'postgresql',
  'ceph-mon': 'ceph-mon',
  'ceph-osd': 'ceph-osd',
  radosgw: 'radosgw',
  'radosgw-admin': 'radosgw',
  ceph: 'ceph-common',
  monmaptool: 'ceph-common',
} as const;

export function programPath(PATH: string | undefined): string {
  return [PATH ?? '', ...SYSTEM, ...postgresFolders()].join(path.delimiter);
}

function postgresFolders(): string[] {
  try {
    return readdirSync(POSTGRESQL)
      .toSorted((a, b) => Number(b) - Number(a))
      .map((version) => path.join(POSTGRESQL, version, 'bin'));
  } catch {
    return [];
  }
}

/**
 * Checks that the demo's programs are installed and can run as this user.
 *
 * @throws demo-programs-missing, demo-no-owner
 */
export function checkPrograms(folders: string): void {
  const missing = Object.keys(PACKAGES).filter((name) => !isInstalled(folders, name));
  if (missing.length > 0) {
    const packages = [
      ...new Set(
        Object.entries(PACKAGES).flatMap(([name, of]) => (missing.includes(name) ? of : [])),
      ),
    ];
    throw demoError('demo-programs-missing', { programs: missing, packages });
  }
  if (process.getuid?.() === 0 && postgresOwner() === undefined) {
    throw demoError('demo-no-owner', { user: OWNER });
  }
}

function isInstalled(folders: string, program: string): boolean {
  return folders.split(path.delimiter).some((folder) => {
    try {
      accessSync(path.join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Returns the user that PostgreSQL runs as if this process is root. */
export function postgresOwner(): { readonly uid: number; readonly gid: number } | undefined {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith(`${OWNER}:`));
  const [, , uid, gid] = line?.split(':') ?? [];
  return uid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}
