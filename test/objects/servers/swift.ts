import { mkdirSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import path from 'node:path';
import { lastingPort } from '../../peers/ports.ts';
import { absent, extendPath } from '../../peers/programs.ts';
import { Children } from './children.ts';
import type { S3Server } from './s3-server.ts';

const STORAGE = ['account', 'container', 'object'] as const;
const SECRET_KEY = 'secretKeyOfTheTests';
const PIPELINE = [
  ...['catch_errors', 'gatekeeper', 'healthcheck', 'cache', 'listing_formats', 'bulk', 's3api'],
  ...['tempauth', 'copy', 'slo', 'dlo', 'versioned_writes', 'symlink', 'proxy-server'],
];

/**
 * True where Swift, the object store of OpenStack, is not installed.
 *
 * @throws Error if MAILKEEP_PEERS=required
 */
export function withoutSwift(): boolean {
  extendPath();
  const programs = ['proxy', ...STORAGE].map((name) => `swift-${name}-server`);
  return absent(...programs, 'swift-ring-builder', 'memcached');
}

/** Starts Swift with its S3 interface on a folder of its own, whose file system has to take extended attributes. */
export async function startSwift(): Promise<S3Server> {
  const children = new Children();
  try {
    return await start(children);
  } catch (error) {
    await children.stop();
    throw error;
  }
}

async function start(children: Children): Promise<S3Server> {
  const { folder } = children;
  mkdirSync(path.join(folder, 'disk/d1'), { recursive: true });
  const common = `bind_ip = 127.0.0.1
workers = 0
user = ${userInfo().username}
swift_dir = ${folder}
`;
  const cache = await lastingPort();
  const { username } = userInfo();
  children.start('memcached', '-l', '127.0.0.1', '-p', String(cache), '-m', '16', '-u', username);
  const servers = await Promise.all(
    STORAGE.map(async (name) => {
      const port = await lastingPort();
      await makeRing(children, name, port);
      const config = path.join(folder, `${name}.conf`);
      writeFileSync(
        config,
        `[DEFAULT]
${common}bind_port = ${port}
devices = ${folder}/disk
mount_check = false
disable_fallocate = true
[pipeline:main]
pipeline = ${name}-server
[app:${name}-server]
use = egg:swift#${name}
`,
      );
      children.start(`swift-${name}-server`, config, 'verbose');
      return port;
    }),
  );
  const port = await lastingPort();
  const config = path.join(folder, 'proxy.conf');
  writeFileSync(config, proxyConfiguration(common, port, cache));
  children.start('swift-proxy-server', config, 'verbose');
  for (const each of [cache, ...servers, port]) await children.listening(each);
  return {
    name: 'Swift',
    port,
    accessKeyId: 'test:tester',
    secretAccessKey: SECRET_KEY,
    stop: () => children.stop(),
  };
}

/** One replica on one device. */
async function makeRing(children: Children, name: string, port: number): Promise<void> {
  const builder = path.join(children.folder, `${name}.builder`);
  const device = ['--region', '1', '--zone', '1', '--ip', '127.0.0.1', '--device', 'd1'];
  await children.run('swift-ring-builder', builder, 'create', '4', '1', '0');
  await children.run(
    ...(['swift-ring-builder', builder, 'add', ...device] as const),
    ...['--port', String(port), '--weight', '1'],
  );
  await children.run('swift-ring-builder', builder, 'rebalance');
}

function proxyConfiguration(common: string, port: number, cache: number): string {
  const plain = PIPELINE.filter((name) => !['proxy-server', 'cache'].includes(name));
  const options: Readonly<Record<string, string>> = {
    s3api: 'location = us-east-1\n',
    tempauth: `user_test_tester = ${SECRET_KEY} .admin\n`,
    versioned_writes: 'allow_versioned_writes = true\nallow_object_versioning = true\n',
  };
  const filters = plain.map(
    (name) => `[filter:${name}]\nuse = egg:swift#${name}\n${options[name] ?? ''}`,
  );
  return `[DEFAULT]
${common}bind_port = ${port}
[pipeline:main]
pipeline = ${PIPELINE.join(' ')}
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
allow_account_management = true
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:${cache}
${filters.join('')}`;
}
