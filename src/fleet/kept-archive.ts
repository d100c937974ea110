import { statSync } from 'node:fs';
import { archiveError } from '../archive/errors.ts';
import { catalogFile } from '../catalog/database.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import type { Writer } from '../catalog/open-writer.ts';
import type { UploadingStore } from '../copies/object-store.ts';
import type { AccountSettings, Settings } from '../core/config-schema.ts';
import { type SecretPurpose, storedAccount } from '../core/config-schema.ts';
import { MailkeepError } from '../core/errors.ts';
import { selects } from '../core/names.ts';
import { Daemon } from '../daemon/daemon.ts';
import type { DaemonLog } from '../daemon/daemon-log.ts';
import type { PlannedMailbox } from '../daemon/delivery-watch.ts';
import type { DaemonClock, DaemonEvent } from '../daemon/ports.ts';
import type { SharedExtractors } from '../daemon/runs.ts';
import { SyncRuns } from '../daemon/runs.ts';
import { recordStart, rememberedTimetable } from '../daemon/schedule.ts';
import { readArchive, readSecrets, type StoredArchive } from '../registry/reading.ts';
import type { Upkeep } from '../registry/upkeep.ts';
import type { RequestReport } from '../service/transport.ts';
import { chunkUpload, makeChunk, storeChunk } from './chunks.ts';
import type { HeldArchive } from './held-archive.ts';
import { type FleetHint, MailboxMarks } from './hint-notes.ts';
import { storeMemory } from './memory.ts';
import { ObjectNames, type Random } from './object-names.ts';
import { type OpenedArchive, openHeld } from './open-held.ts';
import { pause } from './pause.ts';
import { dueFor } from './plan.ts';
import { type Politeness, PolitePasses } from './polite-passes.ts';
import type { FleetPurges } from './purges.ts';
import { type FleetKeys, openSecret } from './secrets.ts';
import type { Patience } from './settling.ts';
import { storeSnapshot } from './snapshots.ts';
import { WebhookRegistering } from './webhook-registering.ts';

/** What every archive of a worker is kept with. */
export interface Keeping {
  /** The UUID of the fleet. */
  readonly fleet: string;
  /** Reads the keys: a rotation may have added one since. */
  readonly keys: () => FleetKeys;
  readonly objects: UploadingStore;
  /** What is done with every account; its own accounts and folder play no part. */
  readonly settings: Settings;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly extractors: SharedExtractors;
  readonly clock: DaemonClock;
  readonly log: DaemonLog;
  readonly patience: Patience;
  readonly politeness: () => Politeness;
  readonly random: Random;
  readonly report: EngineContext['report'];
  /** Where the service is to deliver new mail to; null if nobody registers that here. */
  readonly webhookUrl: string | null;
  /** Must only take note. */
  readonly onEvent: (event: DaemonEvent) => void;
  readonly onRequest: (report: RequestReport) => void;
}

export interface Opening {
  readonly signal: AbortSignal;
  /** Told once why it cannot go on: the caller closes it. */
  readonly onFailed: (error: unknown) => void;
  /** Of an earlier opening under the same claim. */
  readonly purges: FleetPurges | undefined;
}

/** How often what the archive remembers is saved, in milliseconds. */
const MEMORY_MS = 3_600_000;
/** Of a larger catalog no snapshot is made: that takes longer than a session may go without renewal. */
const MOST_CATALOG_BYTES = 2 * 1024 * 1024 * 1024;
/** Mailboxes that are looked at for a hint which names none. */
const MOST_UNNAMED = 100;
/** Until it is tried again to forget what could not be, in milliseconds. */
const UNFORGOTTEN_MS = 3_600_000;
/** Until sealing and publishing are tried again, in milliseconds. */
const UNTIDY_MS = 60_000;
/** Secrets without which an account cannot be mirrored; those of webhooks are none. */
const TOKENS: ReadonlySet<string> = new Set<SecretPurpose>(['token', 'platform-token']);
/** What a fleet does by the clock. */
const DONE = ['sync', 'sweep'] as const;

