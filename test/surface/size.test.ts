import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { sourceFiles } from '../architecture/source-tree.ts';
import { isRecording, recordingFile } from './recorded.ts';

const sizes = z.object({ 'expect calls': z.int(), 'test calls': z.int(), 'test files': z.int() });

const MODIFIERS = ['concurrent', 'each', 'fails', 'for', 'only', 'runIf', 'skip', 'skipIf', 'todo'];

/** Calls of `expect` and of `test` or `it` in whichever form, such as `test.each(…)(…)`, in the files below `test/`. */
function measured(): z.infer<typeof sizes> {
  const counts = { 'expect calls': 0, 'test calls': 0, 'test files': 0 };
  for (const { file, text } of sourceFiles(['test'])) {
    if (file.endsWith('.test.ts')) counts['test files'] += 1;
    const walk = (node: ts.Node): void => {
      if (ts.isCallExpression(node)) {
        if (ts.isIdentifier(node.expression) && node.expression.text === 'expect')
          counts['expect calls'] += 1;
        // The call of `test.each(…)` gives what is called with the name of the test.
        const isOuter = !(ts.isCallExpression(node.parent) && node.parent.expression === node);
        if (isOuter && /^(test|it)$/.test(rootOf(node.expression))) counts['test calls'] += 1;
      }
      ts.forEachChild(node, walk);
    };
    walk(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  }
  return counts;
}

/** The name that an expression begins with: `test` of `test.skipIf(x).each`; nothing for methods of other things. */
function rootOf(node: ts.Expression): string {
  if (ts.isCallExpression(node)) return rootOf(node.expression);
  if (ts.isPropertyAccessExpression(node)) {
    return MODIFIERS.includes(node.name.text) ? rootOf(node.expression) : '';
  }
  return ts.isIdentifier(node) ? node.text : '';
}

test('there are at least as many tests and expectations as recorded', () => {
  const found = measured();
  const file = recordingFile('size');
  if (isRecording()) writeFileSync(file, `${JSON.stringify(found, null, 2)}\n`);
  expect(existsSync(file)).toBe(true);
  const recorded = sizes.parse(JSON.parse(readFileSync(file, 'utf8')));
  for (const name of sizes.keyof().options) {
    expect(found[name], `fewer ${name} than recorded`).toBeGreaterThanOrEqual(recorded[name]);
  }
});
