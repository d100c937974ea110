import { createHash, randomUUID } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { freeBytes } from '../archive/file-system.ts';
import { FILE_MODE, FOLDER_MODE } from '../archive/format.ts';
import { acquireLock, tryLock } from '../archive/lock.ts';
import { readLogHead } from '../archive/log-reader.ts';
import { sleep } from '../core/concurrency.ts';
import { deserializeError, hasCode, MailkeepError } from '../core/errors.ts';
import { isPrivateFolder, makeFoldersDurably, syncFolder } from '../core/files.ts';
import { builtWorker, WorkerThread } from '../core/worker-thread.ts';
import { openSecrets } from './account-settings.ts';
import { secretSamples } from './accounts.ts';
import { claim, moveShard, release } from './claims.ts';
import { fleetError } from './errors.ts';
import { type CollectionTimes, collectRound } from './objects.ts';
import { CHANNEL } from './outcomes.ts';
import { type AccountRow, changesSince, type FleetRows } from './overview.ts';
import { plan } from './planner.ts';
import { type Listening, listen } from './postgres.ts';
import type { RegistryTarget } from './postgres-target.ts';
import { type FolderRow, nodeFolders, ranAhead, wiped } from './purges.ts';
import { distrustShards, type RecoverOptions, recoverFleet } from './recover.ts';
import { exportRegistry, registryMark } from './registry-export.ts';
import type { SessionReport, SessionThreadData } from './session-thread.ts';
import {
  beginSession,
  endSession,
  markDead,
  removeHistory,
  removeSessions,
  sharedClockMs,
} from './sessions.ts';
import { HeldShard, type ShardContext, type ShardEnd } from './shard.ts';
import { asideOf, readNote, removeUnfinished } from './take-over.ts';
import { shardStore } from './uploads.ts';

/** Milliseconds. */
interface WorkerTimes {
  readonly leaseMs: number;
  readonly renewMs: number;
  /** After this long without a word from the main thread, the session is left to die. */
  readonly silentMs: number;
  /** Between two looks at the registry. A notification makes it earlier. */
  readonly pollMs: number;
  /** Between two looks at all rows. */
  readonly refreshMs: number;
  /** Between two rounds of the collector, and looks at folders of shards that others hold. */
  readonly upkeepMs: number;
  /** How long a worker that ends may take to ship and release its shards. */
  readonly stopMs: number;
  /** Milliseconds after which no request of an earlier timeline of PostgreSQL is under way any more. */
  readonly recoverMs: number;
  readonly collection: CollectionTimes;
}

const DAY_MS = 86_400_000;

export const WORKER_TIMES: WorkerTimes = {
  ...{ leaseMs: 30_000, renewMs: 10_000, silentMs: 300_000, pollMs: 10_000 },
  ...{ refreshMs: 300_000, upkeepMs: 300_000, stopMs: 60_000, recoverMs: 120_000 },
  collection: { abandonedMs: DAY_MS, windowMs: 7 * DAY_MS, settleMs: 900_000 },
};

/** Dead sessions are kept this long for `status`. */
const KEEP_SESSIONS_MS = 30 * DAY_MS;
const KEEP_HISTORY = { tokensMs: 30 * DAY_MS, eventsMs: 365 * DAY_MS };
/** Open files that a worker needs at least. Its daemons get the same limit. */
const NEEDED_FILES = 4_096;

interface WorkerContext extends Omit<ShardContext, 'secretFolder' | 'times' | 'store'> {
  readonly store: RecoverOptions['store'];
  /** Of the registry, past any pooler: for renewals and notifications. */
  readonly target: RegistryTarget;
  /** Host and port at which other nodes reach this one. */
  readonly address: string;
  /** Number of accounts that this node takes at most. */
  readonly room: number;
  readonly times: WorkerTimes & ShardContext['times'];
  /** Lets readers in, as long as a session works. Returns what stops them. */
  readonly serve: (session: WorkerSession) => Promise<() => Promise<void>>;
}

