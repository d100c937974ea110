import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { program, type Workplace } from './child.ts';
import { bothSurfaces } from './platform-config.ts';

const text = readFileSync(fileURLToPath(new URL('../../docs/api.md', import.meta.url)), 'utf8');

/** Commands with what they print, as the document shows it. */
const examples = [...text.matchAll(/^```console\n([\s\S]*?)^```$/gm)]
  .flatMap(([, block = '']) => block.split(/^\$ /m).slice(1))
  .map((example) => {
    const end = example.indexOf('\n');
    return { command: example.slice(0, end), output: example.slice(end + 1) };
  });

let sandbox: Sandbox;
let place: Workplace;

beforeAll(async () => {
  sandbox = await startSandbox();
  place = bothSurfaces(sandbox);
  const bin = path.join(place.folder, 'bin');
  mkdirSync(bin);
  writeFileSync(
    path.join(bin, 'mailkeep'),
    `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`,
  );
  chmodSync(path.join(bin, 'mailkeep'), 0o755);
});
afterAll(() => sandbox.close());

test('there are examples', () => {
  expect(examples.length).toBeGreaterThan(12);
});

// In order: later ones need what earlier ones made.
test.skipIf(process.platform === 'win32').each(examples)(
  'docs/api.md: $command',
  async (example) => {
    const printed = await shell(example.command);
    expect(printed).toMatch(pattern(example.output));
  },
);

/** `…` is anything within a line; a line of its own, any lines. */
function pattern(output: string): RegExp {
  const literal = (part: string) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const lines = output
    .split('\n')
    .map((line) => (line === '…' ? '[\\s\\S]*?' : line.split('…').map(literal).join('.*')));
  return new RegExp(`^${lines.join('\n')}$`);
}

function shell(command: string): Promise<string> {
  const { folder } = place;
  const child = spawn('/bin/sh', ['-c', `{ ${command}\n} 2>&1`], {
    cwd: folder,
    env: { PATH: `${path.join(folder, 'bin')}:${process.env.PATH}`, HOME: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    printed += chunk;
  });
  return new Promise((resolve) => child.on('close', () => resolve(printed)));
}
