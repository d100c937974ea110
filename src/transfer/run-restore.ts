import { setImmediate as nextTurn } from 'node:timers/promises';
import { Semaphore } from '../core/concurrency.ts';
import { MailkeepError } from '../core/errors.ts';
import { isRestoreError, restoreError } from './errors.ts';
import type { RestoreConnection, SelectedFolder, ServerFolder } from './imap-connection.ts';
import { unreadableReason } from './plan-export.ts';
import {
  type AppendedMessage,
  type Destination,
  type NamedMessage,
  type PlannedMessage,
  type RefusalReason,
  type RestoreOptions,
  RestorePlan,
} from './plan-restore.ts';
import {
  type Alteration,
  changesIn,
  type FoundMessage,
  fitDate,
  fitFlags,
  fitMessage,
  fitSizes,
  isSimilarSize,
  matchFolder,
  messageIdOf,
  msUntilSettled,
  readForm,
  type SentForm,
} from './restore-comparison.ts';
import {
  type JournaledPlan,
  Line,
  type PlanJournal,
  type Rate,
  type RestoreJournal,
} from './restore-journal.ts';
import {
  addSelection,
  type Layout,
  type NameRules,
  type SourceFolder,
  type TargetFolder,
  targetFolders,
} from './restore-selection.ts';

/** Compares the bytes of one in `SAMPLED` messages, and of the first `FIRST` messages in each folder. */
const SAMPLED = 100;
const FIRST = 3;

interface DoubledMessage extends NamedMessage {
  readonly doubleUid: number;
}

type VerifiedFolder = Awaited<ReturnType<typeof verifyRestored>>;

interface DueMessage {
  readonly message: AppendedMessage;
  readonly size: number;
  /** False for a message sent by an earlier run: only its source shows whether servers change it. */
  readonly isSure: boolean;
}

type LookDeps = Pick<SharedRun, 'plan' | 'read' | 'limit'>;

/**
 * Verifies the selected folder after sending. Compares uid, size, flags and date of every message appended under this
 * plan, and the bytes of a sample and of all messages that servers are known to change. Safe to repeat.
 *
 * @returns `compared`: messages whose metadata was compared; `fetched`: messages whose bytes were compared; `lost`:
 * messages that the server accepted but does not list
 */
async function verifyRestored(
  deps: LookDeps,
  connection: RestoreConnection,
  folder: number,
  permanentFlags: readonly string[] | null,
) {
  const { plan } = deps;
  const strangers: { readonly uid: number; readonly size: number }[] = [];
  const due: DueMessage[] = [];
  const repeats = [...plan.again(folder)];
  let compared = 0;
  await connection.looks(1, (seen) => {
    const message = plan.appendedAs(folder, seen.uid);
    if (message === undefined) {
      if (repeats.length > 0) strangers.push(seen);
      return;
    }
    compared += 1;
    plan.seen(message.seq);
    const altered = compareMetadata(message, seen, permanentFlags);
    if (altered.length > 0) plan.alter(message.seq, altered);
    const isSure =
      compared <= FIRST ||
      Number.parseInt(message.id.slice(0, 6), 16) % SAMPLED === 0 ||
      (message.sent !== null && message.sent !== seen.size) ||
      message.isDelicate;
    if (isSure || message.sent === null) due.push({ message, size: seen.size, isSure });
  });
  let fetched = 0;
  for (const one of due) {
    await deps.limit(one.message.size, async () => {
      if (await compareBytes(deps, connection, one)) fetched += 1;
    });
  }
  const lost = [...plan.unseen(folder)].map(({ seq }) => plan.named(seq));
  return {
    compared,
    fetched,
    lost,
    doubled: await findDuplicates(deps, connection, strangers, repeats),
  };
}

function compareMetadata(
  { flags, received }: PlannedMessage,
  seen: { readonly flags: ReadonlySet<string>; readonly date: number },
  permanentFlags: readonly string[] | null,
): Alteration[] {
  const seenFlags = new Set([...seen.flags].map((flag) => flag.toLowerCase()));
  const { kept } = fitFlags(flags, permanentFlags);
  const altered: Alteration[] = [];
  if (kept.some((flag) => !seenFlags.has(flag.toLowerCase()))) altered.push('flags');
  const sentDate = received === null ? null : Math.floor(fitDate(received).date / 1000);
  if (sentDate !== null && sentDate !== Math.floor(seen.date / 1000)) altered.push('date');
  return altered;
}

/**
 * Returns false if the bytes were not fetched: comparing is unnecessary, the message is gone or its source is
 * unreadable.
 */
