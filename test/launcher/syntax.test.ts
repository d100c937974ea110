import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { expect, test } from 'vitest';

/** What old versions load before anything has checked the version. */
const FILES = ['dist/mailkeep.cjs', 'dist/hand-over.cjs', 'src/bootstrap/run.cjs'];
/** Syntax and operators that Node.js 4 does not know. */
const UNKNOWN = new Set([
  ts.SyntaxKind.ArrayBindingPattern,
  ts.SyntaxKind.ObjectBindingPattern,
  ts.SyntaxKind.SpreadAssignment,
  ts.SyntaxKind.SpreadElement,
  ts.SyntaxKind.QuestionDotToken,
  ts.SyntaxKind.QuestionQuestionToken,
  ts.SyntaxKind.QuestionQuestionEqualsToken,
  ts.SyntaxKind.AsteriskAsteriskToken,
  ts.SyntaxKind.AsyncKeyword,
  ts.SyntaxKind.AwaitExpression,
  ts.SyntaxKind.ImportKeyword,
  ts.SyntaxKind.PrivateIdentifier,
  ts.SyntaxKind.PropertyDeclaration,
]);

function unknownIn(text: string): string[] {
  const source = ts.createSourceFile('it.js', text, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const unknown =
      UNKNOWN.has(node.kind) ||
      (ts.isParameter(node) && (node.initializer ?? node.dotDotDotToken) !== undefined) ||
      (ts.isCatchClause(node) && node.variableDeclaration === undefined) ||
      (ts.isCallExpression(node) && node.arguments.hasTrailingComma === true) ||
      (ts.isStringLiteral(node) && node.text.startsWith('node:'));
    if (unknown) found.push(node.getText());
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

test('what checks the version of Node.js is in syntax that old versions parse', () => {
  for (const file of FILES) {
    const text = readFileSync(fileURLToPath(new URL(`../../${file}`, import.meta.url)), 'utf8');
    expect([file, unknownIn(text)]).toEqual([file, []]);
    expect(text).toMatch(/^(#!.*\n|\/\*\*[\s\S]*?\*\/\n)?["']use strict["'];/);
  }
});

test('newer syntax would be noticed', () => {
  const lines = [
    'f(a,);',
    'a?.b;',
    'let {a} = b;',
    'import("a");',
    '[...a];',
    'a ?? b;',
    'async () => 1;',
  ];
  for (const line of lines) expect([line, unknownIn(line).length > 0]).toEqual([line, true]);
});
