import path from 'node:path';
import ts from 'typescript';
import { root } from '../architecture/source-tree.ts';

/** The sources with their types. */
export interface TypedSource {
  readonly checker: ts.TypeChecker;
  /** Files below `src/`. */
  readonly files: readonly ts.SourceFile[];
  /** The module that a file, given by its URL, imports as a whole under this name. */
  imported(from: string, name: string): ts.Symbol;
}

/** Parses everything below `src/` and this test; takes some seconds. */
export function typedSource(test: URL): TypedSource {
  const { config } = ts.readConfigFile(path.join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  const below = ts.sys.readDirectory(path.join(root, 'src'), ['.ts']);
  const testFile = path.resolve(test.pathname);
  const program = ts.createProgram([...below, testFile], { ...options, noEmit: true });
  const checker = program.getTypeChecker();
  const names = new Set(below.map((file) => path.resolve(file)));
  return {
    checker,
    files: program.getSourceFiles().filter(({ fileName }) => names.has(path.resolve(fileName))),
    imported(from, name) {
      const source = program.getSourceFile(from);
      const found = source?.statements.filter(ts.isImportDeclaration).find(({ importClause }) => {
        const bindings = importClause?.namedBindings;
        return (
          bindings !== undefined && ts.isNamespaceImport(bindings) && bindings.name.text === name
        );
      });
      const symbol =
        found === undefined ? undefined : checker.getSymbolAtLocation(found.moduleSpecifier);
      if (symbol === undefined) throw new Error(`${from} imports no module as ${name}`);
      return symbol;
    },
  };
}

/** Calls `visit` for every node of a file. */
export function everyNode(file: ts.SourceFile, visit: (node: ts.Node) => void): void {
  const walk = (node: ts.Node): void => {
    visit(node);
    ts.forEachChild(node, walk);
  };
  walk(file);
}

/** Returns where a node stands, for errors. */
export function whereIs(node: ts.Node): string {
  const file = node.getSourceFile();
  const { line } = file.getLineAndCharacterOfPosition(node.getStart());
  return `${path.relative(root, file.fileName)}:${line + 1}`;
}

/** Returns a type as text; members of unions are sorted, since the compiler orders them as it meets them. */
export function textOfType({ checker }: TypedSource, type: ts.Type): string {
  const text = checker.typeToString(type, undefined, ts.TypeFormatFlags.NoTruncation);
  return withSortedUnions(text);
}

/** Returns the text of a type or signature with the members of every union sorted. */
export function withSortedUnions(text: string): string {
  const file = ts.createSourceFile('type.ts', `type It = ${text}`, ts.ScriptTarget.Latest, true);
  const [statement] = file.statements;
  if (statement === undefined || !ts.isTypeAliasDeclaration(statement)) throw new Error(text);
  const sorted = (node: ts.Node): string => {
    if (ts.isUnionTypeNode(node)) return node.types.map(sorted).sort().join(' | ');
    let result = '';
    let end = node.getStart();
    ts.forEachChild(node, (child) => {
      result += file.text.slice(end, child.getStart()) + sorted(child);
      end = child.getEnd();
    });
    return result + file.text.slice(end, node.getEnd());
  };
  return sorted(statement.type);
}

/** Returns the texts that a type consists of; undefined for a type of other things. */
export function textsOfType(type: ts.Type): string[] | undefined {
  const parts = type.isUnion() ? type.types : [type];
  const texts = parts.flatMap((part) => (part.isStringLiteral() ? [part.value] : []));
  return texts.length === parts.length ? texts : undefined;
}
