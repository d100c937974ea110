import { fingerprint } from '../../mail/fingerprint.ts';
import type { FolderKey, ListedFolder, MailboxKey } from '../../mail/words.ts';
import { folderKey, generationKey, type ScopeOf, scopesOf } from '../../state/scopes.ts';
import { SAMPLE_SIZE } from '../plan/generation.ts';
import { concernsOnly } from './failure-scope.ts';
import type { PassContext } from './pass-context.ts';
import type { KnownFolder, Memory, OriginPage } from './ports.ts';
import { newestPage } from './walk/walk.ts';

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

type Missing = KnownFolder & { readonly folder: string };

/**
 * Finds folders that were renamed: one is no longer listed, and a new one shows the same messages under the same
 * uids. Its places, generation and coverage continue under the new path; nothing is fetched. Requests at most one
 * newest page for each new folder, and each page serves the pass later.
 *
 * @returns the newest pages that were requested, by path
 */
export async function findRenames(
  ctx: PassContext,
  key: MailboxKey,
  listed: readonly ListedFolder[],
): Promise<Map<string, OriginPage>> {
  const pages = new Map<string, OriginPage>();
  const known = ctx.mirror.folders(key);
  const paths = new Set(listed.map(({ path }) => path));
  const missing = known.filter(({ folder }) => !paths.has(folder));
  const knownPaths = new Set(known.map(({ folder }) => folder));
  const fresh = listed.filter(({ path }) => !knownPaths.has(path));
  for (const folder of fresh) {
    if (missing.length === 0) break;
    if (folder.messageCount === 0) continue;
    const page = await newestPageIfAny(ctx, { ...key, folder: folder.path }, folder.messageCount);
    if (page === undefined) continue;
    pages.set(folder.path, page);
    const from = missing.findIndex((candidate) => showsTheSame(ctx, key, candidate, page));
    const [renamed] = from < 0 ? [] : missing.splice(from, 1);
    if (renamed === undefined) continue;
    const at = { ...key, folder: renamed.folder };
    ctx.committer.addFact({ fact: 'folder-renamed', ...at, to: folder.path });
    renameFolder(ctx.memory, at, folder.path, renamed.generation);
  }
  await ctx.committer.flush();
  return pages;
}

/** A folder that fails here fails again, and is reported, when its turn comes: the mailbox does not wait for it. */
async function newestPageIfAny(
  ctx: PassContext,
  at: FolderKey,
  listed: number,
): Promise<OriginPage | undefined> {
  try {
    return await newestPage(ctx, at, listed);
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (!concernsOnly(error)) throw error;
    return undefined;
  }
}

/** Returns whether every uid of the page that the old folder knew shows the same message, and they are enough. */
function showsTheSame(
  ctx: PassContext,
  key: MailboxKey,
  candidate: Missing,
  page: OriginPage,
): boolean {
  const at = { ...key, folder: candidate.folder };
  const lowest = page.items[page.items.length - 1]?.uid ?? 1;
  const range = { lo: lowest, hi: Number.POSITIVE_INFINITY };
  const open = ctx.mirror.openPlaces(at, candidate.generation, range);
  let agreeing = 0;
  for (const item of page.items) {
    const place = open.get(item.uid);
    if (place === undefined) continue;
    if (place.fingerprint !== fingerprint(item)) return false;
    agreeing += 1;
  }
  const all = ctx.mirror.openUids(at, candidate.generation).length;
  return agreeing > 0 && agreeing >= Math.min(SAMPLE_SIZE, all);
}
