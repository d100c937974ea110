import { MailkeepError } from '../core/errors.ts';
import type { MailboxListing, SyncRequest } from '../daemon/ports.ts';
import type { SyncRunner } from '../daemon/runs.ts';
import { registryError } from '../registry/errors.ts';
import { accountFailureResult, emptyResult, type SyncResult } from '../sync/result.ts';

/** What passes may do at the moment, by the session that they belong to. */
export interface Politeness {
  /** Aborted while no request may be begun; another one after that. */
  readonly unsure: AbortSignal;
  /** The registry, as people know it. */
  readonly registry: string;
}

/**
 * The passes of an archive in a fleet. They ask the origin for nothing while another worker may be about to take over, so
 * that two do not spend the budget of one token. Tidying that fails, as when the object store is away, is tried again later
 * and ends nothing.
 */
export class PolitePasses implements SyncRunner {
  readonly plan: SyncRunner['plan'];
  readonly has: SyncRunner['has'];
  readonly recover: SyncRunner['recover'];
  readonly tokenMark: SyncRunner['tokenMark'];

  /**
   * @param politeness of the moment
   * @param onUntidy told what kept segments from being sealed and published; resolves when it may be tried again
   */
  constructor(
    private readonly passes: SyncRunner,
    private readonly politeness: () => Politeness,
    private readonly onUntidy: (error: MailkeepError, signal: AbortSignal) => Promise<void>,
  ) {
    this.plan = passes.plan.bind(passes);
    this.has = passes.has.bind(passes);
    this.recover = passes.recover.bind(passes);
    this.tokenMark = passes.tokenMark.bind(passes);
  }

  async listMailboxes(
    account: string,
    fresh: boolean,
    signal: AbortSignal,
  ): Promise<MailboxListing> {
    const { unsure, registry } = this.politeness();
    if (unsure.aborted) return { mailboxes: [], result: waiting(account, registry) };
    return this.passes.listMailboxes(account, fresh, AbortSignal.any([signal, unsure]));
  }

  async pass(request: SyncRequest): Promise<SyncResult> {
    const { unsure, registry } = this.politeness();
    if (unsure.aborted) return waiting(request.mailbox.account, registry);
    // Interrupted, it waits for its next turn like any other.
    return this.passes.pass({ ...request, signal: AbortSignal.any([request.signal, unsure]) });
  }

  async tidy(signal: AbortSignal): Promise<boolean> {
    try {
      return await this.passes.tidy(signal);
    } catch (error) {
      if (!(error instanceof MailkeepError) || ENDS.has(error.code)) throw error;
      if (!signal.aborted) await this.onUntidy(error, signal);
      return true;
    }
  }
}

/** After these, the archive is not this session's any more, or its log cannot be written. */
const ENDS: ReadonlySet<string> = new Set(['log-fenced', 'log-copy-failed', 'log-sync-failed']);

function waiting(account: string, registry: string): SyncResult {
  const error = registryError('registry-unreachable', { registry, reason: 'lease' });
  return { ...emptyResult(0), failures: [accountFailureResult(account, error)] };
}
