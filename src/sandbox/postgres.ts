import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Children } from './children.ts';

/** Only part of the socket's name: nothing listens on the network. */
const PORT = 5432;
const USER = 'fleet';
const DATABASE = 'postgres';

/**
 * Creates a cluster and starts a server that trusts everyone who can reach its socket.
 *
 * @param children runs processes as the owner of the cluster
 * @param owner set if this process runs as root
 * @returns the directory of the socket, and the URL of the database (`postgresql://…`)
 * @throws demo-server-ended, demo-server-late
 */
export async function startPostgres(
  children: Children,
  owner: { readonly uid: number; readonly gid: number } | undefined,
) {
  const { folder } = children;
  const [data, socketFolder] = [path.join(folder, 'data'), path.join(folder, 'socket')];
  for (const made of [data, socketFolder]) {
    mkdirSync(made, { mode: 0o700 });
    if (owner !== undefined) chownSync(made, owner.uid, owner.gid);
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