/** An archive that this session holds, opened and kept fresh. */
export class KeptArchive {
  readonly #daemon: Daemon;
  readonly #controller = new AbortController();
  readonly #names: ObjectNames;
  readonly #openedAt: number;
  #savedAt: number;
  /** Messages at the last snapshot that was made here, or when the archive was opened. */
  #messagesThen: number;
  #upkeeping: Promise<void> = Promise.resolve();
  readonly #registering: WebhookRegistering | undefined;
  readonly #marks: MailboxMarks;

  private constructor(
    private readonly keeping: Keeping,
    readonly held: HeldArchive,
    private readonly stored: StoredArchive,
    private readonly opened: OpenedArchive,
    private readonly passes: SyncRuns,
    onFailed: (error: unknown) => void,
  ) {
    const { clock, log, politeness } = keeping;
    const { writer } = opened;
    this.#names = namesOf(keeping, stored);
    this.#marks = new MailboxMarks(keeping.fleet);
    this.#registering = this.#registeringAt(keeping.webhookUrl);
    this.#openedAt = clock.monotonic();
    this.#savedAt = this.#openedAt;
    this.#messagesThen = writer.catalog.totals().messages;
    const polite = new PolitePasses(passes, politeness, async (error, signal) => {
      log.fail('error', 'segments could not be sealed or published', error);
      await pause(clock, UNTIDY_MS, signal);
    });
    this.#daemon = new Daemon({
      accounts: [stored.name],
      runner: polite,
      clock,
      timetable: rememberedTimetable(keeping.settings, writer.state, clock, DONE),
      started: (name, at) => {
        try {
          recordStart(writer.state, name, at);
        } catch (error) {
          // At worst it is done once too often.
          if (!(error instanceof MailkeepError)) throw error;
          log.fail('error', 'the schedule could not be remembered', error);
        }
      },
      tasks: { verify: () => Promise.resolve(), prune: () => Promise.resolve() },
      observer: (event) => {
        log.observer(event);
        keeping.onEvent(event);
        if (event.event === 'run-finished') this.#registering?.look();
      },
      random: Math.random,
      onFatal: onFailed,
    });
  }

  /**
   * Opens an archive that was claimed in a folder of this node, and begins to keep it fresh.
   *
   * @throws config-invalid for settings that this program does not understand; fleet-key-unknown, fleet-secret-damaged; as
   *   `openHeld`
   */
  static async open(
    keeping: Keeping,
    held: HeldArchive,
    dir: string,
    { signal, onFailed, purges }: Opening,
  ): Promise<KeptArchive> {
    const { objects, settings, clock, log, patience, report } = keeping;
    const { registry, lease } = held;
    const stored = await readArchive(registry, lease.archive);
    if (stored === undefined) throw archiveError('log-fenced', { commit: null, reason: 'refused' });
    const account = storedAccount(stored.name, stored.settings, await secretsOf(keeping, held));
    const opened = await openHeld({
      ...{ held, objects, names: namesOf(keeping, stored), dir, patience, signal, report },
      ...{ codec: settings.archive.codec, now: clock.now },
      ...(purges === undefined ? {} : { purges }),
      onUnusable: (what, error) => log.fail('error', `the ${what} could not be used`, error),
      onUnforgotten: (error) => log.fail('error', 'what was asked for is not forgotten', error),
    });
    let passes: SyncRuns | undefined;
    try {
      passes = passesOf(keeping, account, opened.writer);
      const kept = new KeptArchive(keeping, held, stored, opened, passes, onFailed);
      await kept.#finishForgets();
      // A paused account is there to be read: the origin is not asked.
      if (!kept.isPaused) kept.#daemon.start();
      return kept;
    } catch (error) {
      await passes?.close();
      await opened.writer.close();
      throw error;
    }
  }

  get name(): string {
    return this.stored.name;
  }

  /**
   * Has the mailbox of a hint looked at now; all of them if it names none.
   *
   * @returns whether the account has it, as far as is known
   */
  hint({ mailbox: mark, uid }: Pick<FleetHint, 'mailbox' | 'uid'>): boolean {
    if (this.isPaused) return false;
    const listed = this.#mailboxes();
    // The first pass, which looks at all of them, is under way.
    if (listed === undefined) return true;
    const meant = mark === null ? listed.slice(0, MOST_UNNAMED) : this.#marks.named(listed, mark);
    for (const { resourceId } of meant) {
      this.#daemon.hint({ account: this.name, resourceId, ...(uid === null ? {} : { uid }) });
    }
    return meant.length > 0;
  }

  /** The service of the account, and the requests a minute that it may make there, by what refusals have taught. */
  get budget(): { readonly host: string; readonly perMinute: number } | undefined {
    const [account] = this.passes.accounts();
    if (account === undefined) return undefined;
    const { rateLimit } = this.keeping.settings;
    const learned = this.opened.writer.state
      .entries('limiter')
      .flatMap(({ value }) => ('learned' in value ? (value.learned ?? []) : []));
    return { host: account.host, perMinute: Math.min(rateLimit.requestsPerMinute, ...learned) };
  }

  /** Those that are mirrored, as the service listed them last. */
  #mailboxes(): readonly PlannedMailbox[] | undefined {
    const [account] = this.passes.accounts();
    return account?.listing?.mailboxes.filter(({ address }) =>
      selects(account.settings.mailboxes, address),
    );
  }

  #registeringAt(url: string | null): WebhookRegistering | undefined {
    const { keeping, held, passes } = this;
    const [account] = passes.accounts();
    if (this.isPaused || url === null || account === undefined) return undefined;
    if (!('mailbox' in account)) return undefined;
    const { fleet, keys, clock, log, politeness } = keeping;
    return new WebhookRegistering({
      ...{ held, fleet, keys, url, clock, log },
      account: () => ({ client: account.mailbox, mailboxes: this.#mailboxes() }),
      signal: () => AbortSignal.any([this.#controller.signal, politeness().unsure]),
    });
  }

  /** Whether no pass is made, because the account was paused when the archive was opened. */
  get isPaused(): boolean {
    return this.stored.state !== 'active';
  }

  /** Where its mail is read: the folder, and what brings segments into it. */
  get readable(): Pick<Writer, 'dataDir' | 'segments'> {
    return this.opened.writer;
  }

  /** What was decided and is not finished: for the next opening under the same claim. */
  get purges(): FleetPurges {
    return this.opened.purges;
  }

  /** Whether somebody asked to forget something since it was opened: it is closed and opened again for that. */
  hasToForget({ forgets }: Upkeep): boolean {
    const isDue = this.keeping.clock.monotonic() - this.#openedAt >= UNFORGOTTEN_MS;
    return forgets > (isDue ? 0 : this.opened.unforgotten);
  }

  /** Does what is due to keep the registry small and takeovers fast. What fails is logged, and due again. */
  async upkeep(upkeep: Upkeep): Promise<void> {
    this.#upkeeping = this.#upkeep(upkeep);
    await this.#upkeeping;
  }

  /**
   * Ends passes at the next safe point and closes the archive; what was committed stays. The lease is not given back.
   *
   * @param saving whether what the archive remembers is worth a request to the registry
   * @throws the errors of the disk and the state: it is closed all the same
   */
  async close(saving: boolean): Promise<void> {
    this.#controller.abort();
    try {
      await this.#daemon.stop();
      await this.#registering?.idle();
      await this.#upkeeping.catch(() => undefined);
      await this.passes.close();
      if (saving)
        await this.#trying('what it remembers could not be saved', () => this.#remember());
    } finally {
      await this.opened.writer.close();
    }
  }

  async #upkeep({ tailBytes, tailAgeMs, tailSegment, ...snapshot }: Upkeep): Promise<void> {
    const { held } = this;
    const { writer } = this.opened;
    const commits = held.head.headNumber - (snapshot.snapshotNumber ?? 0);
    const added = writer.catalog.totals().messages - this.#messagesThen;
    const due = dueFor({
      ...{ tailBytes, tailAgeMs, tailSegment },
      // A commit of new mail has one message or more.
      snapshot: { ageMs: snapshot.snapshotAgeMs, commits, messages: Math.max(commits, added) },
    });
    for (const act of due) {
      if (act.do === 'chunk') {
        await this.#trying('no chunk could be stored', () => this.#chunk(act.segment));
      } else await this.#trying('no snapshot could be stored', () => this.#snapshot());
    }
    await this.#finishForgets();
    const now = this.keeping.clock.monotonic();
    if (now - this.#savedAt < MEMORY_MS) return;
    this.#savedAt = now;
    await this.#trying('what it remembers could not be saved', () => this.#remember());
  }

  async #finishForgets(): Promise<void> {
    await this.#trying('a forget could not be finished', () => this.opened.purges.finish());
  }

  /** What fails of one kind keeps nothing else from being done. */
  async #trying(what: string, act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (this.#controller.signal.aborted) return;
      if (!(error instanceof MailkeepError)) throw error;
      this.keeping.log.fail('error', what, error);
    }
  }

  async #remember(): Promise<void> {
    const { held } = this;
    const { writer, purges } = this.opened;
    // What is on this node may still have what is to be forgotten, and would count as made without it.
    if (held.lostBy === undefined && purges.areCarriedOut) await storeMemory(held, writer);
  }

  async #chunk(segment: number): Promise<void> {
    const content = await makeChunk(this.held, segment);
    // What was purged waits for its segment to be sealed.
    if (content === undefined) return;
    await storeChunk(this.held, content, chunkUpload(this.#uploading, this.#names));
  }

  async #snapshot(): Promise<void> {
    const { writer, purges } = this.opened;
    const { dataDir: dir, catalog } = writer;
    if (!purges.areCarriedOut) return;
    // It is made on the thread that renews the session.
    if (statSync(catalogFile(dir)).size > MOST_CATALOG_BYTES) return;
    const { messages } = catalog.totals();
    const { logId } = this.stored;
    const outcome = await storeSnapshot(this.#uploading, {
      ...{ dir, logId, catalog, names: this.#names },
    });
    if (outcome.outcome === 'committed') this.#messagesThen = messages;
  }

  get #uploading() {
    return { held: this.held, objects: this.keeping.objects, signal: this.#controller.signal };
  }
}

function namesOf({ fleet, random }: Keeping, { logId }: StoredArchive): ObjectNames {
  return new ObjectNames({ fleet, logId }, random);
}

async function secretsOf(
  { keys, fleet }: Keeping,
  { registry, lease }: HeldArchive,
): Promise<ReadonlyMap<string, string>> {
  const secrets = await readSecrets(registry, lease.archive);
  const known = keys();
  return new Map(
    secrets
      .filter(({ purpose }) => TOKENS.has(purpose))
      .map((secret) => [secret.purpose, openSecret(known, fleet, secret)]),
  );
}

function passesOf(
  { settings, env, extractors, clock, log, onRequest }: Keeping,
  account: AccountSettings,
  writer: Writer,
): SyncRuns {
  return new SyncRuns({
    writer,
    env,
    // A rewrite of what is sealed would upload it again.
    settings: {
      ...settings,
      accounts: [account],
      archive: { ...settings.archive, compact: false },
    },
    extractors,
    clock,
    onRequest: (_, request) => {
      log.request(request);
      onRequest(request);
    },
    onWait: log.wait,
    onSealed: (_, damaged) => {
      for (const error of damaged) log.fail('error', 'a segment is damaged', error);
    },
    onTidied: () => {},
  });
}
