import { describe, expect, test } from 'vitest';
import { explore } from './model/explore.ts';
import { BOUNDS, BROKEN } from './model/variants.ts';

/** `large` takes minutes. */
const SIZE = process.env.MAILKEEP_MODEL === 'large' ? 'large' : 'small';

describe('the protocol of a shard, with every request arriving at any time or never', () => {
  const happened = new Set<string>();

  test.each(Object.entries(BOUNDS[SIZE]))('holds within the bounds of "%s"', (name, budget) => {
    const found = explore(budget);
    console.log(`model ${name}: ${found.states} states, ${found.steps} steps`);
    expect(found.broken).toBeUndefined();
    for (const kind of found.happened) happened.add(kind);
  });

  test('everything happened somewhere', () => {
    const always = [
      'claims',
      'crashes',
      'learns that it holds nothing',
      'stores',
      'begins',
      'recover',
    ];
    const requests = ['register', 'register refused', 'complete', 'complete refused', 'ship'];
    const others = [
      'ship refused',
      'remove',
      'has no answer to ship',
      'is collected',
      'is abandoned',
    ];
    const forgets = ['promises to forget', 'removes the bytes', 'ends the forget'];
    const folders = ['merges what it had', 'wipes its folder', 'begins with a snapshot'];
    expect([...happened]).toEqual(
      expect.arrayContaining([...always, ...requests, ...others, ...forgets, ...folders]),
    );
  });
});

describe('without one of its rules', () => {
  test.each(BROKEN)('$instead: it is caught', ({ variant, within, after, shows }) => {
    const { states, steps, broken } = explore(within, variant, after);
    console.log(`${Object.keys(variant)}: ${states} states, ${steps} steps: ${broken?.promise}`);
    expect(broken?.promise).toMatch(shows);
  });
});
