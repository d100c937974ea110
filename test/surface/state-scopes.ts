import ts from 'typescript';
import { scopesOf } from '../../src/core/state.ts';
import { everyNode, type TypedSource, textsOfType, whereIs } from './typed-source.ts';

const METHODS = ['get', 'read', 'entries', 'set'];

/**
 * Returns the scopes of the state with the shapes of their keys and how the code uses them. A use is a call of a method
 * whose first parameter is named `scope`, through whichever interface.
 *
 * @throws Error where a scope is not known before the program runs
 */
export function stateScopes(source: TypedSource): Record<string, string> {
  const found = new Map<string, { keys: Set<string>; uses: Set<string> }>();
  const note = (scope: string, use: string, key?: string): void => {
    const known = found.get(scope) ?? { keys: new Set(), uses: new Set() };
    found.set(scope, known);
    known.uses.add(use);
    if (key !== undefined) known.keys.add(key);
  };
  for (const file of source.files) {
    everyNode(file, (node) => {
      if (!ts.isCallExpression(node)) return;
      const [first, second] = node.arguments;
      if (first === undefined) return;
      const method = ts.isPropertyAccessExpression(node.expression)
        ? node.expression.name.text
        : '';
      if (METHODS.includes(method) && firstParameter(source, node) === 'scope') {
        const key = second === undefined ? undefined : keyShape(source, second);
        for (const scope of textsOf(source, first)) note(scope, method, key);
      }
    });
  }
  // A purge forgets what is kept by place.
  for (const scope of scopesOf('place')) note(scope, 'scrub');
  return Object.fromEntries(
    [...found].map(([scope, { keys, uses }]) => [
      scope,
      `key ${shapes(keys)}; ${[...uses].sort().join(', ')}`,
    ]),
  );
}

/** Names of parameters say less than what callers pass elsewhere. */
function shapes(keys: ReadonlySet<string>): string {
  const all = [...keys].sort();
  const whole = all.filter((key) => !/^\{\w+\}$/.test(key));
  return (whole.length > 0 ? whole : all).join(' or ');
}

function firstParameter({ checker }: TypedSource, call: ts.CallExpression): string | undefined {
  return checker.getResolvedSignature(call)?.parameters[0]?.name;
}

function textsOf(source: TypedSource, node: ts.Expression): string[] {
  const texts = textsOfType(source.checker.getTypeAtLocation(node));
  if (texts !== undefined) return texts;
  if (ts.isArrayLiteralExpression(node)) {
    return node.elements.flatMap((element) => textsOf(source, element));
  }
  const declared = declarationOf(source, node);
  if (declared !== undefined && ts.isVariableDeclaration(declared)) {
    const { initializer, parent } = declared;
    if (ts.isForOfStatement(parent.parent)) return textsOf(source, parent.parent.expression);
    if (initializer !== undefined) return textsOf(source, initializer);
  }
  throw new Error(`${whereIs(node)}: the scope ${node.getText()} is not known before it runs`);
}

/** Returns how a key is put together, such as `[host, mailbox, folder]/{generation}`. */
function keyShape(source: TypedSource, node: ts.Node): string {
  if (ts.isStringLiteralLike(node)) return `"${node.text}"`;
  if (ts.isTemplateExpression(node)) {
    const spans = node.templateSpans.map(
      ({ expression, literal }) => keyShape(source, expression) + literal.text,
    );
    return node.head.text + spans.join('');
  }
  if (ts.isCallExpression(node)) return callShape(source, node);
  if (ts.isArrayLiteralExpression(node)) {
    return `[${node.elements.map((element) => keyShape(source, element).replace(/^\{(\w+)\}$/, '$1')).join(', ')}]`;
  }
  const declared = declarationOf(source, node);
  if (declared !== undefined && ts.isVariableDeclaration(declared)) {
    const { initializer } = declared;
    if (initializer !== undefined && !ts.isForOfStatement(declared.parent.parent)) {
      return keyShape(source, initializer);
    }
  }
  if (ts.isPropertyAccessExpression(node)) {
    const assigned = ts.isPrivateIdentifier(node.name) ? assignedTo(node) : undefined;
    return assigned === undefined
      ? `{${node.name.text.replace(/^#/, '')}}`
      : keyShape(source, assigned);
  }
  if (ts.isIdentifier(node)) return `{${node.text}}`;
  throw new Error(`${whereIs(node)}: the key ${node.getText()} has no shape that is known`);
}

function callShape(source: TypedSource, node: ts.CallExpression): string {
  const [first] = node.arguments;
  const called = node.expression.getText();
  if ((called === 'JSON.stringify' || called === 'String') && first !== undefined) {
    return keyShape(source, first);
  }
  const declared = declarationOf(source, node.expression);
  const body =
    declared !== undefined && ts.isFunctionDeclaration(declared) ? declared.body : undefined;
  const [statement, ...more] = body?.statements ?? [];
  if (statement !== undefined && ts.isReturnStatement(statement) && more.length === 0) {
    if (statement.expression !== undefined) return keyShape(source, statement.expression);
  }
  // The name says what a longer function computes.
  if (body !== undefined) return `{${called}}`;
  throw new Error(`${whereIs(node)}: ${called} is not a function that is declared here`);
}

/** What a constructor assigns to a private field. */
function assignedTo(access: ts.PropertyAccessExpression): ts.Expression | undefined {
  const owner = ts.findAncestor(access, ts.isClassDeclaration);
  const body = owner?.members.find(ts.isConstructorDeclaration)?.body;
  for (const statement of body?.statements ?? []) {
    if (!ts.isExpressionStatement(statement)) continue;
    const { expression } = statement;
    if (!ts.isBinaryExpression(expression)) continue;
    if (expression.left.getText() === access.getText()) {
      return ts.isIdentifier(expression.right) || ts.isPropertyAccessExpression(expression.right)
        ? undefined
        : expression.right;
    }
  }
  return undefined;
}

function declarationOf({ checker }: TypedSource, node: ts.Node): ts.Declaration | undefined {
  const symbol = checker.getSymbolAtLocation(node);
  if (symbol === undefined) return undefined;
  const aliased =
    (symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : checker.getAliasedSymbol(symbol);
  return aliased.valueDeclaration;
}
