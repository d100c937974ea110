import { existsSync, globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const root = new URL('../../', import.meta.url);
const named = /(?:[\w.-]+\/)*[\w.-]+\.(?:tsx?|mjs|cjs)\b/g;
const files = globSync('{src,test,migrations}/**/*.{ts,tsx,mjs,cjs}', { cwd: root });

/** Whether something in the tree, or of the build, is called so, by its whole path or the end of it. */
function isThere(name: string): boolean {
  return name.startsWith('dist/') || files.some((file) => `/${file}`.endsWith(`/${name}`));
}

/** A page may name a test without the end of its name. */
function isPath(name: string): boolean {
  return [name, `${name}.test.ts`].some((path) => existsSync(new URL(path, root)));
}

test('every file of the project that a page names is there', () => {
  const pages = [
    'README.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    ...globSync('docs/*.md', { cwd: root }),
  ];
  const missing = pages.flatMap((page) => {
    const text = readFileSync(new URL(page, root), 'utf8');
    const paths = text.match(/(?<!\/)\b(?:src|test|migrations|docs|systemd)\/[\w./-]*\w/g) ?? [];
    return paths.filter((path) => !isPath(path)).map((path) => `${page}: ${path}`);
  });
  expect(missing).toEqual([]);
});

test('every module that a comment names is there', () => {
  const missing = files
    .filter((file) => file.startsWith('src/'))
    .flatMap((file) => {
      const text = readFileSync(new URL(file, root), 'utf8');
      const comments = text.match(/^\s*(?:\/\/|\/?\*).*$/gm) ?? [];
      return comments
        .flatMap((line) => line.match(named) ?? [])
        .filter((name) => !isThere(name.replace(/^\.+\//, '')))
        .map((name) => `${file}: ${name}`);
    });
  expect(missing).toEqual([]);
});
