import { randomUUID } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { type Children, findStablePort } from './children.ts';
import { demoError } from './errors.ts';

/** Debian installs PostgreSQL versions outside PATH, and system programs only in root's PATH. */
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

/** Returns the user for PostgreSQL if this process runs as root. */
export function postgresOwner(): { readonly uid: number; readonly gid: number } | undefined {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith(`${OWNER}:`));
  const [, , uid, gid] = line?.split(':') ?? [];
  return uid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}

/** Used only in the name of the socket: the server does not listen on the network. */
const PORT = 5432;
const USER = 'fleet';
const DATABASE = 'postgres';

/**
 * Creates a cluster and starts a server that trusts everyone who can access its socket.
 *
 * @param children runs processes as the owner of the cluster
 * @param owner set if this process runs as root
 * @returns the socket's directory, and the URL of the database (`postgresql://…`)
 * @throws demo-server-ended, demo-server-late
 */
export async function startPostgres(
  children: Children,
  owner: { readonly uid: number; readonly gid: number } | undefined,
) {
  const { folder } = children;
  const [data, socketFolder] = [path.join(folder, 'data'), path.join(folder, 'socket')];
  for (const dir of [data, socketFolder]) {
    mkdirSync(dir, { mode: 0o700 });
    if (owner !== undefined) chownSync(dir, owner.uid, owner.gid);
  }
  if (owner !== undefined) chmodSync(folder, 0o711);
  await children.run(
    ...(['initdb', '-D', data, '-U', USER, '-A', 'trust', '-E', 'UTF8'] as const),
    ...['--locale=C.UTF-8', '--no-sync'],
  );
  writeFileSync(path.join(data, 'pg_hba.conf'), 'local all all trust\n');
  const settings = ['listen_addresses=', 'shared_buffers=64MB', 'max_connections=200'];
  children.start(
    ...(['postgres', '-D', data, '-k', socketFolder, '-p', String(PORT)] as const),
    ...settings.flatMap((text) => ['-c', text]),
  );
  // Only the registry has a database client.
  const isReady = ['pg_isready', '-q', '-h', socketFolder, '-p', String(PORT)] as const;
  await children.until('postgres', () =>
    children.run(...isReady).then(
      () => true,
      () => false,
    ),
  );
  const address = `postgresql:///${DATABASE}?host=${socketFolder}&port=${PORT}&user=${USER}`;
  return { socketFolder, address };
}

/** The server is short-lived and reachable only from this machine. */
const ACCESS_KEY = 'ACCESSKEYOFTHEDEMO01';
const SECRET_KEY = 'secretKeyOfTheDemo00secretKeyOfTheDemo00';

/**
 * Starts RadosGW, Ceph's S3 server, with one monitor and one in-memory store. It has no buckets.
 *
 * @throws demo-server-ended, demo-server-late
 */
export async function startRadosGateway(children: Children) {
  const { folder } = children;
  const [monitor, port] = [await findStablePort(), await findStablePort()];
  const fsid = randomUUID();
  for (const name of ['mon', 'osd', 'run', 'log']) mkdirSync(path.join(folder, name));
  const config = path.join(folder, 'ceph.conf');
  writeFileSync(config, configuration(folder, fsid, monitor, port));
  writeFileSync(path.join(folder, 'keyring'), '');
  const monmap = path.join(folder, 'monmap');
  const ceph = (...args: string[]) =>
    children.run('ceph', '-c', config, '--connect-timeout', '30', ...args);
  const address = `[v2:127.0.0.1:${monitor}/0]`;
  await children.run(
    ...(['monmaptool', '--create', '--clobber', '--fsid', fsid] as const),
    ...['--enable-all-features', '--addv', 'a', address, monmap],
  );
  await children.run('ceph-mon', '-c', config, '-i', 'a', '--mkfs', '--monmap', monmap);
  children.start('ceph-mon', '-c', config, '-i', 'a', '-f');
  await ceph('osd', 'new', fsid, '0');
  await children.run('ceph-osd', '-c', config, '-i', '0', '--mkfs', '--osd-uuid', fsid);
  children.start('ceph-osd', '-c', config, '-i', '0', '-f');
  await children.until('ceph-osd', async () => /1 up.*1 in/.test(await ceph('osd', 'stat')));
  children.start('radosgw', '-c', config, '-n', 'client.rgw', '-f');
  await children.listening('radosgw', port);
  const admin = (...args: readonly string[]) =>
    children.run('radosgw-admin', '-c', config, ...args);
  await admin(
    ...(['user', 'create', '--uid=demo', '--display-name=demo'] as const),
    ...[`--access-key=${ACCESS_KEY}`, `--secret-key=${SECRET_KEY}`],
  );
  return { port, accessKeyId: ACCESS_KEY, secretAccessKey: SECRET_KEY, admin };
}

function configuration(folder: string, fsid: string, monitor: number, port: number): string {
  return `[global]
fsid = ${fsid}
mon host = [v2:127.0.0.1:${monitor}/0]
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr1 = false
ms bind port min = 33000
ms bind port max = 39000
auth cluster required = none
auth service required = none
auth client required = none
run dir = ${folder}/run
admin socket = ${folder}/run/$name.$pid.asok
log file = ${folder}/log/$name.log
crash dir = ${folder}/log
keyring = ${folder}/keyring
osd crush chooseleaf type = 0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail crit = 1
mon data avail warn = 2
paxos propose interval = 0.02
paxos min wait = 0.01
[mon]
mon data = ${folder}/mon
mon cluster log file = ${folder}/log/cluster.log
[osd]
osd data = ${folder}/osd
osd objectstore = memstore
memstore device bytes = 2147483648
osd op num shards = 2
osd class update on start = false
[client.rgw]
# The monitor has no keys for a secure connection.
ms mon client mode = crc secure
rgw frontends = beast endpoint=127.0.0.1:${port} tcp_nodelay=1
rgw override bucket index max shards = 1
rgw run sync thread = false
rgw thread pool size = 16
`;
}
