import { rm } from 'node:fs/promises';
import type { QuarantineReason } from '../../../archive/format/facts.ts';
import type { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { syncError } from '../../../errors/sync.ts';
import type { Listing, Place } from '../../../mail/words.ts';
import { concernsOnly } from '../failure-scope.ts';
import { forgetTries } from '../memory/second-looks.ts';
import type { PassContext } from '../pass-context.ts';
import type { FetchedSource } from '../ports.ts';
import { askByName } from './ask-by-name.ts';
import { type FetchingFolder, fetchJudged, type Judged } from './fetch-judged.ts';

/** Larger sources that are not accepted are not kept aside: their hash is remembered all the same. */
const KEEP_ASIDE_BYTES = 4 * 1024 * 1024;

type AcceptedAs = Extract<Judged['judgement'], { verdict: 'accept' }>['mark'];

/** One message to fetch, and who wants to know how it went. */
export interface FetchOrder {
  readonly folder: FetchingFolder & { readonly address: string };
  readonly listing: Listing;
  /** True for a message that an earlier pass quarantined. */
  readonly again: boolean;
  /** Called when the source is not stored: another look at the same page must not fetch it once more. */
  readonly onSetAside: () => void;
  /** Called once the outcome is durable, or when the message turns out to be gone. */
  readonly onSettled: () => void;
}

/** Fetches one message's raw source and stores it, or records why it could not be stored. */
export class FetchJob {
  readonly #place: Place;

  constructor(
    private readonly ctx: PassContext,
    private readonly order: FetchOrder,
  ) {
    this.#place = order.folder.place(order.listing.uid);
  }

  /** @throws what concerns more than this message: a refused token, an unreachable host, a full disk */
  async run(): Promise<void> {
    try {
      this.ctx.signal.throwIfAborted();
      await this.#attempt();
    } catch (error) {
      // At once, so that no fetch begins that waits behind this one.
      this.ctx.stop(error);
      throw error;
    }
  }

  async #attempt(): Promise<void> {
    const { folder, listing } = this.order;
    const { host, signal } = this.ctx;
    let source: FetchedSource | undefined;
    try {
      const fetched = await fetchJudged(this.ctx, folder, listing);
      source = fetched.source;
      await host.canary.watch(folder.at, listing, signal);
      const { judgement, detail } = fetched;
      if (judgement.verdict === 'other') this.#recordGone();
      else if (judgement.verdict === 'accept') await this.#store(source, judgement.mark);
      else this.#quarantine(judgement.reason, detail, source);
    } catch (error) {
      signal.throwIfAborted();
      if (!concernsOnly(error)) throw error;
      await this.#recordFailure(error);
    } finally {
      if (source?.kind === 'file') await rm(source.path, { force: true });
    }
  }

  async #store(source: FetchedSource, accepted: AcceptedAs): Promise<void> {
    const { folder, listing, again, onSetAside, onSettled } = this.order;
    const { committer, ledger } = this.ctx;
    const place = this.#place;
    if (again) forgetTries(this.ctx, place);
    const bytes = source.kind === 'buffer' ? source.bytes.length : source.size;
    const options = { accepted, wasQuarantined: again };
    const put = await committer.storeSource(place, listing, source, options, (is) => {
      if (is === 'stored') ledger.count(folder.address, 'added', 1);
      ledger.count(folder.address, 'bytes', bytes);
      onSettled();
    });
    if (put.is === 'stored') return;
    onSetAside();
    // Since its quarantine, the log holds its listing and perhaps a part of its source.
    if (again) {
      const error = syncError('sync.forgotten-in-quarantine', { id: put.id });
      ledger.fail(error, { mailbox: folder.address, place });
    }
  }

  /** Records why a message is not stored; once, even if a retry fails again. */
  #quarantine(reason: QuarantineReason, detail: string, source?: FetchedSource): void {
    const { folder, listing, again, onSetAside, onSettled } = this.order;
    // A retry writes no fact, so nothing would refer to the bytes it kept.
    const kept = again ? undefined : this.#keepAside(source);
    if (!this.#isAcknowledgedRetry()) this.ctx.ledger.count(folder.address, 'quarantined', 1);
    onSetAside();
    if (again) {
      onSettled();
      return;
    }
    this.ctx.committer.addFact(
      {
        fact: 'quarantined',
        ...this.#place,
        listing,
        reason,
        detail,
        ...(kept === undefined ? {} : { kept }),
      },
      onSettled,
    );
  }

  #keepAside(source: FetchedSource | undefined): string | undefined {
    if (source?.kind !== 'buffer' || source.bytes.length > KEEP_ASIDE_BYTES) return undefined;
    return this.ctx.committer.keepAside(source.bytes);
  }

  /** The user has acknowledged this quarantine: another failed try is nothing to report. */
  #isAcknowledgedRetry(): boolean {
    const { folder, again } = this.order;
    return again && this.ctx.mirror.isAcknowledged(folder.at, this.#place);
  }

  /** Handles a source that could not be fetched: the message is gone, or the origin refuses it. */
  async #recordFailure(error: MailkeepError): Promise<void> {
    if (isNotFound(error) && (await this.#isGone())) {
      this.#recordGone();
      return;
    }
    this.ctx.host.trouble.failed(error);
    this.#quarantine(error.code === 'origin.not-mail' ? 'not-mail' : 'refused', error.code);
    if (this.#isAcknowledgedRetry()) return;
    this.ctx.ledger.fail(error, { mailbox: this.order.folder.address, place: this.#place });
  }

  /** Asks for the message by name. An origin that refuses that as well has not said that the message is gone. */
  async #isGone(): Promise<boolean> {
    const { folder, listing } = this.order;
    try {
      return (await askByName(this.ctx, folder.at, [listing.uid])).silent.length > 0;
    } catch (error) {
      if (concernsOnly(error)) return false;
      throw error;
    }
  }

  /** Handles a message that left its uid. A message that has the uid now is found by its own listing. */
  #recordGone(): void {
    const { again, onSettled } = this.order;
    if (again) {
      this.ctx.committer.addFact({ fact: 'released', ...this.#place, reason: 'ended' });
      forgetTries(this.ctx, this.#place);
    }
    onSettled();
  }
}

function isNotFound(error: MailkeepError): boolean {
  return error.code === 'origin.status' && error.facts.status === 404;
}