/**
 * Works for a fleet until the signal aborts, in one session after the other: one that has died holds nothing.
 *
 * @throws archive-in-use if another worker uses the same cache; fleet-few-files, fleet-disk-short, fleet-node-taken, fleet-key-unknown, fleet-secret-damaged if this node is not fit for work
 */
export async function runWorker(context: WorkerContext, signal: AbortSignal): Promise<void> {
  const { log, clock, times, cache } = context;
  makeFoldersDurably(cache, FOLDER_MODE);
  await checkNode(context, signal);
  const lock = acquireLock(cache);
  const secretFolder = makeSecretFolder(context);
  try {
    for (let version = -1; !signal.aborted; ) {
      const session = await startSession(context, secretFolder, version, signal);
      if (session === undefined) return;
      await session.run(signal);
      version = session.rows.version;
      if (signal.aborted) return;
      log.say('warn', 'the session is dead; another one starts', { session: session.id });
      await pause(context, times.renewMs, signal);
    }
  } finally {
    rmSync(secretFolder, { recursive: true, force: true });
    lock.release();
    log.say('info', 'worker ended', { monotonic: Math.round(clock.monotonic()) });
  }
}

async function startSession(
  context: WorkerContext,
  secretFolder: string,
  version: number,
  signal: AbortSignal,
): Promise<WorkerSession | undefined> {
  const { registry, node, cache, address, room, times, log } = context;
  while (!signal.aborted) {
    const session = randomUUID();
    try {
      const facts = { session, node, disk: diskOf(cache), address, room };
      const outcome = await beginSession(registry, facts, times.leaseMs);
      if (outcome.outcome === 'committed') {
        log.say('info', 'session started', { session, node, room });
        return new WorkerSession(session, { ...context, secretFolder }, version);
      }
      if (outcome.by === 'disk') throw fleetError('fleet-node-taken', { node, cache });
    } catch (error) {
      if (!(error instanceof MailkeepError) || hasCode(error, 'fleet-node-taken')) throw error;
      log.fail('error', 'a session could not be started', error);
    }
    await pause(context, times.renewMs, signal);
  }
  return undefined;
}

/** Ends early if the signal aborts. */
async function pause({ clock }: WorkerContext, ms: number, signal: AbortSignal): Promise<void> {
  await sleep(clock, ms, signal).catch(() => undefined);
}

const NO_ROWS: FleetRows = { version: -1, workers: [], shards: [], accounts: [] };

/** One session: what it holds, and what it does about it. Steps run one after another. */
export class WorkerSession {
  readonly #held = new Map<number, { readonly shard: HeldShard; readonly ended: Promise<void> }>();
  readonly #thread: WorkerThread<'alive', SessionReport>;
  readonly #dead = new AbortController();
  /** Aborted once the session is dead or ends. */
  readonly #over = new AbortController();
  #rows: FleetRows;
  #renewedAt: number;
  /** Since when the session was renewed without a gap. */
  #steadySince: number;
  #refreshedAt = Number.NEGATIVE_INFINITY;
  #upkeptAt = Number.NEGATIVE_INFINITY;
  #collecting: Promise<void> | undefined;
  #exporting: Promise<void> | undefined;
  #recovering: Promise<void> | undefined;
  /** What the last export of the registry has. */
  #exported = '';
  #listening: Listening | undefined;
  #wake = Promise.withResolvers<void>();
  #isStopping = false;
  #fault: { readonly error: unknown } | undefined;

