import type { PlacedMessage } from '../../../catalog/relinking.ts';
import { fingerprint } from '../../../mail/fingerprint.ts';
import type { Listing } from '../../../mail/words.ts';
import { judgeGeneration, type SampleAnswer, samplePositions } from '../../plan/generation.ts';
import { FolderPass } from '../folder-pass.ts';
import type { PassContext } from '../pass-context.ts';
import { askByName } from '../walk/ask-by-name.ts';
import { releaseUnplaced } from './release-unplaced.ts';

/** A generation that was just declared, and what remains to be checked in it. */
export interface Renumbered {
  readonly pass: FolderPass;
  /** False when fewer than half of the sampled messages of the old generation appear in the new one. */
  readonly familiar: boolean;
}

/**
 * Decides what it means when uids answer that should not, or answer with other messages: nothing, single messages
 * that were replaced, or a folder whose uids were reassigned. For a new generation it opens the pass, reads the
 * newest page and walks the backlog, and returns it.
 */
export async function judgeFolder(
  ctx: PassContext,
  pass: FolderPass,
): Promise<Renumbered | undefined> {
  const { evidence } = pass;
  if (evidence.contradicted.size === 0 && evidence.reappeared.size === 0) return undefined;
  const uids = ctx.mirror.openUids(pass.at, pass.generation);
  const sample = samplePositions(uids.length).flatMap((position) => uids[position] ?? []);
  let verdict = judgeGeneration(await askSample(ctx, pass, sample));
  if (verdict === 'doubtful') {
    await pass.sweep();
    const answers = uids.map((uid): SampleAnswer => {
      if (evidence.missing.has(uid)) return 'missing';
      const listing = evidence.contradicted.get(uid);
      if (listing === undefined) return 'same';
      return compare(ctx.mirror.placed(pass.at, pass.generation, uid), listing);
    });
    verdict = judgeGeneration(answers);
  }
  if (verdict === 'new') return renumber(ctx, pass, sample);
  acceptSingles(ctx, pass);
  return undefined;
}

/**
 * Compares Message-ID and received date: do they still belong to the message that the uid appeared with? Where nothing
 * names the message, every other listed field does: two of one date and one size may be different mail.
 */
function compare(placed: PlacedMessage | undefined, listing: Listing): SampleAnswer {
  if (placed === undefined) return 'missing';
  if (placed.fingerprint === fingerprint(listing)) return 'same';
  if (bareId(listing.messageId) === '') return 'other';
  const moment = Date.parse(listing.date);
  const sameDate = placed.date === null ? Number.isNaN(moment) : placed.date === moment;
  return sameDate && bareId(placed.messageId) === bareId(listing.messageId) ? 'same' : 'other';
}

function bareId(id: string | null): string {
  return id?.trim().replace(/^<|>$/g, '') ?? '';
}

async function askSample(
  ctx: PassContext,
  pass: FolderPass,
  uids: readonly number[],
): Promise<SampleAnswer[]> {
  const { answered } = await askByName(ctx, pass.at, uids);
  const elsewhere = deferredPrints(pass);
  return uids.map((uid) => {
    const listing = answered.get(uid);
    const placed = ctx.mirror.placed(pass.at, pass.generation, uid);
    if (listing !== undefined) return compare(placed, listing);
    // Its message is in the folder, under another uid.
    return placed !== undefined && elsewhere.has(placed.fingerprint) ? 'other' : 'missing';
  });
}

function deferredPrints({ evidence }: FolderPass): ReadonlySet<string> {
  return new Set([...evidence.deferred.values()].map((item) => item.fingerprint));
}

/**
 * Decides each uid by itself: another listing of the same message, or another message. What shows another message, or
 * answers again, may have come from another uid: it waits until it is known what is gone.
 */
function acceptSingles(ctx: PassContext, pass: FolderPass): void {
  const { evidence } = pass;
  for (const [uid, listing] of evidence.contradicted) {
    const placed = ctx.mirror.placed(pass.at, pass.generation, uid);
    evidence.resolveContradicted(uid);
    if (compare(placed, listing) === 'other') evidence.replace(listing, fingerprint(listing));
  }
  for (const listing of evidence.reappeared.values()) {
    evidence.deferReappeared(listing, fingerprint(listing));
  }
}

async function renumber(
  ctx: PassContext,
  old: FolderPass,
  sample: readonly number[],
): Promise<Renumbered> {
  const sampled = sample.flatMap(
    (uid) => ctx.mirror.placed(old.at, old.generation, uid)?.fingerprint ?? [],
  );
  const generation = old.generation + 1;
  releaseUnplaced(ctx, old.at, old.generation, 'renumbered');
  ctx.committer.addFact({ fact: 'generation', ...old.at, generation, reason: 'renumbered' });
  old.evidence.abandon();
  await ctx.queue.onIdle();
  await ctx.committer.flush();
  const pass = new FolderPass(ctx, old.at, old.listed, old.address, generation);
  await pass.readHead();
  await pass.walkBacklog();
  const reappeared = deferredPrints(pass);
  const known = sampled.filter((print) => reappeared.has(print)).length;
  return { pass, familiar: known >= sampled.length / 2 };
}
