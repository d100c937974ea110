import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, type Workplace, workplace } from './child.ts';

const text = readFileSync(fileURLToPath(new URL('../../README.md', import.meta.url)), 'utf8');

/** What it shows of the demonstration's archive, with what that prints. */
const shown = [...text.matchAll(/^```\n([\s\S]*?)^```$/gm)]
  .flatMap(([, block = '']) => block.split(/^\$ /m).slice(1))
  .map((example) => {
    const end = example.indexOf('\n');
    return { command: example.slice(0, end), output: example.slice(end + 1) };
  })
  .filter(({ command }) => command.includes('--data .demo/data'));
/** Searches in its sentences. */
const searches = [...text.matchAll(/`mailkeep search ([^`]*[:" ][^`]*)`/g)].map(
  ([, words = '']) => words,
);

let sandbox: Sandbox;
let work: Workplace;

// As `npm start` does.
beforeAll(async () => {
  sandbox = await startSandbox({ seed: 1 });
  work = workplace(sandbox);
  const { code, stderr } = await mailkeep(['sync', '--config', work.config]);
  expect(code, stderr).toBe(0);
});
afterAll(() => sandbox.close());

test('there are examples', () => {
  expect(shown.length).toBeGreaterThan(2);
  expect(searches.length).toBeGreaterThan(0);
});

test.each(shown)('README.md: $command', async ({ command, output }) => {
  const [, ...args] = words(command.replace('.demo/data', work.data)).slice(1);
  expect(await mailkeep(args)).toMatchObject({ code: 0, stdout: output });
});

test.each(searches)('README.md: mailkeep search %s finds something', async (query) => {
  const { stdout } = await mailkeep(['search', '--count', ...words(query), '--data', work.data]);
  expect(Number(stdout)).toBeGreaterThan(0);
});

/** As a shell takes them. */
function words(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}