  constructor(
    readonly id: string,
    private readonly context: WorkerContext & Pick<ShardContext, 'secretFolder'>,
    /** Of the last change that this process has seen. */
    version: number,
  ) {
    this.#rows = { version, workers: [], shards: [], accounts: [] };
    const { target, times, log } = context;
    const { leaseMs, renewMs, silentMs } = times;
    this.#renewedAt = sharedClockMs();
    this.#steadySince = this.#renewedAt;
    const data: SessionThreadData = { target, session: id, leaseMs, renewMs, silentMs };
    this.#thread = new WorkerThread(
      { name: 'fleet-session', file: builtWorker('fleet-session'), data },
      {
        message: (report) => {
          if (report.what === 'dead') this.#die();
          else if (report.what === 'renewed') this.#renewed(report.askedAt);
          else
            log.fail('error', 'the session could not be renewed', deserializeError(report.error));
        },
        ended: (end) => {
          if (!this.#isStopping && !this.#dead.signal.aborted) {
            log.fail('error', 'the thread of the session ended', end);
            this.#die();
          }
        },
      },
    );
  }

  /** Rows as of the last look. */
  get rows(): FleetRows {
    return this.#rows;
  }

  /** Everything that this session holds. */
  get shards(): readonly { readonly number: number; readonly shard: HeldShard }[] {
    return [...this.#held].map(([number, { shard }]) => ({ number, shard }));
  }

  /** Returns a shard that this session holds, unless the session may have ended for others. */
  held(shard: number): HeldShard | undefined {
    return this.isRenewed ? this.#held.get(shard)?.shard : undefined;
  }

  get isRenewed(): boolean {
    const age = sharedClockMs() - this.#renewedAt;
    return !this.#dead.signal.aborted && age < this.context.times.leaseMs;
  }

  #renewed(at: number): void {
    const { leaseMs, renewMs } = this.context.times;
    // Others renew at other moments: their leases may have run out in this gap.
    if (at - this.#renewedAt > leaseMs - renewMs) this.#steadySince = at;
    this.#renewedAt = at;
  }

  /** While PostgreSQL is unreachable, all leases run out: each session gets the time of a lease to be renewed again. */
  get #isSteady(): boolean {
    return this.isRenewed && this.#renewedAt - this.#steadySince >= this.context.times.leaseMs;
  }

  /** Looks at the registry now. */
  call(): void {
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }

  /** Works until the signal aborts or the session is dead. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, times, registry, log } = this.context;
    const call = (): void => this.call();
    signal.addEventListener('abort', call);
    const ping = setInterval(() => this.#thread.post('alive'), times.renewMs);
    let stopServing = async (): Promise<void> => {};
    try {
      stopServing = await this.context.serve(this);
      while (!signal.aborted && !this.#dead.signal.aborted) {
        const wake = this.#wake.promise;
        await this.#tried('the registry could not be asked', () => this.#step());
        if (this.#fault !== undefined) throw this.#fault.error;
        const { promise, resolve } = Promise.withResolvers<void>();
        const cancel = clock.after(times.pollMs, resolve);
        if (!signal.aborted) await Promise.race([promise, wake]);
        cancel();
      }
      // Readers first: their requests would fail one by one.
      await stopServing();
      await this.#end();
    } finally {
      signal.removeEventListener('abort', call);
      await stopServing();
      for (const { shard } of this.#held.values()) shard.abandon();
      await Promise.all([...this.#held.values()].map(({ ended }) => ended));
      clearInterval(ping);
      this.#isStopping = true;
      await this.#listening?.close();
      await this.#thread.end();
      this.#over.abort();
      await Promise.all([this.#collecting, this.#exporting, this.#recovering]);
      if (!this.#dead.signal.aborted) {
        await this.#tried('the session could not be ended', async () => {
          await endSession(registry, this.id);
          log.say('info', 'session ended', { session: this.id });
        });
      }
    }
  }

  /** Ships and gives back what it holds, as long as there is time. */
  async #end(): Promise<void> {
    const { clock, times } = this.context;
    for (const { shard } of this.#held.values()) shard.stop();
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = clock.after(times.stopMs, resolve);
    const ended = [...this.#held.values()].map((one) => one.ended);
    await Promise.race([Promise.all(ended), promise]);
    cancel();
  }

  async #step(): Promise<void> {
    const { registry, times, clock, now } = this.context;
    await this.#listen();
    if (this.#isSteady) await markDead(registry);
    await this.#look();
    const actions = plan(this.#rows, this.id, now());
    for (const [number, { shard }] of this.#held) {
      if (actions.release.includes(number)) shard.stop();
      else shard.resume();
    }
    for (const shard of actions.unwant) await moveShard(registry, shard, null);
    await this.#claim(actions.claim);
    if (this.#rows.shards.some(({ isCurrent }) => !isCurrent)) {
      this.#recovering ??= this.#recover().finally(() => {
        this.#recovering = undefined;
      });
    }
    if (clock.monotonic() - this.#upkeptAt < times.upkeepMs) return;
    this.#upkeptAt = clock.monotonic();
    await this.#lookAtFolders();
    await removeSessions(registry, KEEP_SESSIONS_MS);
    if (this.#isFirst) await removeHistory(registry, KEEP_HISTORY);
    // The bucket may take minutes.
    this.#exporting ??= this.#export().finally(() => {
      this.#exporting = undefined;
    });
    this.#collecting ??= this.#collect().finally(() => {
      this.#collecting = undefined;
    });
  }

  async #listen(): Promise<void> {
    if (this.#listening !== undefined) return;
    const { target, log } = this.context;
    try {
      this.#listening = await listen(target, CHANNEL, {
        onNote: () => this.call(),
        onLost: () => {
          this.#listening = undefined;
        },
      });
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      // Polling finds the same changes, only later.
      log.fail('error', 'no notifications come from the registry', error);
    }
  }

  /** Reads what has changed, and from time to time everything. */
  async #look(): Promise<void> {
    const { registry, times, clock, log } = this.context;
    const known = this.#rows;
    const isWhole = clock.monotonic() - this.#refreshedAt >= times.refreshMs;
    let changes = await changesSince(registry, isWhole ? -1 : known.version);
    // PostgreSQL was restored to an earlier time.
    const isEarlier = changes.version < known.version;
    if (isEarlier) {
      log.say('warn', 'PostgreSQL was reset to an earlier state', { version: changes.version });
      await distrustShards(registry, this.context.node);
      changes = await changesSince(registry, -1);
    }
    if (isWhole || isEarlier) this.#refreshedAt = clock.monotonic();
    const before = isWhole || isEarlier ? NO_ROWS : known;
    this.#rows = {
      version: changes.version,
      workers: newest(before.workers, changes.workers, ({ session }) => session),
      shards: newest(before.shards, changes.shards, ({ shard }) => shard),
      accounts: newest(before.accounts, changes.accounts, ({ account }) => account),
    };
    const touched = new Set(changes.accounts.map(({ shard }) => shard));
    const changed = new Set([...touched, ...changes.shards.map(({ shard }) => shard)]);
    for (const row of this.#rows.shards) {
      if (!changed.has(row.shard)) continue;
      const held = this.#held.get(row.shard)?.shard;
      const isOther = row.holder !== this.id || row.epoch !== held?.epoch;
      if (held === undefined) await this.#releaseUnknown(row);
      else if (isOther) held.abandon();
      else held.notice(row, touched.has(row.shard) ? this.#accountsOf(row.shard) : undefined);
    }
  }

  /** Gives back a shard that this session holds without knowing, because the answer to a claim was lost. */
  async #releaseUnknown({ shard, epoch, holder }: FleetRows['shards'][number]): Promise<void> {
    if (holder !== this.id) return;
    await release(this.context.registry, { shard, epoch, session: this.id });
  }

  #accountsOf(shard: number): readonly AccountRow[] {
    return this.#rows.accounts.filter((row) => row.shard === shard);
  }

  async #claim(shards: readonly number[]): Promise<void> {
    const { registry, cache, log } = this.context;
    const free = shards.filter((shard) => {
      return !this.#held.has(shard) && isUnlocked(path.join(cache, String(shard)));
    });
    if (free.length === 0) return;
    const outcome = await claim(registry, this.id, free);
    if (outcome.outcome === 'refused') return;
    for (const claimed of outcome.claimed) {
      const { shard: number, epoch } = claimed.lease;
      log.say('info', 'shard claimed', { shard: number, epoch });
      const shard = new HeldShard(this.context, claimed);
      const row = this.#rows.shards.find((one) => one.shard === number);
      if (row !== undefined) shard.notice(row, this.#accountsOf(number));
      const ended = shard.run().then(
        (end) => this.#ended(number, end),
        (error: unknown) => {
          this.#held.delete(number);
          this.#fault = { error };
          this.call();
        },
      );
      this.#held.set(number, { shard, ended });
    }
  }

  #ended(shard: number, end: ShardEnd): void {
    this.#held.delete(shard);
    // Its row may still name this session, and only a look at all rows finds that.
    if (end === 'lost') this.#refreshedAt = Number.NEGATIVE_INFINITY;
    this.context.log.say('info', 'shard ended', { shard, end });
    this.call();
  }

  #die(): void {
    this.#dead.abort();
    this.#over.abort();
    for (const { shard } of this.#held.values()) shard.abandon();
    this.call();
  }

  /** What one worker does for all is done by the first one. An import has a session without room. */
  get #isFirst(): boolean {
    const living = this.#rows.workers.filter(({ isDead, room }) => !isDead && room > 0);
    return living.every(({ session }) => session >= this.id);
  }

  async #collect(): Promise<void> {
    const { registry, store, times, log } = this.context;
    if (!this.#isFirst) return;
    await this.#tried('objects could not be collected', async () => {
      const round = await collectRound(
        registry,
        (shard) => shardStore(store, shard),
        times.collection,
        this.#over.signal,
      );
      const { swept, gone, locked, failures } = round;
      for (const { error } of failures) log.fail('error', 'an object stays', error);
      if (swept + gone > 0) log.say('info', 'objects collected', { swept, gone, locked });
    });
  }

  /** Keeps a copy of the registry in the bucket, which one worker does for all. */
  async #export(): Promise<void> {
    const { registry, fleet, keys, store, log } = this.context;
    if (!this.#isFirst) return;
    await this.#tried('the registry could not be exported', async () => {
      const mark = await registryMark(registry);
      if (mark === this.#exported) return;
      await exportRegistry(registry, fleet, keys(), store, this.#over.signal);
      this.#exported = mark;
      log.say('info', 'registry exported', { mark });
    });
  }

  /** After PostgreSQL has failed over or was restored. Several workers may do this: each shard is recovered once. */
  async #recover(): Promise<void> {
    const { registry, fleet, keys, store, clock, times, log } = this.context;
    log.say('warn', 'PostgreSQL has another timeline; shards are compared with the bucket');
    await this.#tried('shards could not be recovered', async () => {
      const options = { registry, fleet, keys: keys(), store, clock, all: false };
      const { recoverMs: settleMs } = times;
      const { signal } = this.#over;
      const { recovered, failures } = await recoverFleet({ ...options, settleMs, signal });
      for (const one of recovered) log.say('info', 'shard recovered', { ...one });
      for (const { shard, error } of failures) {
        log.fail('error', `shard ${shard} could not be recovered`, error);
      }
    });
  }

  /**
   * Wipes folders of shards that this node does not hold, if a forget waits for it or the disk is short. One that ran ahead
   * is merged, for which the shard has to come here.
   */
  async #lookAtFolders(): Promise<void> {
    const { registry, node, cache, settings } = this.context;
    const isShort = (await freeBytes(cache)) < 2 * settings.minFreeBytes;
    for (const folder of await nodeFolders(registry, node)) {
      const isOurs = this.#rows.shards.some((row) => {
        return row.shard === folder.shard && (row.holder === this.id || row.wantedNode === node);
      });
      if (isOurs || this.#held.has(folder.shard)) continue;
      const isWanted = folder.hasPurge || isShort;
      await this.#tried('a folder could not be wiped', () => this.#mergeOrWipe(folder, isWanted));
    }
  }

  /** @param isWanted whether the folder is wiped if everything in it was shipped */
  async #mergeOrWipe(folder: FolderRow, isWanted: boolean): Promise<void> {
    const { registry, cache, log } = this.context;
    const { shard } = folder;
    const dir = path.join(cache, String(shard));
    if (!isUnlocked(dir)) return;
    if (asideOf(dir).length > 0 || (existsSync(dir) && (folder.isAhead || isAhead(dir)))) {
      const { outcome } = folder.isAhead
        ? await moveShard(registry, shard, this.context.node)
        : await ranAhead(registry, this.id, folder);
      const text = 'a folder may have mail that was not shipped; the shard comes here';
      if (outcome === 'committed') log.say('warn', text, { shard });
      return;
    }
    if (!isWanted) return;
    removeUnfinished(dir);
    rmSync(dir, { recursive: true, force: true });
    const { outcome } = await wiped(registry, this.id, folder);
    log.say('info', 'folder wiped', { shard, outcome });
  }

  async #tried(text: string, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof MailkeepError) && !this.#over.signal.aborted) throw error;
      this.context.log.fail('error', text, error);
    }
  }
}

