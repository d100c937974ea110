import type { CountedFlag, Listing } from '../../../mail/words.ts';
import { folderKey } from '../../../state/scopes.ts';
import type { FlagCounts } from '../../../state/values.ts';
import { bisect } from '../../plan/bisect.ts';
import type { UidInterval } from '../../plan/coverage.ts';
import { PAGE_SIZE } from '../../plan/forecast.ts';
import { concernsOnly } from '../failure-scope.ts';
import type { FolderPass } from '../folder-pass.ts';
import type { PassContext } from '../pass-context.ts';
import { isRecent, type OriginPage } from '../ports.ts';
import { askByName } from './ask-by-name.ts';
import { canSearch, FLAGS_UNHEEDED } from './walk.ts';

/** Scope of memory: the counts at which a folder's flags were last compared. */
const COMPARED = 'flag-counts';
/** The most requests that a plain pass spends on a folder's older flags; the next sweep reads the rest. */
const MOST_REQUESTS = 24;
/** The listing counts neither starred nor answered messages: they are compared where flags changed, once an hour. */
const ASK_AGAIN_MS = 3_600_000;
const NEVER_COMPARED: FlagCounts = { theirs: -1, ours: -1, askedAt: Number.NEGATIVE_INFINITY };

/**
 * Finds messages below the newest page whose flags changed. The folder listing counts unread messages at no cost.
 * Where that count differs from the archive's, searches that count the messages with a flag in a uid range find
 * them. Changes that cancel out are left to the next sweep.
 */
export async function findFlagChanges(ctx: PassContext, pass: FolderPass): Promise<void> {
  const { evidence } = pass;
  if (ctx.policy.full || evidence.isFirst || evidence.belowHead.hi < 1) return;
  const { host } = pass.at;
  if (!canSearch(ctx.memory, host) || ctx.memory.get(FLAGS_UNHEEDED, host) !== undefined) return;
  const key = folderKey(pass.at);
  const before = ctx.memory.get(COMPARED, key) ?? NEVER_COMPARED;
  const theirs = pass.listed.unreadCount;
  const ours = ctx.mirror.unread(pass.at, pass.generation);
  const moved = theirs !== ours && !(before.theirs === theirs && before.ours === ours);
  const askedLately = isRecent(before.askedAt, ctx.now(), ASK_AGAIN_MS);
  const othersDue = (moved || evidence.flagsChanged) && !askedLately;
  if (!moved && !othersDue) return;
  const comparison = new Comparison(ctx, pass);
  if (moved) await comparison.compare('\\Seen');
  if (othersDue) {
    await comparison.compare('\\Flagged');
    await comparison.compare('\\Answered');
  }
  await ctx.committer.flush();
  ctx.memory.set(COMPARED, key, {
    theirs,
    ours: ctx.mirror.unread(pass.at, pass.generation),
    askedAt: othersDue ? ctx.now() : before.askedAt,
  });
}

class Comparison {
  #left = MOST_REQUESTS;

  constructor(
    private readonly ctx: PassContext,
    private readonly pass: FolderPass,
  ) {}

  async compare(flag: CountedFlag): Promise<void> {
    const range = this.pass.evidence.belowHead;
    const uids = this.ctx.mirror.uidsFlagged(this.pass.at, this.pass.generation, flag);
    const known = uids.filter((uid) => uid <= range.hi);
    const total = (await this.#ask(range, flag, 1))?.total;
    if (total === undefined) return;
    const steps = bisect(known, range, total, PAGE_SIZE);
    let step = steps.next();
    while (step.done !== true) {
      const { ask, range: part } = step.value;
      if (ask === 'count') {
        const page = await this.#ask(part, flag, 1);
        if (page === undefined) return;
        step = steps.next(page.total);
      } else {
        if (!(await this.#read(part, flag, known))) return;
        step = steps.next(0);
      }
    }
  }

  /** Reads the messages of a range that have the flag. Those that should have it and do not are asked for by name. */
  async #read(range: UidInterval, flag: CountedFlag, known: readonly number[]): Promise<boolean> {
    const carriers = new Set<number>();
    for (let lo = range.lo; lo <= range.hi; ) {
      const page = await this.#ask({ lo, hi: range.hi }, flag, PAGE_SIZE);
      if (page === undefined) return false;
      this.pass.recordFlags(page.items);
      for (const { uid } of page.items) carriers.add(uid);
      const last = page.items[page.items.length - 1]?.uid;
      if (page.total <= page.items.length || last === undefined) break;
      lo = last + 1;
    }
    const lost = known.filter((uid) => uid >= range.lo && uid <= range.hi && !carriers.has(uid));
    const named = lost.slice(0, this.#left * PAGE_SIZE);
    this.#left -= Math.ceil(named.length / PAGE_SIZE);
    const { answered } = await askByName(this.ctx, this.pass.at, named);
    this.pass.recordFlags([...answered.values()]);
    return this.#left > 0;
  }

  /** Requests a page of the messages that have the flag; undefined when the budget is spent or the host cannot answer. */
  async #ask(
    range: UidInterval,
    flag: CountedFlag,
    perPage: number,
  ): Promise<OriginPage | undefined> {
    if (this.#left <= 0) return undefined;
    this.#left -= 1;
    const { at } = this.pass;
    const page = { uids: `${range.lo}:${range.hi}`, perPage, order: 'ascending', flag } as const;
    let answer: OriginPage;
    try {
      answer = await this.ctx.origin.search(at, page, this.ctx.signal);
    } catch (error) {
      this.ctx.signal.throwIfAborted();
      if (!concernsOnly(error)) throw error;
      return undefined;
    }
    if (answer.items.every((item) => isAsked(item, range, flag))) return answer;
    this.ctx.memory.set(FLAGS_UNHEEDED, at.host, true);
    return undefined;
  }
}

function isAsked({ uid, flags }: Listing, range: UidInterval, flag: CountedFlag): boolean {
  return uid >= range.lo && uid <= range.hi && flags.includes(flag);
}
