import { expect, test } from 'vitest';
import { sourceFiles } from './source-tree.ts';

/** What programs import from the package: nobody here need use it. */
const ENTRY = 'src/index.ts';
const DECLARED =
  /^export (?:abstract |async )?(?:const|function\*?|class|interface|type) (?<name>\w+)/gm;
/** The compiler names them in the declarations of the package, for the types of the state and of the catalog. */
const IN_DECLARATIONS: readonly string[] = [
  'ChangeSums',
  'MessageChanges',
  'ChangesRequest',
  'ChosenPlaces',
  'FilesPage',
  'FolderBytes',
  'FoundMessage',
  'HostPause',
  'ListPositions',
  'OpenPlace',
];
const NAME = /\b[A-Za-z_]\w*\b/g;

test('every export of a file in src/ is named by another file', () => {
  const files = sourceFiles(['src', 'test']);
  const users = new Map<string, Set<string>>();
  for (const { file, text } of files) {
    for (const [name] of text.matchAll(NAME)) {
      const known = users.get(name) ?? new Set();
      users.set(name, known.add(file));
    }
  }
  const dead = files
    .filter(({ file }) => file.startsWith('src/') && file !== ENTRY)
    .flatMap(({ file, text }) =>
      [...text.matchAll(DECLARED)].flatMap(({ groups }) => {
        const name = groups?.name ?? '';
        const elsewhere = (users.get(name)?.size ?? 0) > 1 || IN_DECLARATIONS.includes(name);
        return elsewhere ? [] : [`${file}: ${name}`];
      }),
    );
  expect(dead).toEqual([]);
});