function newest<Row>(
  known: readonly Row[],
  changed: readonly Row[],
  idOf: (row: Row) => string | number,
): readonly Row[] {
  if (changed.length === 0) return known;
  return [...new Map([...known, ...changed].map((row) => [idOf(row), row])).values()];
}

/** Returns false while a process of this node writes the folder, such as the daemon of a worker that was killed. */
function isUnlocked(dir: string): boolean {
  if (!existsSync(path.join(dir, 'lock'))) return true;
  try {
    tryLock(dir);
    return true;
  } catch (error) {
    if (!hasCode(error, 'archive-in-use')) throw error;
    return false;
  }
}

/** Whether a folder has commits that no manifest has, as far as can be told. */
function isAhead(dir: string): boolean {
  try {
    return readLogHead(dir).number > (readNote(dir)?.commit ?? 0);
  } catch (error) {
    if (hasCode(error, 'archive-missing')) return false;
    // The merge reads what can be read.
    if (error instanceof MailkeepError && error.family === 'damage') return true;
    throw error;
  }
}

/** Returns what identifies a cache: a copied configuration does not have it. */
function diskOf(cache: string): string {
  const file = path.join(cache, 'disk');
  if (!existsSync(file)) {
    // A file that was cut off would keep the node from starting.
    writeFileSync(`${file}.new`, randomUUID(), { mode: FILE_MODE, flush: true });
    renameSync(`${file}.new`, file);
    syncFolder(cache);
  }
  return readFileSync(file, 'utf8');
}

