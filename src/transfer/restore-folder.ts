import { setImmediate as nextTurn } from 'node:timers/promises';
import { isRestoreError, type restoreError } from './errors.ts';
import type { SelectedFolder, ServerConnection } from './imap-connection.ts';
import type { PlannedMessage, RefusalReason, RestorePlan } from './plan-restore.ts';
import {
  type Alteration,
  changesIn,
  type FoundMessage,
  fitFlags,
  fitMessage,
  isNear,
  messageIdOf,
  restOfUnknown,
  type SentForm,
} from './restore-comparison.ts';
import type { Line, PlanJournal } from './restore-journal.ts';
import { whyUnreadable } from './restore-selection.ts';
import { type SecondLook, secondLook } from './verify-restored.ts';

/** A command that was answered with NO or BAD. */
type Refused = ReturnType<typeof restoreError<'restore-refused'>>['facts'];

/** A message that is read, and how it is sent. */
interface Ready {
  readonly message: PlannedMessage;
  readonly form: SentForm;
}

/** A message, and how it is sent or why its bytes are not there. */
interface ReadMessage {
  readonly message: PlannedMessage;
  readonly form: SentForm | 'damaged' | 'purged';
}

/** Messages that go together. */
interface Batch {
  /** Bytes of all of them. */
  readonly size: number;
  readonly read: () => Promise<ReadMessage[]>;
}

/** Bytes of messages that go together, and are read while others are under way; a larger one goes alone. */
const MOST_TOGETHER = 512 * 1024;

/** The messages of a folder in batches, each read while the one before it is sent. */
class Batches {
  #next: PlannedMessage | undefined;

  /** @param read returns a message as it is sent, or why its bytes are not there */
  constructor(
    private readonly due: Iterator<PlannedMessage, void>,
    private readonly read: (message: PlannedMessage) => Promise<SentForm | 'damaged' | 'purged'>,
  ) {
    this.#take();
  }

  /** Returns the next messages, at most so many, and begins to read them unless they are large; undefined at the end. */
  next(most: number): Batch | undefined {
    const messages: PlannedMessage[] = [];
    let size = 0;
    for (let next = this.#next; next !== undefined; next = this.#next) {
      const isFull = messages.length >= most || size + next.size > MOST_TOGETHER;
      if (messages.length > 0 && isFull) break;
      messages.push(next);
      size += next.size;
      this.#take();
    }
    if (messages.length === 0) return undefined;
    if (size > MOST_TOGETHER) return { size, read: () => this.#readAll(messages) };
    const reading = this.#readAll(messages);
    // Whoever wants them gets the error; it may come before that.
    reading.catch(() => {});
    return { size, read: () => reading };
  }

  async #readAll(messages: readonly PlannedMessage[]): Promise<ReadMessage[]> {
    const all: ReadMessage[] = [];
    for (const message of messages) {
      // Reading does not wait for anything, and the server's answer is not to wait for all of it.
      await nextTurn();
      all.push({ message, form: await this.read(message) });
    }
    return all;
  }

  #take(): void {
    const { value } = this.due.next();
    this.#next = value ?? undefined;
  }
}

/**
 * Returns the uids of messages with these bytes, as the server may have changed them, among those of the selected folder
 * with higher uids: each uid once.
 */
async function lastOnes(
  connection: ServerConnection,
  after: number,
  ready: readonly { readonly form: SentForm }[],
): Promise<(number | undefined)[]> {
  const there: FoundMessage[] = [];
  for await (const found of connection.messages(after + 1)) there.push(found);
  const uids: (number | undefined)[] = [];
  const taken = new Set<number>();
  for (const { form } of ready) {
    const uid = await lastOne(connection, there, taken, form);
    if (uid !== undefined) taken.add(uid);
    uids.push(uid);
  }
  return uids;
}

