import { readFileSync } from 'node:fs';
import path from 'node:path';
import { analyse } from 'scslre';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { root, sourceFiles } from './source-tree.ts';

interface Expression {
  readonly file: string;
  readonly written: string;
}

/** Regular expressions written in src/, and those made from text, which no analysis here can read. */
function expressions(): { readonly literals: Expression[]; readonly made: Expression[] } {
  const literals: Expression[] = [];
  const made: Expression[] = [];
  for (const { file, text } of sourceFiles(['src'])) {
    const visit = (node: ts.Node): void => {
      if (ts.isRegularExpressionLiteral(node)) literals.push({ file, written: node.text });
      if (ts.isNewExpression(node) && ts.isIdentifier(node.expression)) {
        const written = node.getText(source).replace(/\s+/g, ' ');
        if (node.expression.text === 'RegExp') made.push({ file, written });
      }
      ts.forEachChild(node, visit);
    };
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
    visit(source);
  }
  return { literals, made };
}

function isSuperLinear({ written }: Expression): boolean {
  const end = written.lastIndexOf('/');
  const literal = { source: written.slice(1, end), flags: written.slice(end + 1) };
  return analyse(literal).reports.length > 0;
}

/** Files and expressions in the rows of a table, as markdown writes them. */
function listed(heading: string): string[] {
  const page = readFileSync(path.join(root, 'docs/hostile-input.md'), 'utf8');
  const section = (page.split(`## ${heading}\n`)[1] ?? '').split('\n## ')[0] ?? '';
  return section.split('\n').flatMap((line) => {
    const [, file, expression] = /^\| `(src\/[^`]+)` \| (`.+?`+) \|/.exec(line) ?? [];
    return file === undefined ? [] : `${file} ${expression}`;
  });
}

/** As the tables have them: a bar would end a cell, and backticks want two around them. */
const rows = (found: readonly Expression[]) =>
  found
    .map(({ file, written }) => {
      const fence = written.includes('`') ? '``' : '`';
      return `${file} ${fence}${written.replaceAll('|', '\\|')}${fence}`;
    })
    .sort();

test('each expression that may take more than linear time has a row with its bound', () => {
  const { literals } = expressions();
  expect(literals.length).toBeGreaterThan(200);
  const found = literals.filter(isSuperLinear);
  expect(rows(found), JSON.stringify(found, null, 2)).toEqual(
    listed('Expressions with a bound').sort(),
  );
});

test('each expression that is made from text has a row', () => {
  const { made } = expressions();
  expect(rows(made), JSON.stringify(made, null, 2)).toEqual(
    listed('Expressions made from text').sort(),
  );
});

test('the analysis finds what was quadratic', () => {
  for (const written of ['/[\\t ]+$/gm', '/\\r*\\n/', '/^["\']+|["\']+$/g', '/[ \\t]+\\n/g'])
    expect(isSuperLinear({ file: '', written })).toBe(true);
  expect(isSuperLinear({ file: '', written: '/\\s+/g' })).toBe(false);
});
