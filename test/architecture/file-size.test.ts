import { expect, test } from 'vitest';
import { sourceFiles } from './source-tree.ts';

/** Past this, a second concept has moved in. */
const MOST_LINES = 400;

test(`no file has more than ${MOST_LINES} lines`, () => {
  const long = sourceFiles(['src', 'migrations', 'test'])
    .filter(({ lines }) => lines > MOST_LINES)
    .map(({ file, lines }) => `${file}: ${lines}`);
  expect(long).toEqual([]);
});
