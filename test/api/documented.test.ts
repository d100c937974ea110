import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';

const root = new URL('../../', import.meta.url);
const text = await readFile(new URL('docs/client.md', root), 'utf8');
const programs: { readonly heading: string; readonly program: string }[] = [];
let under = '';
for (const [, heading, program] of text.matchAll(/^## (.+)$|^```js\n([\s\S]*?)^```$/gm)) {
  if (program === undefined) under = heading ?? '';
  else programs.push({ heading: under, program });
}

let sandbox: Sandbox;
let dir: string;

beforeAll(async () => {
  sandbox = await startSandbox();
  dir = await mkdtemp(join(tmpdir(), 'mailkeep-documented-'));
});

afterAll(async () => {
  await sandbox.close();
  await rm(dir, { recursive: true, force: true });
});

test('there are examples', () => {
  expect(programs.length).toBeGreaterThan(5);
});

test.each(programs)(
  'docs/client.md, $heading: the example runs as it stands',
  async ({ program }) => {
    const file = join(dir, `example-${programs.findIndex((each) => each.program === program)}.mjs`);
    const library = new URL('src/index.ts', root).href;
    await writeFile(file, program.replaceAll("from 'mailkeep'", `from '${library}'`));
    const { code, output } = await run(file);
    expect(output).not.toMatch(/error/i);
    expect(code).toBe(0);
    expect(output.trim()).not.toBe('');
  },
);

function run(file: string): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = spawn(process.execPath, ['--import', 'tsx', file], {
    cwd: fileURLToPath(root),
    env: {
      PATH: process.env.PATH,
      MAILBOX_URL: sandbox.mailboxUrl,
      MAILBOX_TOKEN: sandbox.tokens.mailbox,
      PLATFORM_URL: sandbox.platformUrl,
      PLATFORM_TOKEN: sandbox.tokens.platform,
    },
  });
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    output += chunk;
  });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })));
}
