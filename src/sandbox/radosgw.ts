import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type Children, findStablePort } from './children.ts';

/** The server is short-lived, and only this machine can reach it. */
const ACCESS_KEY = 'ACCESSKEYOFTHEDEMO01';
const SECRET_KEY = 'secretKeyOfTheDemo00secretKeyOfTheDemo00';

/**
 * Starts RadosGW, the S3 server of Ceph, with one monitor and one store in memory. It has no buckets.
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
