import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { z } from 'zod';

/** What browsers may have to load, in bytes after gzip: docs/web.md has the same figures. */
const MOST = { scripts: 60_000, scriptsOfMail: 42_000, stylesOfMail: 10_000 };

const folder = fileURLToPath(new URL('../../dist/web/', import.meta.url));
const assets = z
  .object({ names: z.record(z.string(), z.string()), served: z.array(z.string()) })
  .parse(JSON.parse(readFileSync(`${folder}assets.json`, 'utf8')));

function packed(name: string): number {
  return gzipSync(readFileSync(folder + name), { level: 9 }).length;
}

function sum(names: Iterable<string>): number {
  return [...names].reduce((total, name) => total + packed(name), 0);
}

/** A script with all that it imports before it runs; what it imports later is not among them. */
function withImports(name: string, found = new Set<string>()): Set<string> {
  if (found.has(name)) return found;
  found.add(name);
  const source = readFileSync(folder + name, 'utf8');
  for (const [, imported] of source.matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g))
    withImports(imported ?? '', found);
  return found;
}

test('all that is served is what the build made', () => {
  const made = readdirSync(folder).filter((name) => name !== 'assets.json');
  expect(made.sort()).toEqual([...assets.served].sort());
});

test('no script of mail makes a format of Intl when it is loaded: the first one takes 40 ms', () => {
  for (const name of withImports(assets.names['app.js'] ?? '')) {
    const source = readFileSync(folder + name, 'utf8').replaceAll(
      'Intl.DateTimeFormat().resolvedOptions()',
      '',
    );
    expect([name, source.includes('Intl.')]).toEqual([name, false]);
  }
});

test('scripts and styles keep their budget', () => {
  const scripts = assets.served.filter((name) => name.endsWith('.js'));
  const { names } = assets;
  const ofMail = withImports(names['app.js'] ?? '');
  // The page of mail loads some of them, and others follow.
  expect(ofMail.size).toBeGreaterThan(2);
  expect(ofMail.size).toBeLessThan(scripts.length);
  expect(sum(scripts)).toBeLessThanOrEqual(MOST.scripts);
  expect(sum(ofMail)).toBeLessThanOrEqual(MOST.scriptsOfMail);
  const styles = ['style.css', 'without-script.css'].map((name) => names[name] ?? '');
  expect(sum(styles)).toBeLessThanOrEqual(MOST.stylesOfMail);
});
