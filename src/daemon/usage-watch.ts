import { type AccountOrigin, orderOf } from '../engine/origins/account-origins.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { selects } from '../mail/name-selection.ts';
import type { MailboxKey } from '../mail/words.ts';
import { orderUsages } from '../sync/apply/api-origin.ts';
import type { LastCompared } from '../sync/apply/memory/proof.ts';
import type { ListedUsage, Memory, OriginMailbox } from '../sync/apply/ports.ts';
import {
  isLeftAlone,
  recalledListing,
  rememberFailure,
  rememberUsages,
} from '../sync/apply/walk/note-usages.ts';
import {
  type HeldAmounts,
  hasMoved,
  listingEveryMs,
  MAILBOXES_A_REQUEST,
} from '../sync/plan/usage-listing.ts';
import { PeriodicWatch, type WatchTiming } from './periodic-watch.ts';
import type { DaemonEvent } from './ports.ts';

export interface UsageWatchOptions extends WatchTiming {
  /** The accounts as the configuration has them now. */
  readonly accounts: () => readonly AccountOrigin[];
  readonly memory: Memory;
  readonly lastCompared: (mailbox: MailboxKey) => LastCompared;
  /** Makes passes over these mailboxes before others that wait. */
  readonly checkSooner: (account: string, resourceIds: readonly string[]) => void;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** How often it is checked whether a listing is due; the check costs no request. */
const CHECK_MS = 60_000;
/** A mailbox that cannot be reached is worth a listing out of turn, and no more than one in this time. */
const OUT_OF_TURN_MS = 1_800_000;
/** Passes that one listing may have made sooner: a listing that is always wrong must not use up the budget. */
const MOST_SOONER = 100;

/** What the service answers about a mailbox that may be suspended. */
const REFUSED: ReadonlySet<string> = new Set([
  'origin.forbidden',
  'origin.mailbox-not-found',
  'sync.mailbox-unreachable',
  'sync.mailbox-suspended',
]);

/**
 * Lists the mailboxes of each order over the platform surface, where that is cheaper than asking each for its quota. The
 * listing shows quotas, which mailboxes are suspended, and where the usage moved: those are checked sooner. The mirror
 * rests on none of it.
 */
export class UsageWatch extends PeriodicWatch {
  /** By account and mailbox: what the last listing of this process said. */
  readonly #held = new Map<string, HeldAmounts>();
  /** Accounts with a mailbox that could not be reached since the last listing. */
  readonly #refused = new Set<string>();
  readonly #suspended = new Set<string>();

  constructor(private readonly options: UsageWatchOptions) {
    super(options, CHECK_MS, 'mailboxes could not be listed');
  }

  onEvent(event: DaemonEvent): void {
    // The account's mailboxes are known now: its listing spares the passes that begin a request each.
    if (event.event === 'run-started' && event.run.kind === 'sync') this.look();
    if (event.event !== 'pass-finished' && event.event !== 'run-finished') return;
    for (const { account, code } of event.result.failures) {
      if (REFUSED.has(code)) this.#refused.add(account);
    }
  }

  protected override async round(): Promise<void> {
    for (const account of this.options.accounts()) {
      if (this.stopping.aborted) return;
      const { mailboxes: selection } = account.settings;
      const wanted = (account.listing?.mailboxes ?? []).filter(({ address }) =>
        selects(selection, address),
      );
      if (wanted.length > 0) await this.#account(account, wanted);
    }
  }

  async #account(account: AccountOrigin, mailboxes: readonly OriginMailbox[]): Promise<void> {
    const { memory, now, log } = this.options;
    const { platform, host } = account;
    const { name } = account.settings;
    if (platform === null) return;
    const last = recalledListing(memory, name, host);
    const pages = last?.pages ?? Math.ceil(mailboxes.length / MAILBOXES_A_REQUEST);
    const inTurn = listingEveryMs(pages, mailboxes.length) ?? Number.POSITIVE_INFINITY;
    const every = this.#refused.has(name) ? Math.min(inTurn, OUT_OF_TURN_MS) : inTurn;
    // One that failed is made up for as soon as the platform surface is asked again.
    const age = last === undefined || last.failed ? Number.POSITIVE_INFINITY : now() - last.at;
    const isDue = age < 0 || (age >= every && every < Number.POSITIVE_INFINITY);
    if (!isDue || isLeftAlone(last, now())) return;
    const signal = this.stopping;
    const noting = { memory, account: name, host };
    try {
      const most = Math.max(1, Math.floor(mailboxes.length / 2));
      const listing = await orderUsages(platform, await orderOf(account, signal), most, signal);
      const said = rememberUsages({ ...noting, now: now() }, mailboxes, listing);
      this.#refused.delete(name);
      this.#noteSuspended(name, said);
      this.#noteMoved(account, mailboxes, said);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof MailkeepError)) throw error;
      if (last?.failed !== true) {
        const { code } = error;
        const text =
          'the platform surface does not list the mailboxes; each is asked for its quota';
        log.say('warn', text, { account: name, code });
      }
      rememberFailure({ ...noting, now: now() }, pages);
    }
  }

  #noteSuspended(account: string, said: ReadonlyMap<string, ListedUsage>): void {
    const { log } = this.options;
    for (const [mailbox, { suspended }] of said) {
      const key = keyOf(account, mailbox);
      if (suspended === this.#suspended.has(key)) continue;
      if (suspended) {
        this.#suspended.add(key);
        log.say('warn', 'the service lists a mailbox as suspended', { account, mailbox });
      } else {
        this.#suspended.delete(key);
        log.say('info', 'a mailbox is no longer suspended', { account, mailbox });
      }
    }
  }

  /** Those that were compared longest ago first. */
  #noteMoved(
    { settings, host }: AccountOrigin,
    mailboxes: readonly OriginMailbox[],
    said: ReadonlyMap<string, ListedUsage>,
  ): void {
    const { lastCompared, checkSooner, log } = this.options;
    const { name } = settings;
    const compared = (resourceId: string) => lastCompared({ host, mailbox: resourceId });
    const moved: { readonly resourceId: string; readonly at: number }[] = [];
    for (const { resourceId } of mailboxes) {
      const usage = said.get(resourceId);
      if (usage === undefined) continue;
      const key = keyOf(name, resourceId);
      const held = heldIn(usage);
      if (hasMoved(this.#held.get(key), held, () => compared(resourceId).messages)) {
        moved.push({ resourceId, at: compared(resourceId).at });
      }
      this.#held.set(key, held);
    }
    if (moved.length === 0) return;
    moved.sort((a, b) => a.at - b.at);
    const sooner = moved.slice(0, MOST_SOONER).map(({ resourceId }) => resourceId);
    log.say('debug', 'usage moved: mailboxes are checked sooner', {
      account: name,
      moved: moved.length,
      sooner: sooner.length,
    });
    checkSooner(name, sooner);
  }
}

function heldIn({ resources }: ListedUsage): HeldAmounts {
  const usage = (wanted: string): number | null =>
    resources.find(({ name }) => name === wanted)?.usage ?? null;
  return { bytes: usage('STORAGE'), messages: usage('MESSAGE') };
}

function keyOf(account: string, mailbox: string): string {
  return `${account} ${mailbox}`;
}
