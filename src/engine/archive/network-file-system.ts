import { fileSystemOf } from '../../archive/files/file-system.ts';
import { networkFileSystem } from '../../errors/archive.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Whether the user takes the risk of a network file system. */
export function allowsNetwork(env: Environment): boolean {
  return env.MAILKEEP_NETWORK_FILE_SYSTEM === 'allow';
}

/**
 * Refuses to write to an archive that is reached over a network.
 *
 * @throws network-file-system, unless MAILKEEP_NETWORK_FILE_SYSTEM is `allow`
 */
export function refuseNetworkFileSystem(dataDir: string, env: Environment): void {
  if (allowsNetwork(env)) return;
  const found = fileSystemOf(dataDir);
  if (found?.network !== true) return;
  const { type, mountPoint } = found;
  throw networkFileSystem({ dir: dataDir, type, mountPoint });
}
