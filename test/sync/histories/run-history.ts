import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import { openLogReader, scanLog } from '../../../src/archive/log-reader.ts';
import { openLogWriter } from '../../../src/archive/log-writer.ts';
import { openCatalog, type WritableCatalog } from '../../../src/catalog/catalog.ts';
import { syncExitCode } from '../../../src/cli/warnings.ts';
import { EXIT, MailkeepError } from '../../../src/core/errors.ts';
import { countAccountedFor } from '../../../src/core/types.ts';
import { catalogMirror } from '../../../src/sync/mirror.ts';
import { findGaps } from '../../../src/sync/plan/plan-folder.ts';
import type { SyncResult } from '../../../src/sync/result.ts';
import { recallCoverage } from '../../../src/sync/sync-memory.ts';
import { Killed, SimulatedDisk } from '../../archive/simulated-disk.ts';
import { threadOn } from '../../archive/thread-link.ts';
import { FakeClock, memoryOf, syncModel } from '../harness.ts';
import { ModelOrigin, status } from '../model-origin.ts';
import { type Act, Actor, type History, type PassPlan } from './history.ts';

const HOUR = 3_600_000;
const BESIDE_A_DAEMON = {
  rhythm: { mailboxesMs: HOUR, folderMs: HOUR },
  // One sweep for the whole of a history: what it has read once it need not read again.
  sweptSince: 1,
  verifyPerHour: 1_000,
};
/** Passes at rest after a history: a folder goes when two listings agree, and one more for what that uncovers. */
const RESTING_PASSES = 3;

const MAILBOX = { host: 'mail.example.org', mailbox: 'AC1' };
const REST: PassPlan = {
  full: false,
  daemon: false,
  acts: [],
  faults: [],
  powerCut: null,
  hoursLater: 0,
  again: 0,
};

interface Snapshot {
  readonly time: number;
  readonly lines: readonly string[];
}

/**
 * Runs a history against a real catalog and a log on a simulated disk, and checks what must hold: after passes at
 * rest the mirror equals the origin, bytes included; what was listed at a moment is listed as of it for ever;
 * nothing that was committed under a uid is fetched again under it, and with stable ids nothing that the archive has
 * is fetched at all, but drafts, or to verify it; and a pass during which nothing changed and
 * nothing failed is complete, has covered every uid, and ends with 0.
 *
 * @param catalogDir a new folder for the catalog
 */
export async function runHistory(script: History, catalogDir: string): Promise<void> {
  const world = new World(catalogDir, script);
  for (const { between, pass } of script.steps) {
    for (const act of between) world.act(act);
    await world.pass(pass);
    for (let i = 0; i < pass.again; i += 1) {
      world.clock.advance(1000);
      await world.pass({ ...pass, acts: [], faults: [], powerCut: null });
    }
    world.clock.advance(pass.hoursLater * HOUR + 1000);
  }
  const rest = { ...REST, full: true };
  for (let i = 0; i < RESTING_PASSES; i += 1) {
    await world.pass(rest, true);
    world.clock.advance(1000);
  }
  await world.expectMirrored();
  // An assumed place that a fault kept from being verified is tried again a day later.
  world.clock.advance(24 * HOUR);
  await world.pass({ ...REST, daemon: true });
  await world.expectMirrored();
  await world.expectNothingAssumed();
  await world.expectHistory();
}

class World {
  readonly clock = new FakeClock();
  readonly origin = new ModelOrigin();
  readonly actor: Actor;
  readonly #catalogDir: string;
  readonly #memory = memoryOf();
  readonly #snapshots: Snapshot[] = [];
  #disk = new SimulatedDisk();
  #passes = 0;
  /** Whether the last pass found everything, and nothing has happened since. */
  #isSettled = false;

  constructor(catalogDir: string, { host, start }: History) {
    this.#catalogDir = catalogDir;
    this.origin.searches = host !== 'no-search';
    if (host === 'imap-ids') this.origin.identify();
    if (host === 'imap-ids-of-headers') {
      this.origin.identify((raw) => /^Message-ID: .*$/m.exec(raw.toString('latin1'))?.[0] ?? '');
    }
    this.origin.heedsFlags = host !== 'flags-unheeded';
    if (host.startsWith('imap')) this.origin.speakImap({ condstore: host !== 'imap' });
    this.actor = new Actor(this.origin, start);
  }

  act(act: Act): void {
    this.#isSettled = false;
    this.actor.do(act);
  }