async function compareBytes(
  { plan, read }: LookDeps,
  connection: RestoreConnection,
  { message, size, isSure }: DueMessage,
): Promise<boolean> {
  const form = await read(message);
  if (typeof form === 'string') return false;
  if (!isSure && form.size === size && !form.nul && !form.wideHeader) {
    if (form.endings) plan.alter(message.seq, ['line-endings']);
    return false;
  }
  let isThere = false;
  const readPieces = async function* () {
    for await (const piece of connection.pieces(message.uid)) {
      isThere = true;
      yield piece;
    }
  };
  const changes = await changesIn(form, readPieces());
  if (!isThere) return false;
  const altered: Alteration[] = form.endings ? ['line-endings'] : [];
  altered.push(...(changes ?? ['bytes']));
  if (altered.length > 0) plan.alter(message.seq, altered);
  return true;
}

async function findDuplicates(
  { plan, read }: LookDeps,
  connection: RestoreConnection,
  strangers: readonly { readonly uid: number; readonly size: number }[],
  repeats: readonly PlannedMessage[],
): Promise<DoubledMessage[]> {
  const doubled: DoubledMessage[] = [];
  const taken = new Set<number>();
  for (const message of repeats) {
    const form = await read(message);
    if (typeof form === 'string') continue;
    for (const { uid, size } of strangers) {
      if (taken.has(uid) || !isSimilarSize(form.size, size)) continue;
      if ((await changesIn(form, connection.pieces(uid))) === undefined) continue;
      taken.add(uid);
      doubled.push({ ...plan.named(message.seq), doubleUid: uid });
    }
  }
  return doubled;
}

interface ReadMessage {
  readonly message: PlannedMessage;
  readonly form: SentForm | 'damaged' | 'purged';
}

interface ReadyMessage extends ReadMessage {
  readonly form: SentForm;
}

/** Bytes per batch. Each batch is read while the previous one is being sent. A larger message is sent alone. */
const MAX_TOGETHER = 512 * 1024;

function* batchesOf(
  due: Iterable<PlannedMessage>,
  most: () => number,
): Generator<readonly PlannedMessage[], void, undefined> {
  let batch: PlannedMessage[] = [];
  for (const message of due) {
    const isFull = batch.length >= most() || bytesOf(batch) + message.size > MAX_TOGETHER;
    if (batch.length > 0 && isFull) {
      yield batch;
      batch = [];
    }
    batch.push(message);
  }
  if (batch.length > 0) yield batch;
}

function bytesOf(batch: readonly PlannedMessage[]): number {
  return sumOf(batch, ({ size }) => size);
}

/** Returns each message's uid above `after`, or undefined if the server does not have it. No uid is returned twice. */
async function findArrived(
  connection: RestoreConnection,
  after: number,
  ready: readonly { readonly form: SentForm }[],
): Promise<(number | undefined)[]> {
  const arrivals = await connection.messages(after + 1);
  const uids: (number | undefined)[] = [];
  const taken = new Set<number>();
  for (const { form } of ready) {
    const uid = await findArrivedMessage(connection, arrivals, taken, form);
    if (uid !== undefined) taken.add(uid);
    uids.push(uid);
  }
  return uids;
}

async function findArrivedMessage(
  connection: RestoreConnection,
  arrivals: readonly FoundMessage[],
  taken: ReadonlySet<number>,
  form: SentForm,
): Promise<number | undefined> {
  const messageId = messageIdOf(form.head);
  for (const { uid, ...found } of arrivals) {
    if (taken.has(uid) || found.messageId !== messageId || !isSimilarSize(form.size, found.size))
      continue;
    if ((await changesIn(form, connection.pieces(uid))) !== undefined) return uid;
  }
  return undefined;
}

const TOO_LARGE: ReadonlySet<string> = new Set(['APPENDLIMIT', 'TOOBIG']);
const NO_FOLDER: ReadonlySet<string> = new Set(['NOPERM', 'READ-ONLY', 'TRYCREATE', 'NONEXISTENT']);

type Refused = ReturnType<typeof restoreError<'restore-refused'>>['facts'];

/** Classifies a refused APPEND by its response code (RFC 5530; RFC 7889 for sizes), or by its text on older servers. */
function classifyRefusal({ response, text }: Refused): RefusalReason {
  if (response === 'OVERQUOTA' || /over ?quota|quota exceeded/i.test(text)) return 'quota';
  if (response !== null && TOO_LARGE.has(response)) return 'append-limit';
  if (response !== null && NO_FOLDER.has(response)) return 'folder';
  if (/permission denied|read-?only/i.test(text)) return 'folder';
  // LIMIT does not specify which limit, but the text does.
  const isOfSize =
    /too (?:big|large)/i.test(text) || (response === 'LIMIT' && /siz|larg/i.test(text));
  return isOfSize ? 'append-limit' : 'server';
}

/** Number of times a message can break the connection before it is treated as refused and the others are sent. */
const MAX_BREAKS = 3;

