import type { RequestReport } from '../api/exchange.ts';
import type { Settings } from '../config/settings.ts';
import type { Writer } from '../engine/archive/writer.ts';
import { Compaction } from '../engine/compact.ts';
import {
  type AccountOrigin,
  AccountOrigins,
  limiterStore,
} from '../engine/origins/account-origins.ts';
import { RequestLog } from '../engine/origins/request-log.ts';
import { makePass } from '../engine/pass/make-pass.ts';
import { Meter, Meters } from '../engine/pass/meter.ts';
import { type Narrowing, wantedOf } from '../engine/pass/selection.ts';
import { SharedCommitter } from '../engine/pass/shared-committer.ts';
import {
  type AttachmentReading,
  attachmentReading,
  type SharedExtractors,
  tidy,
} from '../engine/pass/tidy.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';
import { createIndexer, type Indexer } from '../indexer/indexer.ts';
import type { Wait } from '../limiter/gate.ts';
import { selects } from '../mail/name-selection.ts';
import type { Extractor } from '../mime/extractor.ts';
import { openExtractorPool } from '../mime/extractor-pool.ts';
import { catalogMirror } from '../sync/apply/catalog-mirror.ts';
import { concernsOneAccount } from '../sync/apply/failure-scope.ts';
import { noteUnwatchedMailboxes } from '../sync/apply/memory/unwatched.ts';
import type { Mirror } from '../sync/apply/ports.ts';
import type { Wanted } from '../sync/apply/survey.ts';
import { planSync, type SyncPlan } from '../sync/plan-sync.ts';
import type { ProgressListener } from '../sync/progress.ts';
import { emptyResult, failureOfAccount, type SyncResult } from '../sync/result.ts';
import type { Aim, DaemonClock, PassRequest, PassRunner, Survey, WatchedMailbox } from './ports.ts';

/** What a pass by the clock takes from earlier ones: 55 minutes, so that with the wait for the next it is the hour. */
const RHYTHM = { mailboxesMs: 3_300_000, folderMs: 3_300_000 };
/** Relinked messages that are fetched to see whether they are what was assumed, an hour and account. */
const VERIFY_PER_HOUR = 20;

/** How long the text of attachments is read at a time, when nothing else is to be done. */
const ATTACHMENTS_MS = 2_000;

const NOBODY: ProgressListener = () => {};

export interface PassesOptions {
  readonly writer: Writer;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly settings: Settings;
  /** Threads that others use as well, and that stay when the passes end; without them, these have their own. */
  readonly extractors?: SharedExtractors;
  readonly clock: DaemonClock;
  readonly onRequest: (account: string, report: RequestReport) => void;
  readonly onWait: (wait: Wait) => void;
  /** After each round of sealing: when it began, and what it met that is not what was written. */
  readonly onSealed: (startedAt: number, damaged: readonly MailkeepError[]) => void;
  /** After the last of the rounds that read attachments and seal, with when the first one began. */
  readonly onTidied: (startedAt: number) => void;
}

/** Makes the daemon's passes: one archive and one index, side by side, over all accounts. */
export class Passes implements PassRunner {
  readonly #options: PassesOptions;
  readonly #mirror: Mirror;
  readonly #extractor: Extractor;
  readonly #indexer: Indexer;
  readonly #attachments: AttachmentReading;
  readonly #committer: SharedCommitter;
  readonly #compaction: Compaction;
  readonly #meters = new Meters((name) => this.#origins.get(name)?.requestsPerMinute() ?? 0);
  #tidyingSince: number | undefined;
  #settings: Settings;
  #origins: AccountOrigins;

