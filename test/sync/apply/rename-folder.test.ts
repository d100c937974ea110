import { expect, test } from 'vitest';
import { renameFolder } from '../../../src/sync/apply/memory/rename-folder.ts';
import { folderKey, generationKey } from '../../../src/sync/apply/ports.ts';
import { memoryOf } from '../harness.ts';

test('what is remembered of a folder moves with it, whatever the scope', () => {
  const memory = memoryOf();
  const at = { host: 'mail.example.org', mailbox: 'AC1', folder: 'Old' };
  const renamed = { ...at, folder: 'New' };
  const byFolder = ['proof', 'held', 'flag-counts'] as const;
  const byGeneration = ['coverage', 'swept'] as const;
  for (const scope of byFolder) memory.set(scope, folderKey(at), { since: 7 });
  for (const scope of byGeneration) memory.set(scope, generationKey(at, 3), { since: 7 });
  memory.set('unlisted', folderKey(at), { since: 7 });
  renameFolder(memory, at, 'New', 3);
  for (const scope of byFolder) {
    expect(memory.get(scope, folderKey(renamed))).toEqual({ since: 7 });
    expect(memory.get(scope, folderKey(at))).toBeUndefined();
  }
  for (const scope of byGeneration) {
    expect(memory.get(scope, generationKey(renamed, 3))).toEqual({ since: 7 });
    expect(memory.get(scope, generationKey(at, 3))).toBeUndefined();
  }
  expect(memory.get('unlisted', folderKey(renamed))).toBeUndefined();
});