/** Refuses to start on a node on which every shard would fail. */
async function checkNode(context: WorkerContext, signal: AbortSignal): Promise<void> {
  const { registry, fleet, keys, cache, settings, store } = context;
  const limit = openFilesLimit();
  if (limit < NEEDED_FILES) throw fleetError('fleet-few-files', { limit, needed: NEEDED_FILES });
  const { minFreeBytes: needed } = settings;
  const free = await freeBytes(cache);
  if (free < needed) throw fleetError('fleet-disk-short', { folder: cache, free, needed });
  for (const { account, ...secret } of await secretSamples(registry)) {
    openSecrets(keys(), fleet.id, account, [secret]);
  }
  // Nothing is there: that the listing is answered is enough.
  await store.list('init/', signal)[Symbol.asyncIterator]().next();
}

/** Node.js raises the soft limit to the hard one when it starts. */
function openFilesLimit(): number {
  try {
    const text = readFileSync('/proc/self/limits', 'latin1');
    const [, limit = 'unlimited'] = /^Max open files +(\w+)/m.exec(text) ?? [];
    return limit === 'unlimited' ? Number.POSITIVE_INFINITY : Number(limit);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** A folder in memory, if there is one, that only this user can read. What an earlier process left there is removed. */
function makeSecretFolder({ environment, cache }: WorkerContext): string {
  const { XDG_RUNTIME_DIR: own } = environment.env;
  const base = [own, '/dev/shm', tmpdir()].find((dir) => dir !== undefined && existsSync(dir));
  const mark = createHash('sha256').update(cache).digest('hex').slice(0, 16);
  const folder = path.join(base ?? tmpdir(), `mailkeep-fleet-${mark}`);
  if (existsSync(folder) && isPrivateFolder(lstatSync(folder), null)) {
    rmSync(folder, { recursive: true });
  }
  mkdirSync(folder, { mode: 0o700 });
  return folder;
}
