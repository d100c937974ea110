import { storedAccount } from '../config/account-entry.ts';
import type { Settings } from '../config/settings.ts';
import { Daemon } from '../daemon/daemon.ts';
import type { DaemonLog } from '../daemon/daemon-log.ts';
import { Passes } from '../daemon/passes.ts';
import type { DaemonClock } from '../daemon/ports.ts';
import { noteBegun, rememberedTimetable } from '../daemon/remembered-timetable.ts';
import type { EngineContext } from '../engine/context.ts';
import type { SharedExtractors } from '../engine/pass/tidy.ts';
import { logFenced } from '../errors/archive.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import type { UploadingStore } from '../objects/store.ts';
import { readArchive, readSecrets, type StoredArchive } from '../registry/reading.ts';
import type { Upkeep } from '../registry/upkeep.ts';
import { chunkUpload, makeChunk, storeChunk } from './chunks.ts';
import type { HeldArchive } from './held-archive.ts';
import { storeMemory } from './memory.ts';
import { ObjectNames, type Random } from './object-names.ts';
import { type OpenedArchive, openHeld } from './open-held.ts';
import { pause } from './pause.ts';
import { dueFor } from './plan.ts';
import { type Politeness, PolitePasses } from './polite-passes.ts';
import { type FleetKeys, openSecret } from './secrets.ts';
import type { Patience } from './settling.ts';
import { storeSnapshot } from './snapshots.ts';

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
}

/** How often what the archive remembers is saved, in milliseconds. */
const MEMORY_MS = 3_600_000;
/** Until sealing and publishing are tried again, in milliseconds. */
const UNTIDY_MS = 60_000;
/** What a fleet does by the clock. */
const DONE = ['sync', 'sweep'] as const;

/** An archive that this session holds, opened and kept fresh. */
export class KeptArchive {
  readonly #daemon: Daemon;
  readonly #controller = new AbortController();
  readonly #names: ObjectNames;
  #savedAt: number;
  /** Messages at the last snapshot that was made here, or when the archive was opened. */
  #messagesThen: number;
  #upkeeping: Promise<void> = Promise.resolve();

  private constructor(
    private readonly keeping: Keeping,
    readonly held: HeldArchive,
    private readonly stored: StoredArchive,
    private readonly opened: OpenedArchive,
    private readonly passes: Passes,
    onFailed: (error: unknown) => void,
  ) {
    const { clock, log, politeness } = keeping;
    const { writer } = opened;
    this.#names = namesOf(keeping, stored);
    this.#savedAt = clock.monotonic();
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
      begun: (name, at) => noteBegun(writer.state, name, at),
      chores: { verify: () => Promise.resolve(), prune: () => Promise.resolve() },
      observer: log.observer,
      random: Math.random,
      onFatal: onFailed,
    });
  }

  /**
   * Opens an archive that was claimed in a folder of this node, and begins to keep it fresh.
   *
   * @param onFailed told once why it cannot go on: the caller closes it
   * @throws config-invalid for settings that this program does not understand; fleet-key-unknown, fleet-secret-damaged; as
   *   `openHeld`
   */
  static async open(
    keeping: Keeping,
    held: HeldArchive,
    dir: string,
    onFailed: (error: unknown) => void,
    signal: AbortSignal,
  ): Promise<KeptArchive> {
    const { objects, settings, env, clock, log, extractors, patience, report } = keeping;
    const { registry, lease } = held;
    const stored = await readArchive(registry, lease.archive);
    if (stored === undefined) throw logFenced(null, 'refused');
    const account = storedAccount(stored.name, stored.settings, await secretsOf(keeping, held));
    const opened = await openHeld({
      ...{ held, objects, names: namesOf(keeping, stored), dir, patience, signal, report },
      ...{ codec: settings.archive.codec, now: clock.now },
      onUnusable: (what, error) => log.fail('error', `the ${what} could not be used`, error),
    });
    const passes = new Passes({
      writer: opened.writer,
      env,
      // A rewrite of what is sealed would upload it again.
      settings: {
        ...settings,
        accounts: [account],
        archive: { ...settings.archive, compact: false },
      },
      extractors,
      clock,
      onRequest: (_, request) => log.request(request),
      onWait: log.wait,
      onSealed: (_, damaged) => {
        for (const error of damaged) log.fail('error', 'a segment is damaged', error);
      },
      onTidied: () => {},
    });
    const kept = new KeptArchive(keeping, held, stored, opened, passes, onFailed);
    kept.#daemon.start();
    return kept;
  }

  get name(): string {
    return this.stored.name;
  }

  /** Does what is due to keep the registry small and takeovers fast. What fails is logged, and due again. */
  async upkeep(upkeep: Upkeep): Promise<void> {
    const { log } = this.keeping;
    this.#upkeeping = this.#upkeep(upkeep).catch((error: unknown) => {
      if (!(error instanceof MailkeepError)) throw error;
      if (!this.#controller.signal.aborted) log.fail('error', 'upkeep failed', error);
    });
    await this.#upkeeping;
  }

  /** Ends passes at the next safe point and closes the archive; what was committed stays. The lease is not given back. */
  async close(): Promise<void> {
    this.#controller.abort();
    await this.#daemon.stop();
    await this.#upkeeping;
    await this.passes.close();
    try {
      if (this.held.lostBy === undefined) await storeMemory(this.held, this.opened.writer);
    } catch (error) {
      // The next holder learns it again.
      if (!(error instanceof MailkeepError)) throw error;
    } finally {
      await this.opened.writer.close();
    }
  }

  async #upkeep({ tailBytes, tailAgeMs, tailSegment, ...snapshot }: Upkeep): Promise<void> {
    const { held } = this;
    const { writer, purges } = this.opened;
    const commits = held.head.headNumber - (snapshot.snapshotNumber ?? 0);
    const added = writer.catalog.totals().messages - this.#messagesThen;
    const due = dueFor({
      ...{ tailBytes, tailAgeMs, tailSegment },
      // A commit of new mail has one message or more.
      snapshot: { ageMs: snapshot.snapshotAgeMs, commits, messages: Math.max(commits, added) },
    });
    for (const act of due) {
      if (act.do === 'chunk') await this.#chunk(act.segment);
      else await this.#snapshot();
    }
    await purges.finish();
    const now = this.keeping.clock.monotonic();
    if (now - this.#savedAt < MEMORY_MS) return;
    this.#savedAt = now;
    await storeMemory(held, writer);
  }

  async #chunk(segment: number): Promise<void> {
    const content = await makeChunk(this.held, segment);
    // What was purged waits for its segment to be sealed.
    if (content === undefined) return;
    await storeChunk(this.held, content, chunkUpload(this.#uploading, this.#names));
  }

  async #snapshot(): Promise<void> {
    const { dataDir: dir, catalog } = this.opened.writer;
    const { messages } = catalog.totals();
    const { logId } = this.stored;
    await storeSnapshot(this.#uploading, { dir, logId, catalog, names: this.#names });
    this.#messagesThen = messages;
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
  return new Map(secrets.map((secret) => [secret.purpose, openSecret(known, fleet, secret)]));
}
