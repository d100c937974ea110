import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { Children } from '../../../src/sandbox/children.ts';
import { lastingPort } from '../../peers/ports.ts';
import { absent, extendPath } from '../../peers/programs.ts';
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
  return absent(...programs, 'python3', 'memcached');
}

/** Starts Swift with its S3 interface on a folder of its own, whose file system has to take extended attributes. */
export async function startSwift(): Promise<S3Server> {
  const children = new Children(mkdtempSync(path.join(tmpdir(), 's3-')));
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
  const ports = new Map<string, number>();
  for (const name of STORAGE) ports.set(name, await lastingPort());
  const rings = [...ports].map(([name, port]) => `${name}:${port}`);
  await children.run('/usr/bin/python3', '-c', MAKE_RINGS, folder, ...rings);
  for (const [name, port] of ports) {
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
  }
  const port = await lastingPort();
  const config = path.join(folder, 'proxy.conf');
  writeFileSync(config, proxyConfiguration(common, port, cache));
  children.start('swift-proxy-server', config, 'verbose');
  for (const each of [cache, ...ports.values(), port]) await children.listening('swift', each);
  return {
    name: 'Swift',
    port,
    accessKeyId: 'test:tester',
    secretAccessKey: SECRET_KEY,
    stop: () => children.stop(),
  };
}

/** Each a ring of one replica on one device: with Swift's own code, because its command takes seconds for each step. */
const MAKE_RINGS = `
import sys
from swift.common.ring import RingBuilder
folder, *servers = sys.argv[1:]
for server in servers:
    name, port = server.split(':')
    builder = RingBuilder(4, 1, 0)
    builder.add_dev({'id': 0, 'region': 1, 'zone': 1, 'weight': 1, 'ip': '127.0.0.1', 'port': int(port), 'device': 'd1'})
    builder.rebalance()
    builder.get_ring().save(f'{folder}/{name}.ring.gz')
`;

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
