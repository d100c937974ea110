import type { S3Target } from '../../../src/core/s3-target.ts';

/** A running S3 server without buckets. */
export interface S3Server {
  readonly name: string;
  readonly port: number;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  stop(): Promise<void>;
}

/** Returns a place in a bucket of a server, reached through any port. */
export function targetAt(
  server: S3Server,
  bucket: string,
  more: Partial<S3Target> & { readonly port?: number } = {},
): S3Target {
  const { accessKeyId, secretAccessKey } = server;
  const { port = server.port, ...rest } = more;
  return {
    bucket,
    prefix: '',
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    credentials: async () => ({ accessKeyId, secretAccessKey }),
    pathStyle: true,
    ...rest,
  };
}
