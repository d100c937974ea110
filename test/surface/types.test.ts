import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { expect, test } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import * as facts from '../../src/archive/format.ts';
import * as sentences from '../../src/core/errors.ts';
import { ERROR_FAMILIES, EXIT, EXIT_OF_FAMILY } from '../../src/core/errors.ts';
import * as api from '../../src/index.ts';
import { moduleExports } from './api-exports.ts';
import { factsOfCodes, raisedFamilies } from './error-codes.ts';
import { expectRecorded } from './recorded.ts';
import { stateScopes } from './state-scopes.ts';
import { textOfType, typedSource } from './typed-source.ts';

const source = typedSource(new URL(import.meta.url));
const here = fileURLToPath(import.meta.url);

/** The type of what a module, imported above as a whole, exports under a name. */
function typeOfExport(module: string, name: string): ts.Type {
  const { checker } = source;
  const symbol = checker
    .getExportsOfModule(source.imported(here, module))
    .find((exported) => exported.name === name);
  if (symbol === undefined) throw new Error(`${module} exports no ${name}`);
  return (symbol.flags & ts.SymbolFlags.TypeAlias) === 0
    ? checker.getTypeOfSymbol(symbol)
    : checker.getDeclaredTypeOfSymbol(symbol);
}

test('exit codes, error families and error codes are those that are recorded', () => {
  const families = raisedFamilies(source);
  const known = factsOfCodes(source);
  const raised = [...families.keys()].sort();
  expect(raised.filter((code) => !known.has(code))).toEqual([]);
  const codes = [...known].map(([code, facts]): [string, string] => {
    const family = [...(families.get(code) ?? [])].sort().join('|') || 'raised nowhere';
    return [code, `${family} (${facts})`];
  });
  expect(codes.length).toBeGreaterThan(100);
  const text = (record: Readonly<Record<string, number>>) =>
    Object.fromEntries(Object.entries(record).map(([name, code]) => [name, String(code)]));
  const refused = Object.assign(new Error('EIO'), { code: 'EIO', syscall: 'read' });
  expect(Object.keys(EXIT_OF_FAMILY).sort()).toEqual([...ERROR_FAMILIES].sort());
  expectRecorded('codes', {
    codes: Object.fromEntries(codes),
    'codes of other errors': {
      [sentences.describeError(new TypeError('x')).code]: 'what nobody foresaw',
      [sentences.describeError(refused).code]: 'what the system refused',
    },
    exit: text(EXIT),
    'exit of family': text(EXIT_OF_FAMILY),
  });
});

test('the state has the scopes that are recorded', () => {
  const scopes = stateScopes(source);
  expect(Object.keys(scopes).length).toBeGreaterThan(20);
  expectRecorded('state-scopes', { scopes });
});

test('the package exports what is recorded', () => {
  const { names, members } = moduleExports(source, source.imported(here, 'api'));
  const values = Object.keys(names).filter((name) => !/interface|type/.test(names[name] ?? ''));
  expect(values.sort()).toEqual(Object.keys(api).sort());
  expect(JSON.stringify(members)).not.toContain('import(');
  const { bin, exports, files, man, engines } = packageJson;
  const listed = Object.fromEntries(files.map((file) => [`files ${file}`, 'packed']));
  const paths = Object.entries({ bin, exports, man, engines });
  expectRecorded('exports', {
    names,
    members,
    package: {
      ...listed,
      ...Object.fromEntries(paths.map(([name, value]) => [name, JSON.stringify(value)])),
    },
  });
});

test('facts of the log have the fields that are recorded', () => {
  const { checker } = source;
  const type = typeOfExport('facts', 'Fact');
  const shapes = (type.isUnion() ? type.types : []).map((fact): [string, object] => {
    const fields = checker
      .getPropertiesOfType(fact)
      .map((field): [string, string] => [
        `${field.name}${(field.flags & ts.SymbolFlags.Optional) === 0 ? '' : '?'}`,
        textOfType(source, checker.getTypeOfSymbol(field)),
      ]);
    const name = fields.find(([field]) => field === 'fact')?.[1] ?? '';
    return [
      name.replaceAll('"', ''),
      Object.fromEntries(fields.filter(([field]) => field !== 'fact')),
    ];
  });
  expect(shapes.length).toBeGreaterThan(15);
  expect(facts.canonicalJson({ b: 1, a: 'ä' })).toBe('{"a":"ä","b":1}');
  expectRecorded(
    'facts',
    Object.fromEntries(shapes.map(([name, fields]) => [name, { ...fields }])),
  );
});