async function lastOne(
  connection: ServerConnection,
  there: readonly FoundMessage[],
  taken: ReadonlySet<number>,
  form: SentForm,
): Promise<number | undefined> {
  const messageId = messageIdOf(form.head);
  for (const { uid, ...found } of there) {
    if (taken.has(uid) || found.messageId !== messageId || !isNear(form.size, found.size)) continue;
    if ((await changesIn(form, connection.pieces(uid))) !== undefined) return uid;
  }
  return undefined;
}

const TOO_LARGE: ReadonlySet<string> = new Set(['APPENDLIMIT', 'TOOBIG']);
const NO_FOLDER: ReadonlySet<string> = new Set(['NOPERM', 'READ-ONLY', 'TRYCREATE', 'NONEXISTENT']);

/** What a refusal of APPEND is about (RFC 5530; RFC 7889 for sizes); older servers say it in words only. */
function verdictOn({ response, text }: Refused): RefusalReason {
  if (response === 'OVERQUOTA' || /over ?quota|quota exceeded/i.test(text)) return 'quota';
  if (response !== null && TOO_LARGE.has(response)) return 'append-limit';
  if (response !== null && NO_FOLDER.has(response)) return 'folder';
  if (/permission denied|read-?only/i.test(text)) return 'folder';
  // Of LIMIT, only the words say what is limited.
  const isOfSize =
    /too (?:big|large)/i.test(text) || (response === 'LIMIT' && /siz|larg/i.test(text));
  return isOfSize ? 'append-limit' : 'server';
}

/** A message that breaks the connection this often is refused, so that the others get their turn. */
const MOST_BREAKS = 3;

/** What all folders of a run share. */
export interface SharedRun {
  readonly plan: RestorePlan;
  readonly journal: PlanJournal;
  /** Returns a message as it is sent, or why its bytes are not there. */
  readonly read: (message: PlannedMessage) => Promise<SentForm | 'damaged' | 'purged'>;
  readonly now: () => number;
  /** Resolves after so many milliseconds, or at once when the run is to stop. */
  readonly sleep: (ms: number) => Promise<void>;
  readonly signal: AbortSignal;
  /** Waits for its turn with a large message, so that one at most is under way. */
  readonly inTurn: <T>(size: number, act: () => Promise<T>) => Promise<T>;
  /** @param sent bytes on the wire; 0 for what was not sent */
  readonly onSettled: (sent: number) => void;
  /** Flags that are never sent, counted. */
  readonly leftOut: { recent: number; deleted: number };
  /** Bytes from which on the quota has no room; messages of this size are not sent any more. */
  readonly quota: { floor: number };
}

/** The folder on a connection. */
interface Opened {
  readonly connection: ServerConnection;
  readonly selected: SelectedFolder;
}

/** A message under way. */
interface Sent {
  readonly seq: number;
  /** Its number in the journal. */
  readonly entry: number;
  /** Bytes on the wire. */
  readonly size: number;
  readonly isDelicate: boolean;
  readonly altered: readonly Alteration[];
}

/** Bytes of a message that is sent before the server has said that it takes it. */
const MOST_UNASKED = 1024 * 1024;

/** Sends what is due in one folder, in order, and looks at all of it at the end. */
export class FolderRun {
  #opened: Opened | undefined;
  #unsettled: (() => void) | undefined;
  /** The server takes no message into it. */
  #isRefused = false;
  /** No message that the folder had before the one under way has a higher uid. */
  #lastUid = 0;

  constructor(
    private readonly shared: SharedRun,
    private readonly line: Line,
    /** Its number in the plan. */
    private readonly folder: number,
    private readonly path: string,
  ) {}

