import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { freeBytes } from '../archive/file-system.ts';
import { logFolder, parseJson } from '../archive/format.ts';
import { directoryBytes } from '../catalog/disk-samples.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import type { UploadingStore } from '../copies/object-store.ts';
import type { Semaphore } from '../core/concurrency.ts';
import type { Settings } from '../core/config-schema.ts';
import { describeError, errnoOf, MailkeepError } from '../core/errors.ts';
import type { MessageId } from '../core/types.ts';
import { askMetrics, askStatus } from '../daemon/control.ts';
import { findControlSocket } from '../daemon/control-path.ts';
import type { DaemonLog } from '../daemon/daemon-log.ts';
import type { DaemonClock } from '../daemon/ports.ts';
import { cronTimes } from '../daemon/schedule.ts';
import type { SegmentProver } from '../verify/check-segment.ts';
import {
  accountOfName,
  nameInShard,
  openSecrets,
  openWork,
  sealWork,
  shardConfig,
} from './account-settings.ts';
import { recordAccountErrors, secretsOf } from './accounts.ts';
import {
  type ClaimedShard,
  type DecidedPurge,
  release,
  reportFailure,
  reportRecovery,
} from './claims.ts';
import { fleetError } from './errors.ts';
import { carryOutPurges, encodeWork, findPrunable, mergeFolder, updateIndex } from './exclusive.ts';
import type { FleetKeys } from './keys.ts';
import { type ShardKeys, shardKeys } from './keys.ts';
import { committed, ShardLost } from './outcomes.ts';
import type { AccountRow, ShardRow } from './overview.ts';
import type { Registry } from './postgres.ts';
import { decidePurge, endPurges, merged, purgesSince } from './purges.ts';
import type { FleetRow } from './schema.ts';
import { catalogSize, Shipper } from './ship.ts';
import { SignIns } from './sign-ins.ts';
import { asideOf, lastCarriedOut, readNote, takeOver, writeNote } from './take-over.ts';
import { shardStore } from './uploads.ts';

/** Milliseconds. */
interface ShardTimes {
  /** Between two ships, if anything is new. */
  readonly shipMs: number;
  /** Between two looks at the size of the log and at the daemon. */
  readonly lookMs: number;
  /** Forgets of this time are carried out together, because the daemon stops meanwhile. */
  readonly gatherMs: number;
  /** Until something that failed is tried again, doubled up to `shipMs`. */
  readonly retryMs: number;
  /** How long a shard avoids a node where it failed. */
  readonly avoidMs: number;
  /** How long a daemon may take to end before it is killed. */
  readonly endMs: number;
}

export const SHARD_TIMES: ShardTimes = {
  ...{ shipMs: 60_000, lookMs: 5_000, gatherMs: 60_000, retryMs: 5_000 },
  ...{ avoidMs: 3_600_000, endMs: 15_000 },
};

/** Ships earlier once the log has grown by this. */
const SHIP_BYTES = 8 * 1024 * 1024;
/** A snapshot of the catalog is due when these and a tenth of the shard are new. */
const SNAPSHOT_MESSAGES = 2_000;
/** Ships that are refused one after the other until that is a failure. */
const MOST_AGAIN = 10;
/** Failures of one kind until others hear of them. */
const TRIES = 3;
/** About an hour of failures at most waits. */
const TELL_AGAIN = 60;
const MOST_PRUNED = 10_000;
const MAX_STDERR = 16 * 1024;
/** A web interface that nobody uses ends after this. */
const WEB_IDLE_MS = 900_000;

export interface ShardContext extends Pick<EngineContext, 'environment' | 'now' | 'words'> {
  readonly registry: Registry;
  readonly fleet: FleetRow;
  readonly node: string;
  readonly keys: () => FleetKeys;
  readonly store: UploadingStore;
  readonly prover: SegmentProver;
  /** Command that starts this program. */
  readonly program: readonly string[];
  /** Of the node. */
  readonly settings: Settings;
  /** Private folder in memory, for configurations with secrets. */
  readonly secretFolder: string;
  /** Folder with the shards of this node. */
  readonly cache: string;
  readonly clock: DaemonClock;
  readonly log: DaemonLog;
  readonly times: ShardTimes;
  /** Take-overs and merges at the same time. */
  readonly heavy: Semaphore;
}