/** Messages of at least this size are sent one at a time, over all connections. */
const LARGE = 8 * 1024 * 1024;

type SharedRun = ReturnType<typeof shareRun>;

/** Returns the state that all connections share. */
function shareRun(
  options: RestoreOptions,
  plan: RestorePlan,
  journal: PlanJournal,
  leftOut: { recent: number; deleted: number },
) {
  const { now, onProgress } = options;
  const counts = [...plan.counts().values()];
  const of = sumOf(counts, ({ due }) => due);
  const ofBytes = sumOf(counts, ({ bytes }) => bytes);
  const startedAt = now();
  const large = new Semaphore(1);
  const settled = { done: 0, bytes: 0 };
  return {
    ...options,
    plan,
    journal,
    settled,
    read: (message: PlannedMessage) => readForm(options.sources, message),
    limit: <T>(size: number, act: () => Promise<T>) => (size < LARGE ? act() : large.run(act)),
    leftOut,
    /** Size of the smallest message that exceeded the quota. Messages of at least this size are not sent. */
    quota: { floor: Number.POSITIVE_INFINITY },
    /** @param sent bytes on the wire; 0 if nothing was sent */
    onSettled(sent: number): void {
      settled.done += 1;
      settled.bytes += sent;
      onProgress?.({ step: 'sending', ...settled, of, ofBytes, elapsed: now() - startedAt });
    },
  };
}

interface SentMessage {
  readonly seq: number;
  readonly entry: number;
  readonly size: number;
  readonly isDelicate: boolean;
  readonly altered: readonly Alteration[];
}

const MAX_UNASKED = 1024 * 1024;

/** Sends one folder's due messages in order, then verifies the folder. */
class FolderRun {
  #opened:
    | { readonly connection: RestoreConnection; readonly selected: SelectedFolder }
    | undefined;
  #isRefused = false;
  /** Highest uid in the folder before the current message. */
  #lastUid = 0;

  constructor(
    private readonly shared: SharedRun,
    private readonly line: Line,
    private readonly folder: number,
    private readonly path: string,
  ) {}