  /**
   * Returns what the second look found; undefined where the signal ended it, or the server does not open the folder (any
   * more).
   *
   * @throws restore-gave-up
   */
  async all(): Promise<SecondLook | undefined> {
    const { plan, signal } = this.shared;
    try {
      this.#lastUid = (await this.#persist(() => this.#open())).selected.lastUid;
      await this.#sendAll();
    } catch (error) {
      if (!isRestoreError(error, 'restore-refused')) throw error;
      plan.refuseFolder(this.folder, error.facts.text);
      return undefined;
    } finally {
      this.#settleLast();
    }
    if (signal.aborted) return undefined;
    return this.#persist(async () => {
      const { connection, selected } = await this.#open();
      return secondLook(this.shared, connection, this.folder, selected.permanentFlags);
    });
  }

  async #sendAll(): Promise<void> {
    const { plan, signal, inTurn, read } = this.shared;
    const batches = new Batches(plan.due(this.folder), read);
    const most = (): number => this.#opened?.connection.mostAtOnce ?? 1;
    let next = batches.next(most());
    while (next !== undefined && !this.#isRefused && !signal.aborted) {
      const { size, read: readAll } = next;
      const sent = inTurn(size, async () => this.#restore(await readAll()));
      next = batches.next(most());
      await sent;
    }
  }

  async #restore(batch: readonly ReadMessage[]): Promise<void> {
    const { plan, leftOut, onSettled } = this.shared;
    const ready: Ready[] = [];
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

  /** @param breaks how often each of them has broken the connection before */
  async #sendEach(ready: readonly Ready[], breaks = 0): Promise<void> {
    const { plan, quota } = this.shared;
    for (const one of ready) {
      if (this.#isRefused) return;
      if (one.form.size >= quota.floor) plan.refuse(one.message.seq, 'quota', null);
      else await this.#send([one], breaks);
    }
  }

  /** Sends messages in one command until the server has answered; one by one where it refuses them together. */
  async #send(ready: readonly Ready[], breaksBefore = 0): Promise<void> {
    const { journal, now, signal } = this.shared;
    const [first] = ready;
    const alone = ready.length === 1 ? first : undefined;
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
      const append = async (): Promise<readonly number[] | null> => {
        const messages = sent.map(({ flags, date, size }, i) => ({
          ...{ flags, date, size },
          content: ready[i]?.form.content ?? Buffer.alloc(0),
        }));
        // Some servers end the connection over a message that they find too large.
        const asks = breaks > 0 || sent.some(({ size }) => size > MOST_UNASKED);
        const answer = connection.append(this.path, messages, asks);
        answer.catch(() => {});
        await nextTurn();
        this.#settleLast();
        return answer;
      };
      try {
        const uids = await append();
        this.line.worked();
        this.#settled(sent, uids);
        // Without UIDPLUS, what comes next is recognised by the folder's next uid.
        if (uids === null)
          this.#lastUid = (await this.#persist(() => this.#reopen())).selected.lastUid;
        return;
      } catch (error) {
        if (isRestoreError(error, 'restore-connection-lost')) {
          breaks += 1;
          const uids = await this.#afterLoss(error, ready, now());
          // Whether they are there, the next run finds out.
          if (uids === undefined) return;
          const rest = this.#settleFound(ready, sent, uids);
          if (alone !== undefined && rest.length > 0 && breaks < MOST_BREAKS) continue;
          if (breaks < MOST_BREAKS) return this.#sendEach(rest, breaks);
          for (const { message } of rest) this.shared.plan.refuse(message.seq, 'server', BROKE);
          return;
        }
        for (const { entry } of sent) journal.forget(entry);
        const unreadable = whyUnreadable(error);
        if (alone !== undefined && unreadable !== undefined) {
          this.shared.plan.refuse(alone.message.seq, unreadable, null);
          return this.line.close();
        }
        if (!isRestoreError(error, 'restore-refused')) {
          await this.line.recover(error);
          continue;
        }
        this.line.worked();
        const verdict = verdictOn(error.facts);
        if (verdict === 'folder') return this.#refuseFolder(error.facts);
        if (alone === undefined) return this.#sendEach(ready);
        // Some servers refuse a message for a keyword that they do not like.
        const hasKeywords = sent[0]?.flags.some((flag) => !flag.startsWith('\\')) === true;
        if (verdict !== 'server' || !hasKeywords || isPlain)
          return this.#refuse(alone, verdict, error.facts);
        isPlain = true;
      }
    }
  }

  /** Records which messages the server has after all; returns the others, which may be sent again. */
  #settleFound(
    ready: readonly Ready[],
    sent: readonly Sent[],
    uids: readonly (number | undefined)[],
  ): Ready[] {
    const { plan, journal } = this.shared;
    const rest: Ready[] = [];
    const there: Sent[] = [];
    const theirs: number[] = [];
    for (const [i, one] of sent.entries()) {
      const [uid, again] = [uids[i], ready[i]];
      if (uid !== undefined) {
        there.push(one);
        theirs.push(uid);
      } else if (again !== undefined) {
        journal.forget(one.entry);
        plan.sentAgain(one.seq);
        rest.push(again);
      }
    }
    this.#settled(there, theirs);
    this.#settleLast();
    return rest;
  }

  /** Has messages recorded as appended once the next ones are under way: the server need not wait for that. */
  #settled(sent: readonly Sent[], uids: readonly number[] | null): void {
    const { plan, journal } = this.shared;
    this.#lastUid = Math.max(this.#lastUid, ...(uids ?? []));
    this.#unsettled = () =>
      journal.together(() => {
        for (const [i, { seq, size, isDelicate, altered, entry }] of sent.entries()) {
          const uid = uids?.[i] ?? null;
          journal.settle(entry, uid);
          plan.appended(seq, uid, size, isDelicate);
          if (altered.length > 0) plan.alter(seq, altered);
        }
      });
  }

  #settleLast(): void {
    const settle = this.#unsettled;
    this.#unsettled = undefined;
    settle?.();
  }

  /** Flags and date as the folder takes them, and in what they differ from the archive's. */
  #fit(message: PlannedMessage, form: SentForm, selected: SelectedFolder, isPlain: boolean) {
    const { flags: kept, date, altered } = fitMessage(message, selected.permanentFlags);
    const flags = isPlain ? kept.filter((flag) => flag.startsWith('\\')) : kept;
    const more: Alteration[] = form.endings ? ['line-endings'] : [];
    if (flags.length < kept.length) more.push('flags');
    return { flags, date, altered: [...more, ...altered] };
  }

  #refuse({ message, form }: Ready, verdict: RefusalReason, { text }: Refused): void {
    const { plan, quota } = this.shared;
    plan.refuse(message.seq, verdict, text);
    if (verdict === 'quota') quota.floor = Math.min(quota.floor, form.size);
  }

  #refuseFolder({ text }: Refused): void {
    this.#isRefused = true;
    this.shared.plan.refuseFolder(this.folder, text);
  }

  /** The uids of messages whose APPEND broke the connection, as far as the server has them; undefined once it is to end. */
  async #afterLoss(
    error: unknown,
    ready: readonly Ready[],
    lostAt: number,
  ): Promise<(number | undefined)[] | undefined> {
    const { now, sleep, signal } = this.shared;
    await this.line.recover(error);
    await sleep(restOfUnknown(lostAt, now()));
    if (signal.aborted) return undefined;
    return this.#persist(async () => {
      const { connection } = await this.#reopen();
      return lastOnes(connection, this.#lastUid, ready);
    });
  }

  /** Selects the folder on whatever connection there is. */
  async #open(): Promise<Opened> {
    const connection = await this.line.open();
    if (this.#opened?.connection === connection) return this.#opened;
    return this.#reopen();
  }

  async #reopen(): Promise<Opened> {
    const connection = await this.line.open();
    const selected = await connection.select(this.path);
    const before = this.#opened?.selected.uidValidity;
    // A folder that was made again has uids of its own.
    if (before !== undefined && before !== selected.uidValidity) this.#lastUid = 0;
    this.#opened = { connection, selected };
    return this.#opened;
  }

  /** Repeats what only reads until a connection holds. @throws restore-refused, restore-gave-up */
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

/** Adds the flags of a message that are never sent. */
export function countLeftOut(flags: readonly string[], counts: SharedRun['leftOut']): void {
  for (const flag of fitFlags(flags, null).leftOut)
    counts[flag.toLowerCase() === '\\recent' ? 'recent' : 'deleted'] += 1;
}

const BROKE = 'the connection broke each time it was sent';