/** `failed`: it was reported, and the registry has taken the shard away. */
export type ShardEnd = 'released' | 'lost' | 'failed';

/** Variables that a daemon gets. Those with secrets of the fleet stay with the worker. */
const KEPT = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'XDG_RUNTIME_DIR'];
const KEPT_OF_TLS = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'MAILKEEP_NETWORK_FILE_SYSTEM'];

/**
 * One shard that this worker holds: the folder, its daemon, and the shipping. Everything that needs the folder alone (forgets,
 * merges, pruning) runs between two runs of the daemon.
 */
export class HeldShard {
  readonly dir: string;
  readonly #keys: ShardKeys;
  readonly #store: UploadingStore;
  readonly #signIns: SignIns;
  readonly #gone = new AbortController();
  #purges: DecidedPurge[];
  #row: ShardRow | undefined;
  #accounts: readonly AccountRow[] = [];
  #shipper: Shipper | undefined;
  #child: Child | undefined;
  #web: { readonly socket: string; readonly child: Child } | undefined;
  /** When somebody last asked for the web interface. */
  #readAt = 0;
  #wake = Promise.withResolvers<void>();
  /** Aborted while the shard is to be given back. */
  #halt = new AbortController();
  #isChanged = true;
  /** When gathered forgets are carried out. */
  #exclusiveAt: number | undefined;
  #pruneAt: number | null;
  #again = 0;
  #failures = 0;
  #failedAt = Number.NEGATIVE_INFINITY;
  #failure: { readonly code: string; readonly since: string } | null = null;
  /** When the bucket last had everything, or the shard was claimed. */
  #shippedAt: number;
  /** Purges up to this number have ended. */
  #ended: number;
  #known = new Map<number, string | null>();
  #messagesAtSnapshot: number | undefined;
  #isOpen = false;
  /** Accounts that the daemon does not have, with the code of the error. */
  #refused: ReadonlyMap<number, string> = new Map();

  constructor(
    private readonly context: ShardContext,
    readonly claimed: ClaimedShard,
  ) {
    const { cache, keys, fleet, settings, now, clock } = context;
    const { shard } = claimed.lease;
    this.#shippedAt = clock.monotonic();
    this.dir = path.join(cache, String(shard));
    this.#keys = shardKeys(keys(), fleet.id, shard, fleet.bucket);
    this.#store = shardStore(context.store, shard);
    this.#signIns = new SignIns(context, claimed.lease);
    this.#purges = [...claimed.purges];
    this.#ended = claimed.ended;
    const { prune, timezone } = settings.schedule;
    this.#pruneAt = prune === null ? null : cronTimes(prune, timezone).next(now());
  }

  get epoch(): number {
    return this.claimed.lease.epoch;
  }

  /** Returns the name of an account in the configuration of the daemon. */
  nameOf({ account }: Pick<AccountRow, 'account'>): string {
    return nameInShard(account);
  }

  /**
   * Returns the path of the Unix socket at which the web interface of the folder answers. It is started if needed, and ends
   * when nobody has asked for a while.
   *
   * @throws shard-daemon-ended if it cannot start
   */
  async socket(): Promise<string> {
    this.#gone.signal.throwIfAborted();
    this.#readAt = this.context.clock.monotonic();
    if (this.#web?.child.hasEnded !== false) {
      const socket = path.join(this.context.secretFolder, `${this.claimed.lease.shard}.sock`);
      rmSync(socket, { force: true });
      const child = this.#start(['web', '--json', '--data', this.dir, '--relayed', socket], true);
      this.#web = { socket, child };
    }
    const { socket, child } = this.#web;
    await child.started;
    child.throwIfEnded();
    return socket;
  }

