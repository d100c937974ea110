import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ensureBucket } from '../../../src/copies/s3-store.ts';
import { program } from '../../cli/child.ts';
import { targetAt } from '../../objects/servers/s3-server.ts';
import { signal } from '../../objects/store-contract.ts';
import { type Servers, startServers, withoutServers } from '../servers/scene.ts';
import { Place } from './place.ts';

const skipped = withoutServers();
const page = readFileSync(
  fileURLToPath(new URL('../../../docs/fleet.md', import.meta.url)),
  'utf8',
);

/** Commands with what they print, as the page shows it. */
const examples = [...page.matchAll(/^```console\n([\s\S]*?)^```$/gm)]
  .flatMap(([, block = '']) => block.split(/^\$ /m).slice(1))
  .map((example) => {
    const end = example.indexOf('\n');
    return { command: example.slice(0, end), output: example.slice(end + 1) };
  });

let servers: Servers;
let place: Place;

beforeAll(async () => {
  if (skipped) return;
  servers = await startServers();
  await ensureBucket(targetAt(servers.gateway, 'mail'), signal);
  place = await Place.make(servers.postgres, {
    ...{ empty: true, server: servers.gateway, bucket: 'mail', prefix: 'fleet' },
  });
  const bin = path.join(place.folder, 'bin');
  mkdirSync(bin);
  const command = path.join(bin, 'mailkeep');
  writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`);
  chmodSync(command, 0o755);
});
afterAll(async () => {
  place?.remove();
  await servers?.stop();
});

test('there are examples', () => {
  expect(examples.length).toBeGreaterThan(0);
});

// In order: later ones need what earlier ones made.
test.skipIf(skipped).each(examples)('docs/fleet.md: $command', async ({ command, output }) => {
  expect(await shell(command)).toMatch(pattern(asHere(output)));
});

/** The page names servers and files as they are for people. */
function asHere(output: string): string {
  const { registry, keyFile } = place;
  return output
    .replaceAll('postgresql://mailkeep@db.example.org:5432/fleet', registry.label)
    .replaceAll('/etc/mailkeep/fleet.keys', keyFile);
}

/** `…` is anything within a line; a line of its own, any lines. */
function pattern(output: string): RegExp {
  const literal = (part: string) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const lines = output
    .split('\n')
    .map((line) => (line === '…' ? '[\\s\\S]*?' : line.split('…').map(literal).join('.*')));
  return new RegExp(`^${lines.join('\n')}$`);
}

function shell(command: string): Promise<string> {
  const { folder, env } = place;
  const child = spawn('/bin/sh', ['-c', `{ ${command}\n} 2>&1`], {
    cwd: folder,
    env: { ...env, PATH: `${path.join(folder, 'bin')}:${process.env.PATH}` },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    printed += chunk;
  });
  return new Promise((resolve) => child.on('close', () => resolve(printed)));
}
