import { expect, test } from 'vitest';
import { numberList } from '../../src/catalog/sql.ts';
import { hasCode } from '../../src/core/errors.ts';

test('a list of numbers is read', () => {
  expect(numberList('[]', 'c.sqlite')).toEqual([]);
  expect(numberList('[1,30]', 'c.sqlite')).toEqual([1, 30]);
});

test.each(['[1l2]', '', '{}', '["1"]', '[1,null]'])(
  '%j is damage, and names the catalog',
  (text) => {
    let thrown: unknown;
    try {
      numberList(text, 'c.sqlite');
    } catch (error) {
      thrown = error;
    }
    expect(hasCode(thrown, 'catalog-damaged') && thrown.facts).toMatchObject({ file: 'c.sqlite' });
  },
);
