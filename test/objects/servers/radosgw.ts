import { execFile } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Children } from '../../../src/sandbox/children.ts';
import { startRadosGateway } from '../../../src/sandbox/demo-servers.ts';
import { absent, extendPath } from '../../peers/programs.ts';
import { admittedTo, type SharedServer } from '../../peers/shared-servers.ts';
import type { S3Server } from './s3-server.ts';

const run = promisify(execFile);

/**
 * True where RadosGW, the S3 server of Ceph, is not installed.
 *
 * @throws Error if MAILKEEP_PEERS=required
 */
export function withoutRadosgw(): boolean {
  extendPath();
  return absent('ceph-mon', 'ceph-osd', 'radosgw', 'radosgw-admin', 'ceph', 'monmaptool');
}

export interface Radosgw extends S3Server {
  /** Lets a bucket have that many bytes at most; undefined for any number. */
  limit(bucket: string, bytes: number | undefined): Promise<void>;
}

/** What a test file needs to use the server that all files share. */
interface Admitted {
  readonly config: string;
  /** Names of buckets belong to a tenant. */
  readonly tenant: string;
  readonly port: number;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/** Uses the server that all test files share, as a tenant of its own. */
export async function startRadosgw(): Promise<Radosgw> {
  return serverAt(await admittedTo<Admitted>('radosgw'), async () => undefined);
}

/** Starts RadosGW in a folder of its own, which ends with it. */
export async function startOwnRadosgw(): Promise<Radosgw> {
  const server = await shareRadosgw();
  return serverAt(await server.admit(), server.stop);
}

export async function shareRadosgw(): Promise<SharedServer<Admitted>> {
  withoutRadosgw();
  const children = new Children(mkdtempSync(path.join(tmpdir(), 's3-')));
  const stop = () => children.stop();
  const config = path.join(children.folder, 'ceph.conf');
  let tenants = 0;
  try {
    const { admin, port } = await startRadosGateway(children);
    const admit = async (): Promise<Admitted> => {
      tenants += 1;
      const tenant = `tenant${tenants}`;
      const accessKeyId = `ACCESSKEYOFTENANT${String(tenants).padStart(3, '0')}`;
      const secretAccessKey = `secretKeyOfTenant${String(tenants).padStart(23, '0')}`;
      await admin(
        ...['user', 'create', `--tenant=${tenant}`, '--uid=test', '--display-name=test'],
        ...[`--access-key=${accessKeyId}`, `--secret-key=${secretAccessKey}`],
      );
      return { config, tenant, port, accessKeyId, secretAccessKey };
    };
    return { admit, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function serverAt({ config, tenant, ...server }: Admitted, stop: Radosgw['stop']): Radosgw {
  const admin = (...args: readonly string[]) => run('radosgw-admin', ['-c', config, ...args]);
  return {
    ...server,
    stop,
    name: 'RadosGW',
    async limit(bucket, bytes) {
      const quota = ['quota', ...(bytes === undefined ? ['disable'] : ['set'])];
      const about = ['--quota-scope=bucket', `--bucket=${tenant}/${bucket}`];
      await admin(...quota, ...about, ...(bytes === undefined ? [] : [`--max-size=${bytes}B`]));
      if (bytes !== undefined) await admin('quota', 'enable', ...about);
    },
  };
}
