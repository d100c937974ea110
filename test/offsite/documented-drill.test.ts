import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ran } from '../cli/surface.ts';
import { message } from './copy-program.ts';

const PAGE = readFileSync(fileURLToPath(new URL('../../docs/offsite.md', import.meta.url)), 'utf8');

interface Step {
  readonly args: readonly string[];
  readonly output: readonly string[];
}

/** The commands of a section's first console block, with the lines that they print. */
function stepsOf(section: string): Step[] {
  const text = PAGE.slice(PAGE.indexOf(`\n## ${section}\n`));
  const block = /```console\n([\s\S]*?)```/.exec(text)?.[1] ?? '';
  const steps: { args: string[]; output: string[] }[] = [];
  for (const line of block.trimEnd().split('\n')) {
    const typed = /^\$ mailkeep (.*)$/.exec(line)?.[1];
    if (typed === undefined) steps.at(-1)?.output.push(line);
    else steps.push({ args: typed.split(' '), output: [] });
  }
  return steps;
}

let work: string;
beforeAll(async () => {
  work = mkdtempSync(path.join(tmpdir(), 'drill-'));
  mkdirSync(path.join(work, 'usb'));
  const config = {
    accounts: [{ name: 'main', baseUrl: 'https://mail.example.com', token: { file: './token' } }],
  };
  writeFileSync(path.join(work, 'config.json'), JSON.stringify(config));
  const mail = Array.from({ length: 3 }, (_, at) => `${at}.eml`);
  for (const [at, name] of mail.entries()) {
    writeFileSync(path.join(work, name), message(at, 'invoice'));
  }
  await step(['import', ...mail]);
  for (const name of ['one', 'two']) await step(['search', 'invoice', '--save', name]);
});
afterAll(() => rmSync(work, { recursive: true }));

/** The bucket is a folder here, which needs no server. */
async function step(args: readonly string[]): Promise<string> {
  const known = args
    .filter((arg) => arg !== '--create-bucket')
    .map((arg) => arg.replace('s3://my-bucket/mail', './bucket'));
  const { code, stdout, stderr } = await ran(known, { cwd: work, now: Date.now });
  expect([args, code], stderr).toEqual([args, 0]);
  return stdout;
}

/** Numbers, times, keys and places differ; the words do not. */
function shapeOf(line: string): string {
  return line
    .replaceAll(`${work}/`, '')
    .replace(/s3:\/\/my-bucket\/mail|(?:\.\/)?\bbucket\b/g, 'TARGET')
    .replace(/[A-Za-z0-9+/]{43}=/g, 'KEY')
    .replace(/\d{4}-\d{2}-\d{2}T[\d:.]+Z/g, 'TIME')
    .replace(/\d[\d,.]*\d|\d/g, 'N')
    .replace(/N [kM]?B/g, 'N B')
    .replace(/\b(segment|commit|record|message|object)s?\b/g, '$1')
    .replace(/N (?:min|ms|s)\b/g, 'N s');
}

test.each(['Begin a copy', 'Check it', 'The drill'])(
  '%s: runs as it is written',
  async (section) => {
    const steps = stepsOf(section);
    expect(steps.length).toBeGreaterThan(0);
    for (const { args, output } of steps) {
      const printed = (await step(args)).split('\n').map(shapeOf);
      if (args[0] === 'search') continue;
      for (const line of output) {
        const [wanted = ''] = shapeOf(line).split(' …');
        expect(
          printed.filter((one) => one.startsWith(wanted)),
          `${wanted}\n${printed.join('\n')}`,
        ).not.toEqual([]);
      }
    }
  },
);
