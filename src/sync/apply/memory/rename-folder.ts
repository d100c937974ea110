import type { FolderKey } from '../../../mail/words.ts';
import { folderKey, generationKey, type ScopeOf, scopesOf } from '../../../state/scopes.ts';
import type { Memory } from '../ports.ts';

/**
 * Moves what is remembered of a folder to the path it was renamed to: every scope whose keys are folders or their
 * generations. What is kept by place is learned again.
 */
export function renameFolder(memory: Memory, at: FolderKey, to: string, generation: number): void {
  const renamed = { ...at, folder: to };
  for (const scope of scopesOf('folder')) move(memory, scope, folderKey(at), folderKey(renamed));
  for (const scope of scopesOf('generation')) {
    move(memory, scope, generationKey(at, generation), generationKey(renamed, generation));
  }
}

type Moved = ScopeOf<'folder' | 'generation'>;

function move(memory: Memory, scope: Moved, from: string, to: string): void {
  // What an earlier folder of the new name left is forgotten.
  memory.set(scope, to, memory.get(scope, from) ?? null);
  memory.set(scope, from, null);
}
