import { expect, test } from 'vitest';
import { commandEntries } from './command-walk.ts';
import { expectRecorded } from './recorded.ts';

test('every command takes the options and arguments that are recorded', async () => {
  const entries = await commandEntries();
  expect(Object.keys(entries).length).toBeGreaterThan(30);
  expectRecorded('commands', entries);
});
