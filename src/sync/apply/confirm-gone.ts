import { askByName } from './ask-by-name.ts';
import type { FolderPass } from './folder-pass.ts';
import type { PassContext } from './pass-context.ts';

/**
 * Asks for missing uids by name: only what an answered interval lacked *and* does not answer then is gone. What
 * answers after all is not missing, and not held any more.
 */
export async function confirmGone(ctx: PassContext, pass: FolderPass): Promise<readonly number[]> {
  const missing = [...pass.missing].sort((a, b) => a - b);
  const { answered, silent } = await askByName(ctx, pass.at, missing);
  const held = new Set(ctx.mirror.heldUids(pass.at, pass.generation));
  for (const uid of answered.keys()) {
    pass.missing.delete(uid);
    if (held.has(uid)) ctx.committer.addFact({ fact: 'held', ...pass.place(uid), held: false });
  }
  return silent;
}