  /**
   * Sends and verifies the folder. Returns undefined if the signal stopped it or the server cannot open the folder.
   *
   * @throws restore-gave-up
   */
  async all(): Promise<VerifiedFolder | undefined> {
    const { plan, signal } = this.shared;
    try {
      this.#lastUid = (await this.#persist(() => this.#open())).selected.lastUid;
      await this.#sendAll();
    } catch (error) {
      if (!isRestoreError(error, 'restore-refused')) throw error;
      plan.refuseFolder(this.folder, error.facts.text);
      return undefined;
    }
    if (signal.aborted) return undefined;
    return this.#persist(async () => {
      const { connection, selected } = await this.#open();
      return verifyRestored(this.shared, connection, this.folder, selected.permanentFlags);
    });
  }

  async #sendAll(): Promise<void> {
    const { plan, signal, limit } = this.shared;
    let sending: Promise<void> = Promise.resolve();
    const most = (): number => this.#opened?.connection.mostAtOnce ?? 1;
    for (const batch of batchesOf(plan.due(this.folder), most)) {
      const size = bytesOf(batch);
      const reading = size > MAX_TOGETHER ? undefined : this.#read(batch);
      // The error is handled when awaited. Until then, it must not be treated as unhandled.
      reading?.catch(() => {});
      await sending;
      if (this.#isRefused || signal.aborted) return;
      sending = limit(size, async () => this.#restore(await (reading ?? this.#read(batch))));
    }
    await sending;
  }

  async #read(batch: readonly PlannedMessage[]): Promise<readonly ReadMessage[]> {
    const all: ReadMessage[] = [];
    for (const message of batch) {
      // Reading is synchronous, so let the event loop handle the server's responses first.
      await nextTurn();
      all.push({ message, form: await this.shared.read(message) });
    }
    return all;
  }

  async #restore(batch: readonly ReadMessage[]): Promise<void> {
    const { plan, leftOut, onSettled } = this.shared;
    const ready: ReadyMessage[] = [];
    for (const { message, form } of batch) {
      if (typeof form === 'string') {
        plan.refuse(message.seq, form, null);
        onSettled(0);
        continue;
      }
      countLeftOut(message.flags, leftOut);
      ready.push({ message, form });
    }
    if (ready.length > 1) await this.#send(ready);
    else await this.#sendEach(ready);
    for (const { form } of ready) onSettled(form.size);
  }

  /** @param breaks number of times each message has broken the connection */
  async #sendEach(ready: readonly ReadyMessage[], breaks = 0): Promise<void> {
    const { plan, quota } = this.shared;
    for (const one of ready) {
      if (this.#isRefused) return;
      if (one.form.size >= quota.floor) plan.refuse(one.message.seq, 'quota', null);
      else await this.#send([one], breaks);
    }
  }

  /**
   * Sends messages in one command and retries until the server responds. If it refuses the batch, sends them one by
   * one.
   */
  async #send(ready: readonly ReadyMessage[], breaksBefore = 0): Promise<void> {
    const { journal, now, signal } = this.shared;
    const [first] = ready;
    const single = ready.length === 1 ? first : undefined;
    let breaks = breaksBefore;
    let isPlain = false;
    while (!signal.aborted) {
      const { connection, selected } = await this.#persist(() => this.#open());
      const sent = journal.together(() =>
        ready.map(({ message, form }) => ({
          ...{ seq: message.seq, size: form.size },
          isDelicate: form.nul || form.wideHeader,
          ...this.#fit(message, form, selected, isPlain),
          entry: journal.begin(selected, message.id, now()),
        })),
      );
      const messages = sent.map(({ flags, date, size }, i) => ({
        ...{ flags, date, size },
        content: ready[i]?.form.content ?? Buffer.alloc(0),
      }));
      // Some servers close the connection if a message is too large for them.
      const asks = breaks > 0 || sent.some(({ size }) => size > MAX_UNASKED);
      let uids: readonly number[] | null;
      try {
        uids = await connection.append(this.path, messages, asks);
      } catch (error) {
        if (isRestoreError(error, 'restore-connection-lost')) {
          breaks += 1;
          const arrived = await this.#afterLoss(error, ready, now());
          // The next run determines whether they arrived.
          if (arrived === undefined) return;
          const retries = this.#settleFound(ready, sent, arrived);
          if (single !== undefined && retries.length > 0 && breaks < MAX_BREAKS) continue;
          if (breaks < MAX_BREAKS) return this.#sendEach(retries, breaks);
          for (const { message } of retries) this.shared.plan.refuse(message.seq, 'server', BROKE);
          return;
        }
        for (const { entry } of sent) journal.forget(entry);
        const reason = unreadableReason(error);
        if (single !== undefined && reason !== undefined) {
          this.shared.plan.refuse(single.message.seq, reason, null);
          return this.line.close();
        }
        if (!isRestoreError(error, 'restore-refused')) {
          await this.line.recover(error);
          continue;
        }
        this.line.worked();
        const verdict = classifyRefusal(error.facts);
        if (verdict === 'folder') return this.#refuseFolder(error.facts);
        if (single === undefined) return this.#sendEach(ready);
        // Some servers refuse a message because of its keywords.
        const hasKeywords = sent[0]?.flags.some((flag) => !flag.startsWith('\\')) === true;
        if (verdict !== 'server' || !hasKeywords || isPlain)
          return this.#refuse(single, verdict, error.facts);
        isPlain = true;
        continue;
      }
      this.line.worked();
      this.#settle(sent, uids);
      // Without UIDPLUS, the next message is identified by the folder's next uid.
      if (uids === null)
        this.#lastUid = (await this.#persist(() => this.#reopen())).selected.lastUid;
      return;
    }
  }

  #settleFound(
    ready: readonly ReadyMessage[],
    sent: readonly SentMessage[],
    uids: readonly (number | undefined)[],
  ): ReadyMessage[] {
    const { plan, journal } = this.shared;
    const retries: ReadyMessage[] = [];
    const arrivals: SentMessage[] = [];
    const theirs: number[] = [];
    for (const [i, one] of sent.entries()) {
      const [uid, again] = [uids[i], ready[i]];
      if (uid !== undefined) {
        arrivals.push(one);
        theirs.push(uid);
      } else if (again !== undefined) {
        journal.forget(one.entry);
        plan.sentAgain(one.seq);
        retries.push(again);
      }
    }
    this.#settle(arrivals, theirs);
    return retries;
  }

  #settle(sent: readonly SentMessage[], uids: readonly number[] | null): void {
    const { plan, journal } = this.shared;
    this.#lastUid = Math.max(this.#lastUid, ...(uids ?? []));
    journal.together(() => {
      for (const [i, { seq, size, isDelicate, altered, entry }] of sent.entries()) {
        const uid = uids?.[i] ?? null;
        journal.settle(entry, uid);
        plan.appended(seq, uid, size, isDelicate);
        if (altered.length > 0) plan.alter(seq, altered);
      }
    });
  }

  #fit(message: PlannedMessage, form: SentForm, selected: SelectedFolder, isPlain: boolean) {
    const { flags: kept, date, altered } = fitMessage(message, selected.permanentFlags);
    const flags = isPlain ? kept.filter((flag) => flag.startsWith('\\')) : kept;
    const more: Alteration[] = form.endings ? ['line-endings'] : [];
    if (flags.length < kept.length) more.push('flags');
    return { flags, date, altered: [...more, ...altered] };
  }

  #refuse({ message, form }: ReadyMessage, verdict: RefusalReason, { text }: Refused): void {
    const { plan, quota } = this.shared;
    plan.refuse(message.seq, verdict, text);
    if (verdict === 'quota') quota.floor = Math.min(quota.floor, form.size);
  }

  #refuseFolder({ text }: Refused): void {
    this.#isRefused = true;
    this.shared.plan.refuseFolder(this.folder, text);
  }

  /** Returns the uids of messages that arrived before the connection broke, or undefined if the run must stop. */
  async #afterLoss(
    error: unknown,
    ready: readonly ReadyMessage[],
    since: number,
  ): Promise<(number | undefined)[] | undefined> {
    const { now, sleep, signal } = this.shared;
    await this.line.recover(error);
    await sleep(msUntilSettled(since, now()));
    if (signal.aborted) return undefined;
    return this.#persist(async () => {
      const { connection } = await this.#reopen();
      return findArrived(connection, this.#lastUid, ready);
    });
  }

  async #open() {
    const connection = await this.line.open();
    if (this.#opened?.connection === connection) return this.#opened;
    return this.#reopen();
  }

  async #reopen() {
    const connection = await this.line.open();
    const selected = await connection.select(this.path);
    const before = this.#opened?.selected.uidValidity;
    if (before !== undefined && before !== selected.uidValidity) this.#lastUid = 0;
    this.#opened = { connection, selected };
    return this.#opened;
  }

  /** Repeats a read command until it succeeds. @throws restore-refused, restore-gave-up */
  async #persist<T>(act: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await act();
      } catch (error) {
        await this.line.recover(error);
      }
    }
  }
}

