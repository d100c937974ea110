import ts from 'typescript';
import { type TypedSource, textOfType, withSortedUnions } from './typed-source.ts';

const KINDS: readonly (readonly [flag: ts.SymbolFlags, kind: string])[] = [
  [ts.SymbolFlags.Class, 'class'],
  [ts.SymbolFlags.Function, 'function'],
  [ts.SymbolFlags.Interface, 'interface'],
  [ts.SymbolFlags.TypeAlias, 'type'],
  [ts.SymbolFlags.Variable, 'constant'],
];

/** Returns what a module exports: names with their kinds, and the members of each with their types. */
export function moduleExports(source: TypedSource, module: ts.Symbol) {
  const names: Record<string, string> = {};
  const members: Record<string, string> = {};
  for (const exported of source.checker.getExportsOfModule(module)) {
    const symbol =
      (exported.flags & ts.SymbolFlags.Alias) === 0
        ? exported
        : source.checker.getAliasedSymbol(exported);
    const kind = KINDS.find(([flag]) => (symbol.flags & flag) !== 0)?.[1];
    if (kind === undefined) throw new Error(`${exported.name} is of no kind that is known`);
    names[exported.name] = kind;
    Object.assign(members, membersOf(source, exported.name, symbol, kind));
  }
  return { names, members };
}

function membersOf(source: TypedSource, name: string, symbol: ts.Symbol, kind: string) {
  const { checker } = source;
  const typed = kind === 'function' || kind === 'constant';
  const type = typed ? checker.getTypeOfSymbol(symbol) : checker.getDeclaredTypeOfSymbol(symbol);
  if (typed) return { [name]: textOfType(source, type) };
  const constructors =
    kind === 'class'
      ? checker
          .getTypeOfSymbol(symbol)
          .getConstructSignatures()
          .map((signature): [string, string] => [
            `new ${name}`,
            withSortedUnions(
              checker.signatureToString(
                signature,
                undefined,
                ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.WriteArrowStyleSignature,
              ),
            ),
          ])
      : [];
  const own = checker
    .getPropertiesOfType(type)
    .filter((property) => isOurs(property) && isPublic(property))
    .map((property): [string, string] => [
      `${name}.${property.name}${(property.flags & ts.SymbolFlags.Optional) === 0 ? '' : '?'}`,
      textOfType(source, checker.getTypeOfSymbol(property)),
    ]);
  return Object.fromEntries([...constructors, ...own]);
}

/** Not inherited from the language, such as the methods of a string. */
function isOurs(property: ts.Symbol): boolean {
  const file = property.declarations?.[0]?.getSourceFile();
  return file === undefined || !/node_modules/.test(file.fileName);
}

function isPublic({ name, declarations = [] }: ts.Symbol): boolean {
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
  return (
    !name.startsWith('#') &&
    declarations.every((one) => (ts.getCombinedModifierFlags(one) & hidden) === 0)
  );
}