  /** For health and metrics. */
  get status() {
    const isRunning = this.#child !== undefined && !this.#child.hasEnded;
    const shippedAgeMs = this.context.clock.monotonic() - this.#shippedAt;
    return { isOpen: this.#isOpen, isRunning, failure: this.#failure, shippedAgeMs };
  }

  /** Returns metrics of the daemon, or null if none answers. */
  async metrics(): Promise<unknown> {
    const socket = this.#child === undefined ? null : findControlSocket(this.dir);
    return socket === null ? null : askMetrics(socket);
  }

  /** Takes over the rows that concern this shard. */
  notice(row: ShardRow, accounts: readonly AccountRow[] | undefined): void {
    this.#row = row;
    if (accounts !== undefined && JSON.stringify(accounts) !== JSON.stringify(this.#accounts)) {
      this.#accounts = accounts;
      this.#isChanged = true;
    }
    this.#call();
  }

  /** Ships what is new, gives the shard back, and ends. */
  stop(): void {
    this.#halt.abort();
    this.#call();
  }

  /** Continues after `stop`, if there is still time. */
  resume(): void {
    if (!this.#isStopping) return;
    this.#halt = new AbortController();
    this.#call();
  }

  get #isStopping(): boolean {
    return this.#halt.signal.aborted;
  }

  /** Ends without touching anything that others see: the session is dead, or the process ends. */
  abandon(): void {
    this.#gone.abort(new ShardLost('session'));
    this.#call();
  }

  /** Works until the shard is stopped, lost or taken away. */
  async run(): Promise<ShardEnd> {
    const { log } = this.context;
    const { shard, epoch } = this.claimed.lease;
    const { signal } = this.#gone;
    try {
      for (;;) {
        try {
          signal.throwIfAborted();
          if (await this.#next()) return 'released';
        } catch (error) {
          if (signal.aborted || error instanceof ShardLost) throw error;
          const { isReleased, waitMs } = await this.#failed(error);
          if (isReleased) return 'failed';
          await this.#pause(waitMs, this.#wake.promise);
        }
      }
    } catch (error) {
      if (error instanceof ShardTaken) return 'failed';
      if (!signal.aborted && !(error instanceof ShardLost)) throw error;
      log.say('warn', 'shard lost', { shard, epoch });
      return 'lost';
    } finally {
      await this.#stopDaemon();
      await this.#stopWeb();
      await this.#signIns.close();
      rmSync(this.#configFile, { force: true });
    }
  }

  /** Returns true once the shard has been released. */
  async #next(): Promise<boolean> {
    const { heavy } = this.context;
    const { signal } = this.#gone;
    if (!this.#isOpen && !(await this.#isOpened())) {
      await this.#release();
      return true;
    }
    if (this.#isStopping) return await this.#giveBack();
    if (this.#needsFolder()) {
      await this.#stopDaemon();
      await heavy.run(() => this.#exclusive(), signal);
    }
    await this.#work();
    return false;
  }

  /** Opens the shard. Returns false if it is to be given back first: it may wait for its turn, or for the bucket, for long. */
  async #isOpened(): Promise<boolean> {
    const halt = this.#halt.signal;
    const either = AbortSignal.any([this.#gone.signal, halt]);
    try {
      await this.context.heavy.run(() => this.#open(either), either);
      return true;
    } catch (error) {
      if (!halt.aborted || this.#gone.signal.aborted) throw error;
      return false;
    }
  }

  async #open(signal: AbortSignal): Promise<void> {
    const { context, claimed, dir } = this;
    const { registry, fleet, prover, node, now, log } = context;
    const store = this.#store;
    const { lease } = claimed;
    const keys = this.#keys;
    const taken = await takeOver({ claimed, fleet: fleet.id, dir, store, keys, prover, signal });
    const { from, shipped, aside } = taken;
    log.say('info', 'shard taken over', { shard: lease.shard, from, aside: aside.length });
    this.#shipper = new Shipper({
      ...{ registry, lease, store, dir, keys, node, prover, now, shipped },
      done: () => readNote(dir)?.done ?? 0,
      purges: () => this.#decided,
      onShipped: async ({ clear }) => {
        const note = readNote(dir);
        if (note === undefined) return;
        await writeNote(dir, { ...note, manifest: clear.name, commit: clear.commit });
      },
    });
    const missing = await this.#shipper.findMissing(signal);
    if (missing > 0)
      log.say('error', 'the bucket has lost objects', { shard: lease.shard, missing });
    // It was compared, after a recovery.
    if (aside.length === 0) await merged(registry, lease, {});
    this.#isOpen = true;
  }

  /** Number of purges that have been decided. */
  get #decided(): number {
    return Math.max(this.claimed.ended, ...this.#purges.map(({ number }) => number));
  }

  /** Decides to prune messages. */
  async #decidePrune(messages: MessageId[]): Promise<void> {
    const { registry, keys, fleet } = this.context;
    const { lease } = this.claimed;
    const work = sealWork(keys(), fleet.id, lease.shard, encodeWork({ messages }));
    const purge = { reason: 'pruned', work, askedBy: 'retention' } as const;
    committed(await decidePurge(registry, lease, purge));
    await this.#readPurges();
  }

  /** Also finds those whose answer was lost. */
  async #readPurges(): Promise<void> {
    const { registry } = this.context;
    const known = this.#decided;
    const fresh = await purgesSince(registry, this.claimed.lease.shard, known);
    this.#purges.push(...fresh.filter(({ number }) => number > this.#decided));
  }

  /** Whether something is due that only one process may do in the folder. */
  #needsFolder(): boolean {
    const { clock, now } = this.context;
    if (this.#exclusiveAt !== undefined && clock.monotonic() < this.#exclusiveAt) return false;
    const isPruneDue = this.#pruneAt !== null && now() >= this.#pruneAt;
    const isPurgeDue = this.#decided > (readNote(this.dir)?.done ?? 0);
    return isPruneDue || isPurgeDue || asideOf(this.dir).length > 0;
  }

  /** What the writer of the folder needs, while the daemon does not run. */
  get #writing() {
    const { environment, now, words } = this.context;
    return {
      ...{ environment, now, words, signal: this.#gone.signal },
      globals: { config: this.#configFile, data: this.dir },
      report: () => undefined,
    };
  }

  /** Prunes, and carries out purges and merges. The daemon does not run. */
  async #exclusive(): Promise<void> {
    const { context, dir } = this;
    const { registry, settings, now, log } = context;
    const { lease } = this.claimed;
    const { shard } = lease;
    const exclusive = this.#writing;
    const unseal = (work: Buffer) => openWork(context.keys(), context.fleet.id, shard, work);
    this.#exclusiveAt = undefined;
    const { retention } = settings;
    if (this.#pruneAt !== null && now() >= this.#pruneAt) {
      const { prune, timezone } = settings.schedule;
      this.#pruneAt = prune === null ? null : cronTimes(prune, timezone).next(now());
      const messages = [...(await findPrunable(exclusive, dir, retention))];
      while (messages.length > 0) await this.#decidePrune(messages.splice(0, MOST_PRUNED));
    }
    if (this.#decided > (readNote(dir)?.done ?? 0)) {
      const done = await carryOutPurges(exclusive, dir, this.#purges, unseal, retention);
      log.say('info', 'purges carried out', { shard, done });
    }
    for (const aside of asideOf(dir)) {
      const purges = await this.#purgesSince(aside);
      const folders = { dir, aside, generation: -lease.epoch };
      const result = await mergeFolder(exclusive, folders, purges, unseal);
      rmSync(aside, { recursive: true });
      log.say('info', 'a folder that ran ahead was merged', { shard, ...result });
      if (asideOf(dir).length > 0) continue;
      // Refused if nobody had recorded that it ran ahead.
      const { outcome } = await merged(registry, lease, result);
      log.say('debug', 'merge recorded', { shard, outcome });
    }
  }

  /** Purges that were not carried out in a folder that was set aside. */
  async #purgesSince(aside: string): Promise<readonly DecidedPurge[]> {
    const { registry } = this.context;
    const { shard } = this.claimed.lease;
    const note = readNote(aside);
    if (note === undefined) return purgesSince(registry, shard, 0);
    const purges = await purgesSince(registry, shard, note.done - 1);
    if (note.last === '' || lastCarriedOut(note, purges) !== undefined) {
      return purges.filter(({ number }) => number > note.done);
    }
    // The registry has lost that purge, and perhaps others before it.
    return purgesSince(registry, shard, 0);
  }

  /** Lets the daemon run, and ships, until the folder is needed alone or the shard is to be given back. */
  async #work(): Promise<void> {
    const { times, clock } = this.context;
    let shipAt = Number.NEGATIVE_INFINITY;
    let size = logSize(this.dir);
    for (;;) {
      const wake = this.#wake.promise;
      this.#gone.signal.throwIfAborted();
      if ((this.#row?.purges ?? 0) > this.#decided) {
        await this.#readPurges();
        this.#exclusiveAt ??= clock.monotonic() + times.gatherMs;
      }
      if (this.#isStopping || this.#needsFolder()) return;
      await this.#configure();
      this.#signIns.look(this.#gone.signal);
      this.#child?.throwIfEnded();
      if (clock.monotonic() - this.#readAt > WEB_IDLE_MS) await this.#stopWeb();
      if (clock.monotonic() >= shipAt || logSize(this.dir) - size >= SHIP_BYTES) {
        size = logSize(this.dir);
        shipAt = clock.monotonic() + (await this.#shipAndReport());
      }
      await this.#pause(times.lookMs, wake);
    }
  }

  /** Ships, and returns after how many milliseconds to do it again. A failure does not stop the daemon. */
  async #shipAndReport(): Promise<number> {
    const { shipMs, lookMs } = this.context.times;
    try {
      await this.#requireSpace();
      const result = await this.#ship();
      await this.#report();
      return result === 'again' ? lookMs : shipMs;
    } catch (error) {
      if (this.#gone.signal.aborted || error instanceof ShardLost) throw error;
      const { isReleased, waitMs } = await this.#failed(error);
      if (isReleased) throw new ShardTaken();
      return waitMs;
    }
  }

  #pause(ms: number, wake: Promise<void>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.context.clock.after(ms, resolve);
    return Promise.race([promise, wake]).finally(cancel);
  }

  async #ship(): Promise<'shipped' | 'nothing' | 'again'> {
    const { registry, clock } = this.context;
    const { lease } = this.claimed;
    const shipper = this.#shipper;
    if (shipper === undefined) throw new Error('the shard is not open');
    const from = clock.monotonic();
    const { messages } = catalogSize(this.dir);
    this.#messagesAtSnapshot ??=
      shipper.current?.secret.fleet?.snapshot === undefined ? 0 : messages;
    const fresh = messages - this.#messagesAtSnapshot;
    const isDue = fresh >= Math.max(SNAPSHOT_MESSAGES, messages / 10);
    const result = shipper.isBehind() ? await shipper.ship(this.#gone.signal, isDue) : 'nothing';
    this.#again = result === 'again' ? this.#again + 1 : 0;
    if (this.#again >= MOST_AGAIN) {
      this.#again = 0;
      throw fleetError('shard-not-shipped', { shard: lease.shard, tries: MOST_AGAIN });
    }
    if (result !== 'again') this.#shippedAt = from;
    if (result === 'shipped' && isDue) this.#messagesAtSnapshot = messages;
    if (result !== 'again' && this.#decided > this.#ended) {
      const hasAside = asideOf(this.dir).length > 0;
      const { ended } = committed(await endPurges(registry, lease, hasAside));
      this.#ended = Math.max(this.#ended, ...ended);
    }
    return result;
  }

  /** Tells the registry how the accounts and the shard are. */
  async #report(): Promise<void> {
    const { registry, clock, times, log } = this.context;
    const { lease } = this.claimed;
    if (clock.monotonic() - this.#failedAt >= times.shipMs) {
      if (this.#failure !== null) log.say('info', 'shard works again', { shard: lease.shard });
      this.#failures = 0;
      this.#failure = null;
      if (this.#row?.failing != null) await reportRecovery(registry, lease);
    }
    const socket = this.#child === undefined ? null : findControlSocket(this.dir);
    const status = socket === null ? null : await askStatus(socket);
    const errors = new Map<number, string | null>(this.#refused);
    for (const { name, state, code } of status?.accounts ?? []) {
      errors.set(accountOfName(name), state === 'ok' ? null : code);
      if (state === 'refused') this.#signIns.refused(accountOfName(name));
    }
    for (const [account, code] of this.#signIns.failures) errors.set(account, code);
    const changed = [...errors].filter(([account, code]) => this.#known.get(account) !== code);
    if (changed.length === 0) return;
    await recordAccountErrors(registry, lease, new Map(changed));
    this.#known = new Map([...this.#known, ...changed]);
  }

  /** Starts the daemon, or lets it reload its configuration, if the accounts have changed. */
  async #configure(): Promise<void> {
    if (!this.#isChanged) return;
    const { context, dir } = this;
    const { registry, keys, fleet, settings, log } = context;
    const { shard } = this.claimed.lease;
    this.#isChanged = false;
    try {
      const active = this.#accounts.filter(({ state }) => state === 'active');
      const sealed = await secretsOf(
        registry,
        active.map(({ account }) => account),
      );
      const secretsIn = (account: number) => {
        const own = sealed.filter((secret) => secret.account === account);
        return openSecrets(keys(), fleet.id, account, own);
      };
      const tokens = this.#signIns.folder;
      const { config, refused, signIns } = shardConfig(settings, dir, active, secretsIn, tokens);
      this.#signIns.take(signIns);
      const { length } = config.accounts;
      if (length === 0) return await this.#doWithoutDaemon();
      writeFileSync(this.#configFile, JSON.stringify(config), { mode: 0o600 });
      if (this.#child !== undefined) this.#child.reload();
      else {
        this.#child = this.#start([
          'daemon',
          '--json',
          '--data',
          dir,
          '--config',
          this.#configFile,
        ]);
        log.say('info', 'daemon started', { shard, pid: this.#child.pid, accounts: length });
      }
      this.#refused = refused;
    } catch (error) {
      this.#isChanged = true;
      throw error;
    }
  }

  /** Readers see all that the shard has, although nothing is mirrored. */
  async #doWithoutDaemon(): Promise<void> {
    // Accounts that change meanwhile are seen afterwards.
    await this.#endDaemon();
    const { heavy, log } = this.context;
    await heavy.run(() => updateIndex(this.#writing, this.dir), this.#gone.signal);
    log.say('info', 'index updated', { shard: this.claimed.lease.shard });
  }

  get #configFile(): string {
    return path.join(this.context.secretFolder, `${this.claimed.lease.shard}.json`);
  }

  #start(args: readonly string[], hasOutput = false): Child {
    const { program, environment } = this.context;
    const kept = [...KEPT, ...KEPT_OF_TLS].map((name) => [name, environment.env[name]]);
    const { shard } = this.claimed.lease;
    const line = [...program, ...args];
    return new Child(shard, line, Object.fromEntries(kept), hasOutput, () => this.#call());
  }

  async #stopWeb(): Promise<void> {
    const { clock, times } = this.context;
    const web = this.#web;
    this.#web = undefined;
    await web?.child.stop(clock, times.endMs);
  }

  /** So that the daemon starts again later. */
  async #stopDaemon(): Promise<void> {
    this.#isChanged = true;
    await this.#endDaemon();
  }

  async #endDaemon(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    await child?.stop(this.context.clock, this.context.times.endMs);
  }

  /** A disk without space takes no mail, so the shard is better off elsewhere. */
  async #requireSpace(): Promise<void> {
    const { minFreeBytes: needed } = this.context.settings;
    const free = await freeBytes(this.dir);
    if (free < needed) throw fleetError('fleet-disk-short', { folder: this.dir, free, needed });
  }

  /** Returns false if the shard is to be kept after all. */
  async #giveBack(): Promise<boolean> {
    const { times } = this.context;
    // Most of it while the daemon still runs.
    await this.#ship();
    await this.#stopDaemon();
    for (;;) {
      if (!this.#isStopping) return false;
      const wake = this.#wake.promise;
      const result = await this.#ship();
      if (result === 'nothing' || this.#shipper?.isBehind() === false) break;
      if (result === 'again') await this.#pause(times.lookMs, wake);
    }
    await this.#release();
    return true;
  }

  async #release(): Promise<void> {
    const { registry, log } = this.context;
    const { lease } = this.claimed;
    committed(await release(registry, lease));
    log.say('info', 'shard released', { shard: lease.shard });
  }

  /** Counts a failure. What keeps failing here is reported, so that another node can try. */
  async #failed(error: unknown): Promise<{ isReleased: boolean; waitMs: number }> {
    const { registry, log, times, clock, now } = this.context;
    const { lease } = this.claimed;
    this.#failures += 1;
    this.#failedAt = clock.monotonic();
    const code = localCode(error, this.#isOpen);
    const { since = new Date(now()).toISOString() } = this.#failure ?? {};
    this.#failure = { code: code ?? describeError(error).code, since };
    log.fail('error', `shard ${lease.shard} failed`, error);
    // The next try starts it again.
    if (this.#child?.hasEnded === true) await this.#stopDaemon();
    const isDue = this.#failures === TRIES || this.#failures % TELL_AGAIN === 0;
    if (code !== undefined && isDue) {
      await this.#stopDaemon();
      if (this.#isOpen) await this.#tried('the last ship failed', () => this.#ship());
      const isBrief = code === 'archive-in-use' || isOfStore(code);
      const avoidMs = isBrief ? times.shipMs : times.avoidMs;
      const reported = await this.#tried('a failure could not be reported', async () =>
        committed(await reportFailure(registry, lease, code, avoidMs)),
      );
      if (reported !== undefined) {
        const { isReleased } = reported;
        log.say('warn', 'shard fails here', { shard: lease.shard, code, released: isReleased });
        if (isReleased) return { isReleased, waitMs: 0 };
      }
    }
    const { retryMs, shipMs } = times;
    const waitMs = Math.min(shipMs, retryMs * 2 ** Math.min(this.#failures - 1, 10));
    return { isReleased: false, waitMs };
  }

  /** Returns undefined if it fails. @throws ShardLost */
  async #tried<T>(text: string, act: () => Promise<T>): Promise<T | undefined> {
    try {
      return await act();
    } catch (error) {
      if (error instanceof ShardLost) throw error;
      this.context.log.fail('error', text, error);
      return undefined;
    }
  }

  #call(): void {
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }
}

/** The registry has taken the shard away, after a failure was reported. */
class ShardTaken extends Error {}

/** System errors of a machine, not of what it works on. */
const OF_MACHINE = ['ENOSPC', 'EDQUOT', 'EMFILE', 'ENFILE', 'ENOMEM', 'EIO', 'EROFS', 'EACCES'];
const LOCAL_CODES = ['fleet-key-unknown', 'fleet-secret-damaged', 'thread-ended'];

const isOfStore = (code: string): boolean => code.startsWith('store-');

/**
 * Returns the code of an error that another node may not have; undefined for those of servers that all share. A shard that
 * cannot be opened loses nothing elsewhere: perhaps only this node does not reach the bucket.
 */
function localCode(error: unknown, isOpen: boolean): string | undefined {
  if (error instanceof MailkeepError) {
    const { family, code } = error;
    if (isOfStore(code)) return isOpen ? undefined : code;
    if (code.startsWith('registry-')) return undefined;
    const isLocal = ['disk', 'damage', 'in-use'].includes(family) || LOCAL_CODES.includes(code);
    return isLocal ? code : undefined;
  }
  const errno = errnoOf(error);
  if (errno === undefined) return 'internal-error';
  return OF_MACHINE.includes(errno) ? errno : undefined;
}

/** In bytes, of all segments. */
function logSize(dir: string): number {
  const folder = logFolder(dir);
  return existsSync(folder) ? directoryBytes(folder) : 0;
}

/** One of our programs. It ends by itself when this process does, because its channel closes. */
class Child {
  readonly #process: ChildProcess;
  readonly #ended: Promise<void>;
  /** Resolves once it has printed something, or has ended. */
  readonly started: Promise<void>;
  #stderr = '';
  #error: unknown;
  hasEnded = false;

  /** @param hasOutput its output is for this process; otherwise it goes where the output of this process goes */
  constructor(
    private readonly shard: number,
    [command = '', ...args]: readonly string[],
    env: NodeJS.ProcessEnv,
    hasOutput: boolean,
    onEnd: () => void,
  ) {
    const stdout = hasOutput ? 'pipe' : 'inherit';
    this.#process = spawn(command, args, {
      cwd: '/',
      env,
      stdio: ['ignore', stdout, 'pipe', 'ipc'],
    });
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    this.started = started;
    this.#process.stdout?.once('data', start).resume();
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-MAX_STDERR);
    });
    this.#ended = new Promise((resolve) => {
      const ended = (): void => {
        this.hasEnded = true;
        resolve();
        start();
        onEnd();
      };
      this.#process.once('close', ended);
      this.#process.once('error', (error) => {
        this.#error = error;
        if (this.#process.pid === undefined) ended();
      });
    });
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  reload(): void {
    this.#process.kill('SIGHUP');
  }

  /** @throws its own error, or shard-daemon-ended */
  throwIfEnded(): void {
    if (!this.hasEnded) return;
    if (this.#error !== undefined) throw this.#error;
    const { exitCode, signalCode } = this.#process;
    const last = this.#stderr.trim().split('\n').at(-1) ?? '';
    const said: unknown = Object(parseJson(last)).error;
    const code = String(Object(said).code ?? exitCode ?? signalCode);
    throw fleetError('shard-daemon-ended', { shard: this.shard, code });
  }

  async stop(clock: DaemonClock, endMs: number): Promise<void> {
    if (this.hasEnded) return;
    this.#process.kill('SIGTERM');
    const cancel = clock.after(endMs, () => this.#process.kill('SIGKILL'));
    await this.#ended;
    cancel();
  }
}