function countLeftOut(flags: readonly string[], counts: SharedRun['leftOut']): void {
  for (const flag of fitFlags(flags, null).leftOut)
    counts[flag.toLowerCase() === '\\recent' ? 'recent' : 'deleted'] += 1;
}

const BROKE = 'the connection broke each time it was sent';

type Targets = ReadonlyMap<number, TargetFolder>;

interface Naming {
  readonly folders: ReadonlyMap<number, SourceFolder>;
  readonly layout: Layout;
  readonly connection: Pick<RestoreConnection, 'delimiter' | 'prefix' | 'create' | 'subscribe'>;
  readonly listed: readonly ServerFolder[];
}

/** Assigns folders on the server, replacing refused characters in their names. */
function nameFolders({ folders, layout, connection, listed }: Naming, refused: string): Targets {
  const rules: NameRules = {
    delimiter: connection.delimiter,
    prefix: connection.prefix,
    refused,
    specialUse: new Map(
      listed.flatMap(({ path, specialUse }) => (specialUse === null ? [] : [[specialUse, path]])),
    ),
  };
  const targets = targetFolders([...folders.values()], layout, rules);
  const bySource = new Map(targets.map((target) => [target.source, target]));
  return new Map(
    [...folders].flatMap(([number, source]) => {
      const target = bySource.get(source);
      return target === undefined ? [] : [[number, target]];
    }),
  );
}

/** Response codes unrelated to the characters in a name. */
const NOT_THE_NAME: ReadonlySet<string> = new Set(['NOPERM', 'OVERQUOTA', 'LIMIT', 'READ-ONLY']);

/**
 * Creates missing folders and their parents, and subscribes to them. Servers do not report which characters they
 * refuse, so candidates are tried one by one. A refused character is then replaced in all names.
 */
async function createFolders(naming: Naming, plan: Pick<JournaledPlan, 'refused'>) {
  const { connection, listed } = naming;
  const existing = new Map(listed.map((folder) => [folder.path, folder]));
  const failed = new Map<number, string>();
  const made = new Set<string>();
  let { refused } = plan;
  let targets = nameFolders(naming, refused);
  /** Creates a folder if it is missing. Returns the reason if the server refuses, otherwise null. */
  const make = async (path: string) => {
    const folder = existing.get(path);
    if (folder?.selectable === true) {
      if (!folder.subscribed) await connection.subscribe(path);
      return null;
    }
    try {
      if (await connection.create(path)) made.add(path);
    } catch (error) {
      if (!isRestoreError(error, 'restore-refused')) throw error;
      const { response, text } = error.facts;
      return { words: text, isOfName: response === null || !NOT_THE_NAME.has(response) };
    }
    existing.set(path, { path, specialUse: null, subscribed: true, selectable: true });
    return null;
  };
  for (const number of naming.folders.keys()) {
    const path = targets.get(number)?.path ?? '';
    const refusal = await make(path);
    if (refusal === null) continue;
    const { words, isOfName } = refusal;
    let isMade = false;
    for (const chars of isOfName ? replacementCandidates(path, words, connection.delimiter) : []) {
      const candidate = nameFolders(naming, refused + chars);
      const other = candidate.get(number)?.path;
      if (other === undefined || other === path || (await make(other)) !== null) continue;
      refused += chars;
      targets = candidate;
      isMade = true;
      break;
    }
    if (!isMade) failed.set(number, words);
  }
  // A refused character found later may have changed the names of folders created earlier.
  for (const [number, { path }] of targets) {
    const refusal = failed.has(number) ? null : await make(path);
    if (refusal !== null) failed.set(number, refusal.words);
  }
  return { targets, refused, failed, made };
}

