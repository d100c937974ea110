import { createWriteStream, rmSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { type Fact, isHash, parseJson } from '../archive/format.ts';
import { type LogReader, openLogReader, scanLog } from '../archive/log-reader.ts';
import { DEFAULT_CODEC } from '../archive/payload.ts';
import { openCatalog, type WritableCatalog } from '../catalog/catalog.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import { makeSearchable, openWriter, type Writer } from '../catalog/open-writer.ts';
import { systemClock } from '../core/concurrency.ts';
import type { RetentionSettings } from '../core/config-schema.ts';
import { MailkeepError } from '../core/errors.ts';
import type { FolderKey, Listing, MessageId, Place } from '../core/types.ts';
import { Committer } from '../sync/committer.ts';
import { catalogMirror } from '../sync/mirror.ts';
import type { FetchedSource } from '../sync/ports.ts';
import {
  finishPurge,
  journalForget,
  journalPrune,
  type PlanningContext,
  planForget,
  planRemoval,
  preparePrune,
} from '../verify/purge.ts';
import type { DecidedPurge } from './claims.ts';
import { hasSegments, purgeMark, readNote, writeNote } from './take-over.ts';

/** What a purge removes. Sealed by a key of the fleet in the registry. */
const mailboxes = z.array(z.strictObject({ host: z.string(), mailbox: z.string() })).readonly();
const work = z.strictObject({
  messages: z.array(z.custom<MessageId>(isHash)).readonly(),
  /** Mailboxes that lose the messages, such as those of one customer. If absent, all mailboxes do. */
  from: mailboxes.optional(),
  /** Whole mailboxes, with messages that no other mailbox has. */
  mailboxes: mailboxes.default([]),
});
type PurgeWork = Readonly<z.output<typeof work>>;

export function encodeWork(content: z.input<typeof work>): Buffer {
  return Buffer.from(JSON.stringify(content), 'utf8');
}

/** @throws ZodError if it is not what `encodeWork` returned */
function decodeWork(bytes: Buffer): PurgeWork {
  return work.parse(parseJson(bytes.toString('utf8')));
}

type ExclusiveContext = Pick<EngineContext, 'signal' | 'report'> & PlanningContext;

/** Decrypts the work of a purge. */
type Unseal = (sealed: Buffer) => Buffer;

/**
 * Carries out purges in a folder whose daemon is stopped, in order. A folder from the bucket may have the commit of a
 * purge and all the bytes, so what was not recorded as done is done again.
 *
 * @param retention of the configuration, for pruned messages: those that it no longer lets go are kept
 * @returns the number of purges that are done
 * @throws errors of the archive: purges before the failed one are recorded as done
 */
export async function carryOutPurges(
  context: ExclusiveContext,
  dir: string,
  purges: readonly DecidedPurge[],
  unseal: Unseal,
  retention?: RetentionSettings,
): Promise<number> {
  const note = readNote(dir);
  if (note === undefined) throw new Error(`${dir} was not taken over`);
  let { done } = note;
  for (const purge of purges) {
    const { number, reason, work: sealed } = purge;
    if (number <= done) continue;
    const asked = decodeWork(unseal(sealed));
    // One that was interrupted comes first. It closes the writer, because the catalog is rebuilt.
    await withWriter(context, dir, (writer) => finishPurge(context, writer));
    if (reason === 'forgotten') await forget(context, dir, asked);
    else if (retention !== undefined) await prune(context, dir, asked.messages, retention);
    done = number;
    await writeNote(dir, { ...note, done, last: purgeMark(purge) });
  }
  return done;
}

async function forget(
  context: ExclusiveContext,
  dir: string,
  { messages, from, mailboxes: gone }: PurgeWork,
): Promise<void> {
  await withWriter(context, dir, async (writer) => {
    const { catalog, log } = writer;
    const asked = messages.map((message) => ({ message }));
    const plan = await planForget(writer, asked, context.signal, from);
    // The service may still have messages that an earlier holder knew and did not ship.
    const unknown = messages.filter(
      (id) =>
        from === undefined &&
        catalog.messages.docidOf(id) === undefined &&
        catalog.messages.purgedFor(id) !== 'forgotten' &&
        !plan.facts.some(({ message }) => message === id),
    );
    const facts = [
      ...plan.facts,
      ...unknown.map((message) => ({ fact: 'purged', message, reason: 'forgotten' }) as const),
    ];
    if (plan.purgeSearch.records.size > 0) {
      await journalForget(writer, { ...plan, facts });
      await finishPurge(context, writer);
    } else if (facts.length > 0) {
      // Nothing has to go, so the catalog stays as it is.
      const batch = log.newBatch();
      for (const fact of facts) batch.addFact(fact);
      catalog.foldBatch(await log.commit(batch));
    }
  });
  await withWriter(context, dir, async (writer) => {
    const effect = writer.catalog.ended.removable(gone);
    if (effect.parts.length === 0) return;
    await journalForget(writer, await planRemoval(writer, effect, context.signal));
    await finishPurge(context, writer);
  });
}

async function prune(
  context: ExclusiveContext,
  dir: string,
  messages: readonly MessageId[],
  retention: RetentionSettings,
): Promise<void> {
  await withWriter(context, dir, async (writer) => {
    const plan = preparePrune(context, writer.catalog, writer.state, retention);
    const wanted = new Set(messages);
    const pruned = plan.prune.filter(({ id }) => wanted.has(id));
    if (pruned.length === 0) return;
    await journalPrune(writer, { ...plan, prune: pruned }, context.signal);
    await finishPurge(context, writer);
  });
}

/** Returns what the configuration allows to be pruned now, for a purge that is decided before anything is removed. */
export async function findPrunable(
  context: ExclusiveContext,
  dir: string,
  retention: RetentionSettings,
): Promise<readonly MessageId[]> {
  return withWriter(context, dir, async ({ catalog, state }) =>
    preparePrune(context, catalog, state, retention).prune.map(({ id }) => id),
  );
}

/** Brings the index of a folder up to date, as its daemon would. */
export async function updateIndex(context: ExclusiveContext, dir: string): Promise<void> {
  if (!hasSegments(dir)) return;
  await withWriter(context, dir, ({ catalog }) => makeSearchable(catalog, dir, context.signal));
}

async function withWriter<T>(
  context: ExclusiveContext,
  dir: string,
  act: (writer: Writer) => Promise<T>,
): Promise<T> {
  const writer = await openWriter(context, dir, DEFAULT_CODEC);
  try {
    return await act(writer);
  } finally {
    await writer.close();
  }
}

export interface MergeResult {
  /** Messages that only the folder had. */
  readonly merged: number;
  /** Messages that were forgotten or pruned since. */
  readonly purged: number;
  /** Messages of the folder that cannot be read. */
  readonly damaged: number;
}

/** A place at which only a folder that ran ahead has a message. */
interface FoundPlace {
  readonly message: MessageId;
  readonly place: Place;
  readonly listing: Listing;
}

/** Larger sources pass through a file. */
const MAX_BUFFERED_BYTES = 8 * 1024 * 1024;

/**
 * Adds the messages that only a folder that ran ahead has to the shard's folder, as messages that were deleted at the
 * service: if the service still has them, a sync finds them there. An interrupted merge is continued by the next one.
 * The daemon is stopped, and all purges have been carried out in the shard's folder.
 *
 * @param generation UID epoch of the merged places: negative, so that the service never gets to it
 * @param purges all purges since the folder's last manifest, also those that have ended
 * @throws errors of the archive; of the folder that ran ahead, only what can be read is merged
 */
export async function mergeFolder(
  context: ExclusiveContext,
  { dir, aside, generation }: { dir: string; aside: string; generation: number },
  purges: readonly DecidedPurge[],
  unseal: Unseal,
): Promise<MergeResult> {
  if (!hasSegments(aside)) return { merged: 0, purged: 0, damaged: 0 };
  const gone = new Set(
    purges.flatMap((purge) =>
      decodeWork(unseal(purge.work)).mailboxes.map(({ host, mailbox }) => `${host}\0${mailbox}`),
    ),
  );
  return withWriter(context, dir, async (writer) => {
    const file = path.join(writer.spoolDir, 'merge.sqlite');
    const theirs = await openCatalog(aside, file);
    const sources = openLogReader({ dir: aside, locator: theirs.locator });
    try {
      const found = await findMissing(aside, theirs, writer.catalog);
      const merge = new Merge(context, writer, theirs, sources, generation);
      for (const one of found) {
        context.signal.throwIfAborted();
        const { host, mailbox } = one.place;
        await merge.add(one, gone.has(`${host}\0${mailbox}`));
      }
      const result = await merge.finish();
      // The next daemon would, but there is none if all accounts are paused.
      if (result.merged > 0) await makeSearchable(writer.catalog, dir, context.signal);
      return result;
    } finally {
      sources.close();
      theirs.close();
    }
  });
}

/** Folds as much of a log as can be read, and returns places of messages that another catalog does not have. */
async function findMissing(
  dir: string,
  theirs: WritableCatalog,
  ours: WritableCatalog,
): Promise<readonly FoundPlace[]> {
  const found: FoundPlace[] = [];
  /** Listings of matched messages, whose bytes a later fact may correct. */
  const assumed = new Map<string, Listing>();
  let acrossGap = false;
  const note = (fact: Fact): void => {
    if (fact.fact !== 'appeared' && fact.fact !== 'verified') return;
    const { host, mailbox, folder, generation, uid, message } = fact;
    const place = { host, mailbox, folder, generation, uid };
    const key = JSON.stringify(place);
    if (fact.fact === 'appeared' && fact.assumedFrom !== undefined) assumed.set(key, fact.listing);
    const listing = fact.fact === 'appeared' ? fact.listing : assumed.get(key);
    const isMissing = listing !== undefined && ours.messages.docidOf(message) === undefined;
    if (isMissing) found.push({ message, place, listing });
  };
  for await (const event of scanLog({ dir })) {
    if (event.what === 'damage') acrossGap = true;
    if (event.what !== 'batch') continue;
    theirs.foldBatch(event.batch, { acrossGap });
    for (const record of event.batch.records) if (record.kind === 'fact') note(record.fact);
  }
  return found;
}

class Merge {
  readonly #counts = { merged: 0, purged: 0, damaged: 0 };
  readonly #committer: Committer;
  readonly #added = new Set<MessageId>();
  /** Highest UIDs of the merged places, by folder. */
  readonly #uids = new Map<string, number>();

  constructor(
    { now }: Pick<ExclusiveContext, 'now'>,
    private readonly writer: Writer,
    private readonly theirs: WritableCatalog,
    private readonly sources: LogReader,
    private readonly generation: number,
  ) {
    this.#committer = new Committer({
      log: writer.log,
      mirror: catalogMirror(writer.catalog),
      now,
      after: (ms, act) => systemClock.after(ms, act),
    });
  }

  async add({ message, place, listing }: FoundPlace, isGone: boolean): Promise<void> {
    const { messages } = this.writer.catalog;
    const isPurged =
      messages.purgedFor(message) !== undefined ||
      messages.forgottenAs(message, place) !== undefined;
    if (isGone || isPurged) {
      this.#counts.purged += 1;
      return;
    }
    const source = await this.#read(message);
    if (source === undefined) {
      this.#counts.damaged += 1;
      return;
    }
    if (!this.#added.has(message)) this.#counts.merged += 1;
    this.#added.add(message);
    const key = { host: place.host, mailbox: place.mailbox, folder: place.folder };
    const at = { ...key, generation: this.generation, uid: this.#nextUid(key) };
    await this.#committer.storeSource(at, listing, source, {}, () => undefined);
    this.#committer.addFact({ fact: 'ended', ...at, reason: 'merged' });
  }

  async finish(): Promise<MergeResult> {
    await this.#committer.flush();
    return this.#counts;
  }

  /** Returns undefined if the bytes are damaged, or purged in the folder itself. */
  async #read(message: MessageId): Promise<FetchedSource | undefined> {
    try {
      const size = this.sources.sizeOf(message);
      if (size <= MAX_BUFFERED_BYTES) {
        return { kind: 'buffer', bytes: this.sources.readMessage(message) };
      }
      // Nobody else writes there, and one message is read at a time.
      const file = path.join(this.writer.spoolDir, 'merge.eml');
      rmSync(file, { force: true });
      const pieces = Readable.from(this.sources.streamMessage(message));
      await pipeline(pieces, createWriteStream(file, { mode: 0o600 }));
      return { kind: 'file', path: file, size, sha256: message };
    } catch (error) {
      const isUnreadable =
        error instanceof MailkeepError &&
        (error.family === 'damage' || error.code.startsWith('bytes-'));
      if (isUnreadable) return undefined;
      throw error;
    }
  }

  #nextUid(key: FolderKey): number {
    const id = JSON.stringify([key.host, key.mailbox, key.folder]);
    const uid = (this.#uids.get(id) ?? this.#enter(key)) + 1;
    this.#uids.set(id, uid);
    return uid;
  }

  /** Enters the mailbox and the folder unless they are known. Returns the highest UID of an earlier attempt, or 0. */
  #enter(key: FolderKey): number {
    const { folders } = this.writer.catalog;
    const { host, mailbox } = key;
    if (folders.mailbox(key) === undefined) {
      const { address = mailbox } = this.theirs.folders.mailbox(key) ?? {};
      const account = this.theirs.folders
        .accountMailboxes()
        .find((one) => one.host === host && one.mailbox === mailbox)?.account;
      const owner = account === undefined ? {} : { account };
      this.#committer.addFact({ fact: 'mailbox', host, mailbox, address, ...owner });
    }
    const known = folders.find(key);
    if (known !== undefined) return folders.highestUid(known.id, this.generation);
    if (folders.epoch(key) === undefined) {
      const {
        name = key.folder,
        delimiter = '.',
        specialUse = null,
        generation = 1,
      } = this.theirs.folders.find(key) ?? {};
      const facts = { name, delimiter, specialUse, generation };
      this.#committer.addFact({ fact: 'folder', ...key, ...facts });
    }
    return 0;
  }
}
