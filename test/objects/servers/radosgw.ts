import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Children } from '../../../src/sandbox/children.ts';
import { startRadosGateway } from '../../../src/sandbox/demo-servers.ts';
import { absent, extendPath } from '../../peers/programs.ts';
import type { S3Server } from './s3-server.ts';

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

/** Starts RadosGW in a folder of its own, which ends with it. */
export async function startRadosgw(): Promise<Radosgw> {
  const children = new Children(mkdtempSync(path.join(tmpdir(), 's3-')));
  try {
    const { admin, ...server } = await startRadosGateway(children);
    return {
      ...server,
      name: 'RadosGW',
      async limit(bucket, bytes) {
        const quota = ['quota', ...(bytes === undefined ? ['disable'] : ['set'])];
        const about = ['--quota-scope=bucket', `--bucket=${bucket}`];
        await admin(...quota, ...about, ...(bytes === undefined ? [] : [`--max-size=${bytes}B`]));
        if (bytes !== undefined) await admin('quota', 'enable', ...about);
      },
      stop: () => children.stop(),
    };
  } catch (error) {
    await children.stop();
    throw error;
  }
}