const ORDINARY = /[\p{L}\p{M}\p{N} _()-]/u;

/**
 * Returns sets of characters to replace, likeliest first: the one quoted by the server, each special one, all special
 * ones, all non-ASCII ones.
 */
function replacementCandidates(path: string, words: string, delimiter: string): string[] {
  const signs = [...new Set(path)].filter((char) => char !== delimiter && !ORDINARY.test(char));
  const [, quoted] = /'(.)'/u.exec(words) ?? [];
  const first = quoted !== undefined && signs.includes(quoted) ? [quoted] : [];
  const wide = [...new Set(path)].filter((char) => char > '~');
  const all = signs.join('');
  return [...new Set([...first, ...signs, all, [...new Set([...signs, ...wide])].join('')])].filter(
    (trial) => trial !== '',
  );
}

const MAX_NAMED = 10_000;

/**
 * Restores messages from an archive to mailboxes on an IMAP server: plans the folders, sends the missing messages and
 * verifies them. The journal and the server's contents show which messages have arrived, so the same options continue
 * an interrupted run. Only folders that already contain messages need memory per message.
 *
 * @throws restore-running, restore-several-mailboxes, restore-login-refused, restore-certificate, restore-unreachable,
 * or the signal's reason during the first sign-in: nothing was sent
 */
export async function runRestore(options: RestoreOptions) {
  const { target, dryRun, journal } = options;
  const release = dryRun ? undefined : journal?.hold(target, selectionKey(options));
  const plan = new RestorePlan();
  try {
    return await new Restore(options, plan).run();
  } finally {
    plan.close();
    release?.();
  }
}

export type RestoreResult = Awaited<ReturnType<typeof runRestore>>;
export type RestoredFolder = RestoreResult['folders'][number];

type Limits = Parameters<typeof fitSizes>[1];

class Restore {
  readonly #lines: Line[] = [];
  readonly #results: VerifiedFolder[] = [];
  readonly #leftOut = { recent: 0, deleted: 0 };
  readonly #remade = new Map<number, number>();
  #journaled: JournaledPlan | undefined;
  #continued = false;
  #targets: Targets = new Map();
  #ended: MailkeepError | null = null;
  #rate: Rate | null = null;
  #connections = 1;
  #expected = { 'append-limit': 0, quota: 0 };

  constructor(
    private readonly options: RestoreOptions,
    private readonly plan: RestorePlan,
  ) {}