  constructor(options: PassesOptions) {
    this.#options = options;
    const { writer, clock, extractors } = options;
    this.#mirror = catalogMirror(writer.catalog);
    this.#extractor = extractors?.messages ?? openExtractorPool();
    this.#indexer = createIndexer({
      store: writer.catalog.index,
      sources: writer.sources,
      segments: writer.segments,
      extractor: this.#extractor,
    });
    this.#attachments = attachmentReading(
      writer,
      this.#indexer,
      this.#extractor,
      extractors?.attachments,
    );
    this.#compaction = new Compaction(writer);
    this.#committer = new SharedCommitter({
      log: writer.log,
      mirror: this.#mirror,
      now: () => clock.now(),
      after: (ms, act) => clock.after(ms, act),
    });
    this.#settings = options.settings;
    this.#origins = this.#open(options.settings);
  }

  /** The accounts of the configuration in force, with their connections. */
  accounts(): AccountOrigin[] {
    return this.#origins.all();
  }

  /** The configuration in force. */
  get settings(): Settings {
    return this.#settings;
  }

  /** Applies another configuration. No pass may be under way. When it throws, everything is as it was. */
  async configure(settings: Settings): Promise<void> {
    const old = this.#origins;
    // What the limiter has learned reaches its successor by the state.
    old.save();
    this.#origins = this.#open(settings);
    this.#settings = settings;
    await old.close();
  }

  async close(): Promise<void> {
    await this.#origins.close();
    this.#origins.save();
    const isShared = this.#options.extractors !== undefined;
    await Promise.all([isShared ? undefined : this.#extractor.close(), this.#attachments.close()]);
  }

  async survey(name: string, fresh: boolean, signal: AbortSignal): Promise<Survey> {
    const account = this.#origins.get(name);
    // The configuration has just lost it.
    if (account === undefined) return { mailboxes: [], result: emptyResult(0) };
    const { settings } = account;
    const before = account.listing;
    if (fresh) account.listing = undefined;
    const startedAt = this.#options.clock.now();
    const wanted = { mailboxes: settings.mailboxes, folders: settings.folders };
    try {
      const meter = new Meter();
      const none = await this.#meters.during(name, '', meter, NOBODY, async () => {
        const origin = this.#origins.recent(account, () => undefined, this.#options.clock.now);
        const listed = await origin.mailboxes(signal);
        if (account.listing !== before) {
          const noting = { memory: this.#options.writer.state, mirror: this.#mirror, origin };
          const whole = { mailboxes: true, folders: true };
          noteUnwatchedMailboxes(noting, listed, { ...wanted, whole });
        }
        // A pass over none of them: it notes which of those that were listed before are gone.
        const others = [...settings.mailboxes.exclude, ...listed.map(({ address }) => address)];
        return account.listing === before
          ? emptyResult(0)
          : this.#sync(
              account,
              { ...wanted, mailboxes: { ...wanted.mailboxes, exclude: others } },
              {
                signal,
                meter,
                aim: { full: false, acceptEndings: false },
                rhythm: false,
                sweptSince: null,
                lane: () => undefined,
                progress: NOBODY,
              },
            );
      });
      const mailboxes = (account.listing?.mailboxes ?? [])
        .filter(({ address }) => selects(settings.mailboxes, address))
        .map((mailbox) => ({ account: name, host: account.host, ...mailbox }));
      return { mailboxes, result: none };
    } catch (error) {
      signal.throwIfAborted();
      return { mailboxes: [], result: this.#failed(name, error, startedAt) };
    }
  }

  async pass(request: PassRequest): Promise<SyncResult> {
    const { mailbox, aim, begunAt, byHand, lane, signal, progress } = request;
    const account = this.#origins.get(mailbox.account);
    // The configuration was reloaded after the decision.
    if (account === undefined || !selects(account.settings.mailboxes, mailbox.address)) {
      return emptyResult(0);
    }
    const { folders } = account.settings;
    const startedAt = this.#options.clock.now();
    const wanted = {
      mailboxes: { include: [mailbox.address], exclude: [] },
      folders: aim.folders.length === 0 ? folders : { ...folders, only: aim.folders },
      whole: { mailboxes: false, folders: aim.folders.length === 0 },
    };
    const meter = new Meter();
    try {
      return await this.#meters.during(mailbox.account, mailbox.resourceId, meter, progress, () =>
        this.#sync(account, wanted, {
          signal,
          meter,
          aim,
          rhythm: !byHand,
          sweptSince: aim.full ? begunAt : null,
          lane,
          progress,
        }),
      );
    } catch (error) {
      return this.#failed(mailbox.account, error, startedAt);
    }
  }

  /** A failure that ended a pass for its account as a whole, as a result. Throws any other. */
  #failed(account: string, error: unknown, startedAt: number): SyncResult {
    if (!concernsOneAccount(error)) throw error;
    const result = emptyResult(this.#options.clock.now() - startedAt);
    return { ...result, failures: [failureOfAccount(account, error)] };
  }

  plan(
    names: readonly string[],
    narrowing: Narrowing,
    full: boolean,
    signal: AbortSignal,
  ): Promise<SyncPlan> {
    const accounts = names.flatMap((name) => this.#origins.get(name) ?? []);
    const wanted = wantedOf(
      accounts.map(({ settings }) => settings),
      narrowing,
    );
    return planSync({
      accounts: accounts.map((account) => ({
        name: account.settings.name,
        wanted: wanted(account.settings),
        origin: this.#origins.recent(account, () => undefined, this.#options.clock.now),
      })),
      mirror: this.#mirror,
      memory: this.#options.writer.state,
      full,
      signal,
    });
  }

  has({ host, resourceId }: WatchedMailbox, uid: number): boolean {
    const at = { host, mailbox: resourceId, folder: 'INBOX' };
    const generation = this.#mirror.folder(at)?.generation;
    if (generation === undefined) return false;
    return (
      this.#mirror.placed(at, generation, uid) !== undefined ||
      this.#mirror.settledAs(at, generation, uid) !== undefined
    );
  }

  async tidy(signal: AbortSignal): Promise<boolean> {
    const { writer, clock, onSealed, onTidied } = this.#options;
    const now = (): number => clock.now();
    const since = this.#tidyingSince ?? now();
    const left = await this.#attachments.read({ signal, forMs: ATTACHMENTS_MS, now });
    // Not as after a first sync: closing the catalog's gaps would stop everything for as long as it takes.
    const { number } = writer.catalog.reached();
    const startedAt = now();
    const damaged = await tidy(writer, Math.max(1, number), now, signal);
    const compacted = this.#settings.archive.compact
      ? await this.#compaction.step(this.#settings.minFreeBytes, signal)
      : { damaged: [], more: false };
    onSealed(startedAt, [...damaged, ...compacted.damaged]);
    const isMore = left > 0 || compacted.more;
    this.#tidyingSince = isMore ? since : undefined;
    if (!isMore) onTidied(since);
    return isMore;
  }

  recover(): void {
    this.#committer.renew();
  }

  tokenMark(account: string): string | null {
    return this.#origins.tokenMark(account);
  }

  async #sync(
    account: AccountOrigin,
    wanted: Wanted,
    pass: Pick<PassRequest, 'signal' | 'lane' | 'progress'> & {
      readonly meter: Meter;
      readonly aim: Pick<Aim, 'full' | 'acceptEndings'>;
      readonly rhythm: boolean;
      readonly sweptSince: number | null;
    },
  ): Promise<SyncResult> {
    const { writer, clock } = this.#options;
    const { meter, aim, sweptSince, lane, progress, signal } = pass;
    let onCommitted: (() => void) | undefined;
    try {
      return await makePass(writer, this.#settings, {
        accounts: [
          {
            name: account.settings.name,
            wanted,
            origin: this.#origins.recent(account, lane, clock.now),
          },
        ],
        concurrency: widthOf(this.#settings.rateLimit.concurrency, account),
        policy: {
          ...(pass.rhythm ? { rhythm: RHYTHM, verifyPerHour: VERIFY_PER_HOUR } : {}),
          sweptSince,
          full: aim.full,
          acceptEndings: aim.acceptEndings,
        },
        mirror: this.#mirror,
        indexing: this.#indexer,
        tidy: () => Promise.resolve([]),
        requests: () => meter.byOperation(),
        now: () => clock.now(),
        after: (ms, act) => clock.after(ms, act),
        progress,
        signal,
        openCommitter: (listener) => {
          onCommitted = listener;
          return this.#committer.open(listener);
        },
      });
    } finally {
      if (onCommitted !== undefined) this.#committer.release(onCommitted);
    }
  }

  #open(settings: Settings): AccountOrigins {
    const { writer, env, clock, onRequest, onWait } = this.#options;
    return new AccountOrigins({
      accounts: settings.accounts,
      rateLimit: settings.rateLimit,
      env,
      clock,
      spoolDir: writer.spoolDir,
      store: limiterStore(writer.state),
      requests: new RequestLog(writer.state, settings.rateLimit.requestsPerMinute, clock.now),
      onRequest: (account, report) => {
        this.#meters.count(account, report);
        onRequest(account, report);
      },
      onWait,
    });
  }
}

/** Where there are several mailboxes, one that is slow to answer must not take all the turns there are. */
function widthOf(concurrency: number, { listing }: AccountOrigin): number {
  return (listing?.mailboxes.length ?? 0) > 1 ? Math.max(1, concurrency - 1) : concurrency;
}
