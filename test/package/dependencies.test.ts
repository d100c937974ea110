import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { z } from 'zod';

const versionsSchema = z.record(z.string(), z.string());
const { dependencies, devDependencies } = z
  .looseObject({ dependencies: versionsSchema, devDependencies: versionsSchema })
  .parse(JSON.parse(read('package.json')));
const page = read('docs/dependencies.md');

interface Row {
  readonly name: string;
  readonly version: string;
  readonly rest: readonly string[];
}

test('every dependency that is installed with mailkeep has a row, and every row is one', () => {
  const rows = rowsBelow('Installed with mailkeep');
  expect(versionsOf(rows)).toEqual(dependencies);
});

test('every package of ours that the build bundles has a row, and every row is one', () => {
  const bundled = bundledPackages();
  const expected = Object.entries(devDependencies).filter(([name]) => bundled.has(name));
  expect(expected.length).toBeGreaterThan(0);
  expect(versionsOf(rowsBelow('Bundled into dist/'))).toEqual(Object.fromEntries(expected));
});

test('the licence of each row is that of the package', () => {
  const rows = [...rowsBelow('Installed with mailkeep'), ...rowsBelow('Bundled into dist/')];
  for (const { name, rest } of rows) {
    const { license } = manifestOf(name);
    expect([name, rest[0]]).toEqual([name, license]);
  }
});

test('what is held back is at the version that the page explains', () => {
  const pinned = { ...dependencies, ...devDependencies };
  for (const { name, version } of rowsBelow('Not at the newest version'))
    expect([name, version]).toEqual([name, pinned[name]]);
});

test('the notices hold the licence text of each bundled package in its version', () => {
  const notices = read('dist/THIRD-PARTY-NOTICES.txt');
  for (const { name, version } of rowsBelow('Bundled into dist/')) {
    const start = notices.indexOf(`\n${name} ${version} (`);
    expect([name, start]).not.toEqual([name, -1]);
    const text = notices.slice(start, notices.indexOf(`\n${'='.repeat(80)}\n`, start));
    expect([name, text]).toEqual([name, expect.stringMatching(/copyright|no licence text/i)]);
  }
});

/** The rows of the table below a heading, by the package that each of them is about. */
function rowsBelow(heading: string): readonly Row[] {
  const [, section = ''] = page.split(`## ${heading}\n`);
  const table = (section.split('\n## ')[0] ?? '').split('\n').filter((line) => /^\| /.test(line));
  const rows = table.slice(1).map((line) => {
    const [first = '', version = '', ...rest] = line
      .slice(2)
      .split('|')
      .map((cell) => cell.trim());
    return { name: /^\[(.+)\]\(/.exec(first)?.[1] ?? first, version, rest };
  });
  expect([heading, rows.length]).not.toEqual([heading, 0]);
  return rows;
}

function versionsOf(rows: readonly Row[]): Record<string, string> {
  return Object.fromEntries(rows.map(({ name, version }) => [name, version]));
}

/** Names of the packages in the notices, which the build writes from what the bundler put into dist/. */
function bundledPackages(): ReadonlySet<string> {
  const heads = read('dist/THIRD-PARTY-NOTICES.txt').matchAll(/^={80}\n(\S+) \d\S* \(/gm);
  return new Set([...heads].map(([, name = '']) => name));
}

function manifestOf(name: string): { readonly license: string } {
  const file = `node_modules/${name}/package.json`;
  return z.looseObject({ license: z.string() }).parse(JSON.parse(read(file)));
}

function read(file: string): string {
  return readFileSync(fileURLToPath(new URL(`../../${file}`, import.meta.url)), 'utf8');
}