  async run() {
    const { options, plan } = this;
    const key = selectionKey(options);
    if (!options.fresh) this.#journaled = options.journal?.unfinished(options.target, key);
    this.#continued = this.#journaled !== undefined;
    const selection = this.#continued
      ? { ...options.selection, asOf: this.#journaled?.asOf ?? null }
      : options.selection;
    addSelection(options.catalog, selection, plan);
    const layout = this.#layout();
    this.#rate = options.journal?.rateOf(options.target) ?? null;
    const line = this.#line();
    try {
      const connection = await line.open();
      const listed = await connection.list();
      const naming: Naming = { folders: plan.folders(), layout, connection, listed };
      const { appendLimit } = connection;
      const limits = { appendLimit, quotaLeft: await connection.quotaLeft() };
      if (options.dryRun) {
        this.#targets = nameFolders(naming, this.#journaled?.refused ?? '');
        const paths = listed.filter(({ selectable }) => selectable).map(({ path }) => path);
        const permanent = await this.#findExisting(connection, new Set(paths), null);
        this.#expected = this.#expect(limits);
        this.#expectAlterations(permanent);
      } else {
        const { journal } = options;
        if (journal === undefined) throw new Error('a restore needs its journal');
        const plan = { startedAt: options.now(), layout, asOf: options.selection.asOf };
        this.#journaled ??= journal.begin(options.target, key, plan);
        await this.#carryOut(journal, this.#journaled, naming, limits, line);
      }
      this.#checkAllCounted();
      return this.#result(selection.asOf, limits);
    } finally {
      await Promise.all(this.#lines.map((one) => one.close()));
    }
  }

  #line(): Line {
    const line = new Line(this.options);
    this.#lines.push(line);
    return line;
  }

  #layout(): Layout {
    const { destination, now } = this.options;
    const addresses = [...new Set([...this.plan.folders().values()].map(({ address }) => address))];
    if (destination.kind === 'in-place') {
      if (addresses.length > 1)
        throw restoreError('restore-several-mailboxes', { mailboxes: addresses });
      return { kind: 'in-place' };
    }
    // A mailbox added to the archive since then must not change where other messages go.
    if (this.#journaled !== undefined) return this.#journaled.layout;
    const levels = levelsOf(destination, now());
    return { kind: 'below', levels, byAddress: addresses.length > 1 };
  }

  /** Finds messages that are already in these folders. Returns PERMANENTFLAGS by folder number. */
  async #findExisting(
    connection: RestoreConnection,
    paths: ReadonlySet<string>,
    journal: PlanJournal | null,
  ): Promise<ReadonlyMap<number, readonly string[] | null>> {
    const { options, plan } = this;
    const permanent = new Map<number, readonly string[] | null>();
    const read = async (message: PlannedMessage) => {
      const form = await readForm(options.sources, message);
      return typeof form === 'string' ? undefined : form;
    };
    // Wait before selecting a folder, so that late messages are listed.
    const openSince = journal?.openSince() ?? null;
    if (openSince !== null) await options.sleep(msUntilSettled(openSince, options.now()));
    for (const [folder, { path }] of this.#targets) {
      if (!paths.has(path) || options.signal.aborted) continue;
      options.onProgress?.({ step: 'looking', folder: path });
      try {
        const selected = await connection.select(path);
        permanent.set(folder, selected.permanentFlags);
        const deps = { plan, connection, journal, read };
        this.#remade.set(folder, await matchFolder(deps, folder, selected));
      } catch (error) {
        if (!isRestoreError(error, 'restore-refused')) throw error;
        plan.refuseFolder(folder, error.facts.text);
      }
    }
    return permanent;
  }

  /** Predicts alterations that do not depend on a message's bytes. */
  #expectAlterations(permanent: ReadonlyMap<number, readonly string[] | null>): void {
    const { plan } = this;
    for (const folder of plan.folders().keys())
      for (const message of plan.due(folder)) {
        const { altered } = fitMessage(message, permanent.get(folder) ?? null);
        if (altered.length > 0) plan.alter(message.seq, altered);
        countLeftOut(message.flags, this.#leftOut);
      }
  }

