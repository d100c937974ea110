import { expect, test } from 'vitest';
import { folderKey, generationKey } from '../../../src/core/state.ts';
import { renameFolder } from '../../../src/sync/mailbox-sync.ts';
import { memoryOf } from '../harness.ts';

test('what is remembered of a folder moves with it, whatever the scope', () => {
  const memory = memoryOf();
  const at = { host: 'mail.example.org', mailbox: 'AC1', folder: 'Old' };
  const renamed = { ...at, folder: 'New' };
  const proof = { at: '2026-11-20T00:00:00.000Z', complete: true, generation: 3, originTotal: 1 };
  const rest = { unread: 0, flagsAt: null, certifiedOn: null, incomplete: 0 };
  const byFolder = [
    ['proof', { ...proof, ...rest }],
    ['held', { since: 7 }],
    ['flag-counts', { theirs: 1, ours: 2, askedAt: 7 }],
  ] as const;
  const byGeneration = [
    ['coverage', [[1, 7]]],
    ['swept', { since: 7, uids: [[1, 7]] }],
  ] as const;
  for (const [scope, value] of byFolder) memory.set(scope, folderKey(at), value);
  for (const [scope, value] of byGeneration) memory.set(scope, generationKey(at, 3), value);
  memory.set('unlisted', folderKey(at), { since: 7 });
  renameFolder(memory, at, 'New', 3);
  for (const [scope, value] of byFolder) {
    expect(memory.get(scope, folderKey(renamed))).toEqual(value);
    expect(memory.get(scope, folderKey(at))).toBeUndefined();
  }
  for (const [scope, value] of byGeneration) {
    expect(memory.get(scope, generationKey(renamed, 3))).toEqual(value);
    expect(memory.get(scope, generationKey(at, 3))).toBeUndefined();
  }
  expect(memory.get('unlisted', folderKey(renamed))).toBeUndefined();
});