  /** One pass as planned; a power cut, an unreachable host or an interruption ends it early. */
  async pass(plan: PassPlan, acceptEndings = false): Promise<void> {
    const catalog = await openCatalog(this.#catalogDir);
    const disk = this.#disk;
    const acts = disk.acts;
    const { powerCut } = plan;
    const wasSettled = this.#isSettled;
    this.#isSettled = false;
    const sent = this.origin.requests.length;
    try {
      const log = await openLogWriter({
        dir: '/archive',
        now: this.clock.now,
        files: disk.files,
        expected: catalog.reached(),
        // Every other pass writes with the code of the log thread.
        ...(this.#passes % 2 === 1 && { startThread: () => threadOn(disk.files), threadFrom: 0 }),
      });
      this.#passes += 1;
      const after = catalog.reached();
      for await (const event of scanLog({ dir: '/archive', files: disk.files, after })) {
        if (event.what === 'damage') throw new Error(`damage: ${JSON.stringify(event.damage)}`);
        if (event.what === 'batch') catalog.foldBatch(event.batch);
      }
      if (powerCut !== null) {
        disk.fault = (_act, _path, count) => {
          if (count - acts >= powerCut) throw new Killed();
          return undefined;
        };
      }
      const disturbed = this.#disturb(plan, catalog);
      try {
        const writer = { log, catalog, dataDir: this.#catalogDir, state: this.#memory };
        const result = await syncModel(writer, this.origin, this.clock, {
          concurrency: 2,
          policy: {
            ...(plan.daemon && BESIDE_A_DAEMON),
            full: plan.full,
            acceptEndings,
            brake: { maxEndedShare: 0.3, minMessages: 5 },
          },
        });
        await log.close();
        // After a kill the log may hold a commit that the catalog has yet to fold: its list is not the archive's.
        const lines = [...catalog.list({})].map((line) => JSON.stringify(line));
        this.#snapshots.push({ time: catalog.reached().time, lines });
        if (disturbed()) return;
        this.#expectAtRest(result, catalog);
        if (wasSettled && !plan.full && !plan.daemon) this.#expectQuiet(sent);
        this.#isSettled = syncExitCode(result) === EXIT.done;
      } finally {
        this.origin.before = () => {};
        this.origin.after = () => {};
      }
    } catch (error) {
      if (!(error instanceof Killed) && !isDiskError(error)) throw error;
      this.#disk = disk.afterPowerCut(() => this.clock.time % 3 === 0);
    } finally {
      disk.fault = () => undefined;
      catalog.close();
    }
  }

  async expectMirrored(): Promise<void> {
    const catalog = await openCatalog(this.#catalogDir);
    const reader = openLogReader({
      dir: '/archive',
      files: this.#disk.files,
      locator: catalog.locator,
    });
    const mirrored = new Map(
      [...catalog.list({})].map((line) => {
        const bytes = line.id === null ? 'quarantined' : hash(reader.readMessage(line.id));
        return [`${line.folder}/${line.uid}`, [bytes, ...line.flags]];
      }),
    );
    const there = new Map(
      [...this.actor.folders.values()].flatMap((folder) =>
        [...folder.messages.values()].map((message) => [
          `${folder.path}/${message.uid}`,
          [hash(message.raw), ...[...new Set(message.flags)].sort()],
        ]),
      ),
    );
    reader.close();
    catalog.close();
    expect(mirrored).toEqual(there);
  }

  async expectNothingAssumed(): Promise<void> {
    const catalog = await openCatalog(this.#catalogDir);
    const assumed = assumedPlaces(catalog);
    catalog.close();
    expect(assumed).toEqual(new Set());
  }

  async expectHistory(): Promise<void> {
    const catalog = await openCatalog(this.#catalogDir);
    for (const { time, lines } of this.#snapshots) {
      const asOf = [...catalog.list({ asOf: time })].map((line) =>
        JSON.stringify({ ...line, endedAt: null }),
      );
      expect(asOf).toEqual(lines);
    }
    catalog.close();
  }

  /** Only what the brake holds may keep a folder from being complete, or the code from being 0. */
  #expectAtRest(result: SyncResult, catalog: WritableCatalog): void {
    expect(result.failures).toEqual([]);
    const mirror = catalogMirror(catalog);
    for (const certificate of result.certificates) {
      const { folder, held } = certificate;
      if (held === 0) expect(certificate).toMatchObject({ complete: true });
      const at = { ...MAILBOX, folder };
      const generation = mirror.folder(at)?.generation ?? 1;
      const top = Math.max(0, ...(this.actor.folders.get(folder)?.messages.keys() ?? []));
      const accounted = countAccountedFor(mirror.sumsOf(at));
      const covered = accounted === 0 ? [] : recallCoverage(this.#memory, at, generation);
      expect([folder, findGaps(covered, { lo: 1, hi: top })]).toEqual([folder, []]);
    }
    if (this.origin.changedSince !== undefined) this.#expectFlags(result, catalog);
    const holds = result.mailboxes.some(({ held }) => held > 0);
    expect(syncExitCode(result)).toBe(holds ? EXIT.held : EXIT.done);
  }

  /** A server that tells which flags have changed leaves none unknown, in older mail neither. */
  #expectFlags({ certificates }: SyncResult, catalog: WritableCatalog): void {
    const complete = new Set(
      certificates.filter((one) => one.complete).map(({ folder }) => folder),
    );
    const wrong = [...catalog.list({})].filter(({ folder, uid, flags }) => {
      const there = this.actor.folders.get(folder)?.messages.get(uid)?.flags ?? [];
      return complete.has(folder) && [...new Set(there)].sort().join() !== flags.join();
    });
    expect(wrong).toEqual([]);
  }

  /** One listing proves all folders if it shows every change. @param from the pass's first request */
  #expectQuiet(from: number): void {
    if (!this.origin.showsEveryChange) return;
    const sent = this.origin.requests.slice(from).map(({ operation }) => operation);
    expect(sent.filter((operation) => operation !== 'quota')).toEqual(['mailboxes', 'folders']);
  }

  /**
   * @param committed hash of the bytes of every open place that was fetched, by folder and uid
   * @returns tells whether something has changed or failed during the pass
   */
  #disturb(plan: PassPlan, catalog: WritableCatalog): () => boolean {
    const committed = committedPlaces(catalog);
    let disturbed = false;
    const from = this.origin.requests.length;
    this.origin.before = (request) => {
      if (request.operation === 'source') {
        const message = this.actor.folders.get(request.folder)?.messages.get(request.uid);
        const known = committed.get(`${request.folder}/${request.uid}`);
        // Bytes that were committed under this very uid are not asked for again. In a new generation there is a
        // reason to: copies that moved and were renumbered cannot be distinguished without their bytes.
        const same = message !== undefined && known !== undefined && hash(message.raw) === known;
        if (same && !this.actor.renumbered.has(request.folder)) {
          throw new Error(`fetched again: ${request.folder}/${request.uid}`);
        }
        const isVerified = assumedPlaces(catalog).has(`${request.folder}/${request.uid}`);
        const isDraft =
          message?.flags.includes('\\Draft') ||
          this.actor.folders.get(request.folder)?.specialUse === '\\Drafts';
        const mayBeKnown = this.origin.stableId !== undefined && !isDraft;
        if (message !== undefined && mayBeKnown && !isVerified) {
          if (catalog.messages.find(hash(message.raw)) !== undefined)
            throw new Error(`fetched though known: ${request.uid}`);
        }
      }
      const number = this.origin.requests.length - from - 1;
      const fault = plan.faults.find(({ at }) => at === number);
      if (fault === undefined) return;
      disturbed = true;
      if (fault.status !== 'unreachable') throw status(fault.status);
      throw new MailkeepError('origin', 'origin.unreachable', {});
    };
    this.origin.after = () => {
      const number = this.origin.requests.length - from - 1;
      for (const { act } of plan.acts.filter(({ at }) => at === number)) {
        disturbed = true;
        this.actor.do(act);
      }
    };
    return () => disturbed;
  }
}

function committedPlaces(catalog: WritableCatalog): Map<string, string> {
  const places = new Map<string, string>();
  const assumed = assumedPlaces(catalog);
  for (const { folder, uid, id } of catalog.list({})) {
    const name = `${folder}/${uid}`;
    if (id !== null && !assumed.has(name)) places.set(name, id);
  }
  return places;
}

/** Open places whose bytes were never fetched from there, as `folder/uid`. */
function assumedPlaces(catalog: WritableCatalog): Set<string> {
  const all = catalog.places.assumed(MAILBOX, Number.MAX_SAFE_INTEGER, 1_000_000);
  return new Set(all.map(({ folder, uid }) => `${folder}/${uid}`));
}

function isDiskError(error: unknown): boolean {
  return error instanceof MailkeepError && error.family === 'disk';
}

function hash(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