  #expect(limits: Limits) {
    const verdicts = fitSizes([...this.plan.sizes()], limits);
    const count = (reason: string): number => verdicts.filter((one) => one === reason).length;
    return { 'append-limit': count('append-limit'), quota: count('quota') };
  }

  async #carryOut(
    journal: RestoreJournal,
    journaled: JournaledPlan,
    naming: Naming,
    limits: Limits,
    line: Line,
  ): Promise<void> {
    const { options, plan } = this;
    try {
      const { targets, refused, failed, made } = await createFolders(naming, journaled);
      this.#targets = targets;
      if (refused !== journaled.refused) journal.refuse(journaled, refused);
      for (const [folder, words] of failed) plan.refuseFolder(folder, words);
      const paths = [...targets]
        .filter(([folder, { path }]) => !failed.has(folder) && !made.has(path))
        .map(([, { path }]) => path);
      await this.#findExisting(await line.open(), new Set(paths), journal.entriesOf(journaled));
      this.#expected = this.#expect(limits);
      await this.#send(journal, journaled, failed, line);
    } catch (error) {
      // A signal ended an attempt to connect.
      const isInterrupted = options.signal.aborted && error === options.signal.reason;
      const isOrigin = error instanceof MailkeepError && error.family === 'origin';
      if (!isInterrupted && !isOrigin) throw error;
      if (isOrigin && !options.signal.aborted) this.#ended = error;
    }
    // The same command retries messages refused for temporary reasons, with the same folders.
    const { quota = 0, folder = 0, server = 0 } = plan.refusals();
    const isDone = this.#ended === null && !options.signal.aborted && quota + folder + server === 0;
    if (isDone) journal.finish(journaled, options.now());
  }

  /** Sends the folders, largest first. Each connection takes the next folder once it is free. */
  async #send(
    journal: RestoreJournal,
    journaled: JournaledPlan,
    failed: ReadonlyMap<number, string>,
    first: Line,
  ): Promise<void> {
    const { options, plan } = this;
    const { jobs, signal } = options;
    const counts = plan.counts();
    // An earlier run may have sent messages without verifying them.
    const hasWork = (folder: number): boolean => {
      const { due = 0, present = 0 } = counts.get(folder) ?? {};
      return due > 0 || (this.#continued && present > 0);
    };
    const queue = [...this.#targets]
      .filter(([folder]) => !failed.has(folder) && hasWork(folder))
      .toSorted(([a], [b]) => (counts.get(b)?.bytes ?? 0) - (counts.get(a)?.bytes ?? 0));
    const shared = shareRun(options, plan, journal.entriesOf(journaled), this.#leftOut);
    const startedAt = options.now();
    const work = async (line: Line): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const [folder, { path }] = next;
        if (signal.aborted) return;
        const result = await new FolderRun(shared, line, folder, path).all();
        if (result !== undefined) this.#results.push(result);
      }
    };
    const workers = Array.from({ length: Math.min(jobs, queue.length) - 1 }, async () => {
      const line = this.#line();
      try {
        await line.open();
      } catch (error) {
        if (error instanceof MailkeepError || signal.aborted) return;
        throw error;
      }
      this.#connections += 1;
      await work(line);
    });
    const outcomes = await Promise.allSettled([work(first), ...workers]);
    const elapsed = Math.max(1, options.now() - startedAt) / 1000;
    const { done, bytes } = shared.settled;
    if (done > 0 && bytes > 0) {
      this.#rate = { messagesPerSecond: done / elapsed, bytesPerSecond: bytes / elapsed };
      journal.measured(journaled, this.#rate);
    }
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  #checkAllCounted(): void {
    const { options, plan } = this;
    let accounted = 0;
    for (const { due, appended, present, refused } of plan.counts().values()) {
      const isOver = options.dryRun || options.signal.aborted || this.#ended !== null;
      accounted += appended + present + refused + (isOver ? due : 0);
    }
    if (accounted !== plan.added())
      throw restoreError('restore-incomplete', { planned: plan.added(), accounted });
  }

  #result(asOf: number | null, limits: Limits) {
    const { options, plan } = this;
    const { number, hash } = options.catalog.reached();
    const total = { planned: 0, due: 0, appended: 0, present: 0, refused: 0, bytes: 0 };
    const counts = plan.counts();
    const folders = [...plan.folders()].map(([folder, { address, path }]) => {
      const sums = counts.get(folder) ?? total;
      for (const key of ['planned', 'due', 'appended', 'present', 'refused', 'bytes'] as const)
        total[key] += sums[key];
      const target = this.#targets.get(folder);
      return {
        mailbox: address,
        folder: path,
        to: target?.path ?? null,
        /** True if characters were replaced, or if a number was added because the name was taken. */
        ...{ replaced: target?.replaced ?? false, numbered: target?.numbered ?? false },
        /** Messages appended under this plan to a folder that was later deleted and recreated. */
        remade: this.#remade.get(folder) ?? 0,
        ...sums,
      };
    });
    return {
      to: options.target,
      plan: this.#journaled?.number ?? null,
      continued: this.#continued,
      begun: this.#journaled === undefined ? null : isoTime(this.#journaled.startedAt),
      dryRun: options.dryRun,
      commit: { number, hash },
      asOf: asOf === null ? null : isoTime(asOf),
      ...{ folders, ...total, limits, expected: this.#expected, rate: this.#rate },
      refusals: plan.refusals(),
      failures: plan.refused(MAX_NAMED),
      /** Messages that differ from the archive or, in a dry run, whose flags or dates will differ. */
      altered: plan.alterations(),
      alterations: plan.altered(MAX_NAMED),
      leftOut: this.#leftOut,
      looked: {
        compared: sumOf(this.#results, ({ compared }) => compared),
        fetched: sumOf(this.#results, ({ fetched }) => fetched),
      },
      lost: this.#results.flatMap(({ lost }) => lost),
      doubled: this.#results.flatMap(({ doubled }) => doubled),
      connections: this.#connections,
      interrupted: options.signal.aborted,
      ended: this.#ended,
    };
  }
}

function isoTime(time: number): string {
  return new Date(time).toISOString();
}

function sumOf<T>(values: readonly T[], part: (value: T) => number): number {
  return values.reduce((sum, value) => sum + part(value), 0);
}

/** Returns the key that identifies a command in the journal: its selection and destination. */
function selectionKey({ selection, destination }: RestoreOptions): string {
  const { query, mailboxes, folders, asOfText, deleted } = selection;
  const places = [[...mailboxes].sort(), [...folders].sort()];
  return JSON.stringify([query?.text ?? null, ...places, asOfText, deleted, destination]);
}

function levelsOf(
  destination: Exclude<Destination, { kind: 'in-place' }>,
  now: number,
): readonly string[] {
  if (destination.kind === 'into') return destination.levels;
  const day = new Date(now);
  const two = (value: number): string => String(value).padStart(2, '0');
  return ['Restored', `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`];
}
