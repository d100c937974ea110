import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { z } from 'zod';

const root = fileURLToPath(new URL('../../', import.meta.url));
const packed = z.tuple([z.looseObject({ files: z.array(z.looseObject({ path: z.string() })) })]);
/** Pictures would make the package a third larger; without them, their descriptions are shown. */
const PICTURE = /\.png$/;

test('every link in a page of the package leads to a file of the package', () => {
  const options = ['--dry-run', '--json', '--ignore-scripts', '--loglevel=error'];
  const listed = execFileSync('npm', ['pack', ...options], { cwd: root, encoding: 'utf8' });
  const [{ files }] = packed.parse(JSON.parse(listed));
  const names = new Set(files.map((file) => file.path));
  const pages = [...names].filter((name) => name.endsWith('.md'));
  expect(pages.length).toBeGreaterThan(20);
  let followed = 0;
  for (const page of pages) {
    // Expressions in code look like links.
    const text = readFileSync(path.join(root, page), 'utf8').replace(/`[^`\n]*`/g, '');
    for (const [, target = ''] of text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
      if (/^[a-z]+:/.test(target) || PICTURE.test(target)) continue;
      const file = path.join(path.dirname(page), target);
      const isThere = names.has(file) || [...names].some((name) => name.startsWith(`${file}/`));
      expect([page, target, isThere]).toEqual([page, target, true]);
      followed += 1;
    }
  }
  expect(followed).toBeGreaterThan(100);
});
