import ts from 'typescript';
import { everyNode, type TypedSource, textsOfType } from './typed-source.ts';

const ERROR = 'MailkeepError';
/** Makes the errors of a table: `defineErrors({ family: { code: (facts) => sentence } })`. */
const MAKER = 'defineErrors';

/** Returns the families that each code is raised with anywhere below `src/`. */
export function raisedFamilies(source: TypedSource): Map<string, Set<string>> {
  const families = new Map<string, Set<string>>();
  for (const file of source.files) {
    const note = (one: string, value: string | undefined, where: ts.Node): void => {
      if (value === undefined) throw new Error(`${one} has no family: ${where.getText()}`);
      families.set(one, (families.get(one) ?? new Set()).add(value));
    };
    everyNode(file, (node) => {
      for (const { family, code } of sentencesIn(node)) note(code, family, node);
      const [family, code] = errorArguments(node) ?? [];
      if (family === undefined || code === undefined) return;
      for (const one of codesOf(source, code)) note(one, textFor(source, family, one), family);
    });
  }
  return families;
}

/** Returns the facts of each code, as the sentence about it takes them: `dir, errno?`. */
export function factsOfCodes({ files, checker }: TypedSource): Map<string, string> {
  const facts = new Map<string, string>();
  for (const file of files) {
    everyNode(file, (node) => {
      for (const { code, sentence } of sentencesIn(node)) {
        if (facts.has(code)) throw new Error(`${code} has two sentences`);
        const [signature] = checker.getTypeAtLocation(sentence).getCallSignatures();
        const [parameter] = signature?.getParameters() ?? [];
        facts.set(
          code,
          parameter === undefined ? '' : fieldNames(checker.getTypeOfSymbol(parameter)),
        );
      }
    });
  }
  return facts;
}

/** The sentences of a table, if a node makes one. */
function sentencesIn(node: ts.Node) {
  if (!ts.isCallExpression(node) || node.expression.getText() !== MAKER) return [];
  const [table] = node.arguments;
  return propertiesOf(table).flatMap(([family, sentences]) =>
    family === 'retryable'
      ? []
      : propertiesOf(sentences).map(([code, sentence]) => ({ family, code, sentence })),
  );
}

function propertiesOf(node: ts.Node | undefined): [name: string, value: ts.Expression][] {
  if (node === undefined || !ts.isObjectLiteralExpression(node)) {
    throw new Error(`no object: ${node?.getText()}`);
  }
  return node.properties.map((property) => {
    if (!ts.isPropertyAssignment(property) || ts.isComputedPropertyName(property.name)) {
      throw new Error(`not understood: ${property.getText()}`);
    }
    return [property.name.text, property.initializer];
  });
}

function fieldNames(type: ts.Type): string {
  return type
    .getProperties()
    .map(({ name, flags }) => ((flags & ts.SymbolFlags.Optional) === 0 ? name : `${name}?`))
    .sort()
    .join(', ');
}

/** Family and code of `new MailkeepError(…)`, and of `super(…)` in a class below it. */
function errorArguments(node: ts.Node): readonly ts.Expression[] | undefined {
  if (ts.isNewExpression(node) && node.expression.getText() === ERROR) return node.arguments;
  if (!ts.isCallExpression(node) || node.expression.kind !== ts.SyntaxKind.SuperKeyword) {
    return undefined;
  }
  const [parent] = ts.findAncestor(node, ts.isClassDeclaration)?.heritageClauses ?? [];
  return parent?.types[0]?.expression.getText() === ERROR ? node.arguments : undefined;
}

/** None for an error that is made again from one of another thread, whose code may be any. */
function codesOf({ checker }: TypedSource, code: ts.Expression): string[] {
  const type = checker.getTypeAtLocation(code);
  return textsOfType(checker.getBaseConstraintOfType(type) ?? type) ?? [];
}

/** What an expression gives for one code: texts, lookups in tables by the code, choices. */
function textFor(source: TypedSource, node: ts.Expression, code: string): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (ts.isParenthesizedExpression(node)) return textFor(source, node.expression, code);
  if (ts.isElementAccessExpression(node)) {
    const key = textFor(source, node.argumentExpression, code);
    const table = tableOf(source, node.expression);
    const entry = table.properties
      .filter(ts.isPropertyAssignment)
      .find(({ name }) => (ts.isComputedPropertyName(name) ? '' : name.text) === key);
    return entry === undefined ? undefined : textFor(source, entry.initializer, code);
  }
  if (ts.isConditionalExpression(node)) {
    const { condition, whenTrue, whenFalse } = node;
    if (!ts.isBinaryExpression(condition)) throw new Error(`not understood: ${node.getText()}`);
    const same = textFor(source, condition.left, code) === textFor(source, condition.right, code);
    return textFor(source, same ? whenTrue : whenFalse, code);
  }
  if (ts.isBinaryExpression(node)) {
    return textFor(source, node.left, code) ?? textFor(source, node.right, code);
  }
  if (ts.isIdentifier(node) && node.text === 'code') return code;
  throw new Error(`not understood: ${node.getText()}`);
}

function tableOf({ checker }: TypedSource, node: ts.Expression): ts.ObjectLiteralExpression {
  const declared = checker.getSymbolAtLocation(node)?.valueDeclaration;
  const table =
    declared !== undefined && ts.isVariableDeclaration(declared) ? declared.initializer : undefined;
  if (table === undefined || !ts.isObjectLiteralExpression(table)) {
    throw new Error(`${node.getText()} is no table`);
  }
  return table;
}
