import { setImmediate as nextTurn } from 'node:timers/promises';
import { archiveError } from '../archive/errors.ts';
import type { FileLayer } from '../archive/file-system.ts';
import { type Fact, forgottenId, RECORD_KIND, type RemovedRange } from '../archive/format.ts';
import { blobsOf, interpretRecord, readMessagePayload } from '../archive/payload.ts';
import { listSegments, openCurrentGeneration } from '../archive/segment-files.ts';
import { segmentBatches, type VisitResult } from '../archive/segment-reader.ts';
import type { BlobHash, MailboxKey, MessageId, Place } from '../core/types.ts';
import { fingerprint } from '../mail/identity.ts';

type WalkedRecord =
  | { readonly kind: 'blob'; readonly hash: BlobHash }
  | { readonly kind: 'message'; readonly id: MessageId; readonly blobs: readonly BlobHash[] }
  | { readonly kind: 'fact'; readonly fact: Fact };

/** A position that is the same in every generation of the segment. */
interface RecordAt {
  readonly segment: number;
  readonly ordinal: number;
  readonly commit: number;
}

/**
 * Yields every committed record with its payload, in log order. Any damage is an error, because an incomplete log does
 * not reveal which data is shared.
 *
 * @throws `log-damaged`; the signal's reason
 */
async function* walkLog(
  files: FileLayer,
  dir: string,
  signal: AbortSignal,
): AsyncGenerator<WalkedRecord & { readonly at: RecordAt }, void, undefined> {
  const listing = listSegments(files, dir);
  for (const [index, [segment, generations]] of [...listing].entries()) {
    const opened = openCurrentGeneration(files, dir, segment, generations);
    const damaged = (reason: 'segment-missing' | 'commit' | 'bytes', offset: number) =>
      archiveError('log-damaged', { file: opened.path, segment, offset, reason });
    try {
      if (segment !== index + 1) throw damaged('segment-missing', 0);
      for (const item of segmentBatches(opened, { digest: false }, visit)) {
        signal.throwIfAborted();
        const [problem] = item.problems;
        if (item.what === 'remainder') {
          if (index < listing.size - 1) throw damaged('commit', item.offset);
          break;
        }
        if (problem !== undefined) {
          throw archiveError('log-damaged', { file: opened.path, segment, ...problem });
        }
        const commit = item.commit.number;
        for (const { value, ordinal } of item.records)
          yield { ...value, at: { segment, ordinal, commit } };
        await nextTurn();
      }
    } finally {
      opened.file.close();
    }
  }
}

function visit(record: Parameters<typeof interpretRecord>[0]): VisitResult<WalkedRecord> {
  if (record.kind !== RECORD_KIND.message) {
    const parsed = interpretRecord(record);
    if (parsed === undefined || 'problem' in parsed) return parsed;
    return parsed.value.kind === 'message' ? undefined : { value: parsed.value };
  }
  const message = readMessagePayload(record.payload);
  if (message === undefined) return { problem: 'recipe' };
  const { sha256: id, parts } = message.recipe;
  return { value: { kind: 'message', id, blobs: parts.flatMap(blobsOf) } };
}

/** The facts about one place, in log order. Its uid may have belonged to several messages in turn. */
class PlaceStory {
  /** Facts about one message, until the next message appears. */
  readonly #episodes: {
    owner: MessageId;
    readonly fingerprints: Set<string>;
    readonly records: RecordAt[];
  }[] = [];
  /** Facts about attempts to fetch a listed message, by its fingerprint. */
  readonly #attempts = new Map<string, { records: RecordAt[]; kept: Set<BlobHash> }>();
  #latest: { records: RecordAt[]; kept: Set<BlobHash> } | undefined;

  add(fact: Fact, at: RecordAt): void {
    switch (fact.fact) {
      case 'appeared': {
        const current = this.#episodes.at(-1);
        const print = fingerprint(fact.listing);
        if (current?.owner === fact.message) {
          current.fingerprints.add(print);
          current.records.push(at);
          return;
        }
        this.#episodes.push({
          owner: fact.message,
          fingerprints: new Set([print]),
          records: [at],
        });
        return;
      }
      case 'verified': {
        const current = this.#episodes.at(-1);
        if (current === undefined) return;
        current.owner = fact.message;
        current.records.push(at);
        return;
      }
      case 'flags':
      case 'ended':
      case 'reopened':
      case 'held':
        this.#episodes.at(-1)?.records.push(at);
        return;
      case 'quarantined': {
        const print = fingerprint(fact.listing);
        this.#latest = this.#attempts.get(print) ?? { records: [], kept: new Set() };
        this.#attempts.set(print, this.#latest);
        this.#latest.records.push(at);
        if (fact.kept !== undefined) this.#latest.kept.add(fact.kept);
        return;
      }
      case 'released':
      case 'acknowledged':
        this.#latest?.records.push(at);
        return;
      default:
    }
  }

  /** @param allAttempts also forget every incomplete message at this place */
  split(isGoing: (id: MessageId) => boolean, allAttempts: boolean) {
    const episodes = this.#episodes.filter(({ owner }) => isGoing(owner));
    const prints = new Set(episodes.flatMap(({ fingerprints }) => [...fingerprints]));
    const going = episodes.flatMap(({ records }) => records);
    const stillKept = new Set<BlobHash>();
    for (const [print, { records, kept }] of this.#attempts) {
      if (allAttempts || prints.has(print)) going.push(...records);
      else for (const blob of kept) stillKept.add(blob);
    }
    return { going, stillKept };
  }
}

/**
 * Tracks which folder a path refers to at each point in the log. Facts use the path at their time, and a rename moves a
 * folder's places to another path. A key depends only on earlier renames, so both passes over the log yield the same
 * keys even if they examine different places.
 */
export class FolderIdentities {
  readonly #renamed = new Map<string, string>();
  /** Number of times a folder at a path has been renamed, because the next folder with that path is a new one. */
  readonly #renames = new Map<string, number>();

  /** Applies a fact. Must be called for every fact, in log order. */
  note(fact: Fact): void {
    if (fact.fact !== 'folder-renamed') return;
    const { host, mailbox, folder, to } = fact;
    const from = text(host, mailbox, folder);
    const identity = this.#identityOf(from);
    this.#renamed.delete(from);
    this.#renames.set(from, (this.#renames.get(from) ?? 0) + 1);
    this.#renamed.set(text(host, mailbox, to), identity);
  }

  keyOf({ host, mailbox, folder, generation, uid }: Place): string {
    return `${this.#identityOf(text(host, mailbox, folder))}/${generation}/${uid}`;
  }

  #identityOf(path: string): string {
    return this.#renamed.get(path) ?? `${path}\0${this.#renames.get(path) ?? 0}`;
  }
}

function text(...names: readonly string[]): string {
  return names.join('\0');
}

interface PurgeTargets {
  readonly messages: ReadonlySet<MessageId>;
  /** Messages that go from some mailboxes only: their facts there, but not their bytes. */
  readonly lost?: readonly (MailboxKey & { readonly message: MessageId })[];
  /** Places of incomplete messages, with current folder paths, by the id that stands for the message. */
  readonly quarantined: ReadonlyMap<MessageId, Place>;
  /** Parts of mailboxes, and the message id in the fact that records their removal. */
  readonly removed?: { readonly message: MessageId; readonly parts: readonly RemovedRange[] };
}

/** Decides which facts about messages go. */
class GoingFacts {
  /** Messages that go from a mailbox only, by mailbox. */
  readonly #lost = new Map<string, Set<MessageId>>();
  /** Messages that go from a mailbox, by mailbox and by the id that stands for them once they are forgotten there. */
  readonly #forgotten = new Map<string, ReadonlyMap<MessageId, MessageId>>();
  readonly #messages: ReadonlySet<MessageId>;

  constructor({ messages, lost = [] }: PurgeTargets) {
    this.#messages = messages;
    for (const { host, mailbox, message } of lost) {
      const key = text(host, mailbox);
      this.#lost.set(key, (this.#lost.get(key) ?? new Set()).add(message));
    }
  }

  has(message: MessageId, { host, mailbox }: MailboxKey): boolean {
    if (this.#messages.has(message)) return true;
    return this.#lost.size > 0 && this.#lost.get(text(host, mailbox))?.has(message) === true;
  }

  /** Returns the message that arrived in a mailbox again, by the id in a fact with `again`, if it goes from there. */
  arrivedAgain(id: MessageId, at: MailboxKey): MessageId | undefined {
    if (this.has(id, at)) return id;
    const key = text(at.host, at.mailbox);
    let forgotten = this.#forgotten.get(key);
    if (forgotten === undefined) {
      const going = [...this.#messages, ...(this.#lost.get(key) ?? [])];
      forgotten = new Map(going.map((message) => [forgottenId(message, at), message]));
      this.#forgotten.set(key, forgotten);
    }
    return forgotten.get(id);
  }
}

interface Shared {
  readonly message: MessageId;
  readonly blob: BlobHash;
  /** Null if the blob is kept only for an incomplete message. */
  readonly with: MessageId | null;
}

export type PurgeSearch = Awaited<ReturnType<typeof findPurgedRecords>>;

/**
 * Finds all records about these messages: every copy of their sources, blobs that no other message uses, and every fact
 * about them. Reads the log twice. The caller holds the lock, and the result is valid until the next append.
 *
 * @throws `log-damaged`, because unreadable data can share what would be removed
 */
export async function findPurgedRecords(
  files: FileLayer,
  dir: string,
  target: PurgeTargets,
  signal: AbortSignal,
) {
  const going = new GoingFacts(target);
  const first = await findConcerned(files, dir, target, going, signal);
  const records: RecordAt[] = [...first.records];
  const copies = new Map<BlobHash, RecordAt[]>();
  const stays = new Map<BlobHash, MessageId | null>();
  const stories = new Map<string, { readonly story: PlaceStory; readonly at: MailboxKey }>();
  const folders = new FolderIdentities();
  const keep = (blob: BlobHash, by: MessageId | null): void => {
    if (first.blobs.has(blob) && !stays.has(blob)) stays.set(blob, by);
  };
  for await (const record of walkLog(files, dir, signal)) {
    if (record.kind === 'blob') {
      if (!first.blobs.has(record.hash)) continue;
      const positions = copies.get(record.hash) ?? [];
      positions.push(record.at);
      copies.set(record.hash, positions);
    } else if (record.kind === 'message') {
      if (!target.messages.has(record.id)) for (const blob of record.blobs) keep(blob, record.id);
    } else {
      const { fact, at } = record;
      folders.note(fact);
      if (!('uid' in fact) || isRemoved(target, fact, at.commit)) continue;
      const key = folders.keyOf(fact);
      if (first.places.has(key)) {
        const known = stories.get(key) ?? { story: new PlaceStory(), at: fact };
        stories.set(key, known);
        known.story.add(fact, at);
      } else if (fact.fact === 'quarantined' && fact.kept !== undefined) keep(fact.kept, null);
    }
  }
  for (const [key, { story, at }] of stories) {
    const split = story.split((id) => going.has(id, at), first.quarantined.has(key));
    records.push(...split.going);
    for (const blob of split.stillKept) keep(blob, null);
  }
  const blobs = new Map<MessageId, BlobHash[]>();
  const shared: Shared[] = [];
  for (const [blob, message] of first.blobs) {
    const other = stays.get(blob);
    if (other !== undefined) shared.push({ message, blob, with: other });
    else {
      blobs.set(message, [...(blobs.get(message) ?? []), blob]);
      records.push(...(copies.get(blob) ?? []));
    }
  }
  return { records: bySegment(records), blobs, shared };
}

async function findConcerned(
  files: FileLayer,
  dir: string,
  target: PurgeTargets,
  going: GoingFacts,
  signal: AbortSignal,
) {
  const records: RecordAt[] = [];
  /** Blobs that can be removed, each with a message that uses it. */
  const blobs = new Map<BlobHash, MessageId>();
  /** Places that held one of the messages, or whose incomplete message is forgotten. */
  const places = new Map<string, MessageId>();
  const blobsByPlace = new Map<string, Set<BlobHash>>();
  const quarantined = new Set<string>();
  const folders = new FolderIdentities();
  for await (const record of walkLog(files, dir, signal)) {
    if (record.kind === 'message' && target.messages.has(record.id)) {
      records.push(record.at);
      for (const blob of record.blobs) blobs.set(blob, record.id);
    }
    if (record.kind !== 'fact') continue;
    const { fact, at } = record;
    folders.note(fact);
    if (target.removed !== undefined && isRemoved(target, fact, at.commit)) {
      records.push(at);
      const kept = fact.fact === 'quarantined' ? fact.kept : undefined;
      if (kept !== undefined && !blobs.has(kept)) blobs.set(kept, target.removed.message);
    } else if (fact.fact === 'quarantined' && fact.kept !== undefined) {
      const key = folders.keyOf(fact);
      blobsByPlace.set(key, (blobsByPlace.get(key) ?? new Set()).add(fact.kept));
    } else if (fact.fact === 'appeared' || fact.fact === 'verified') {
      if (going.has(fact.message, fact)) places.set(folders.keyOf(fact), fact.message);
    } else if (fact.fact === 'purged' && fact.again === true) {
      // The message arrived again, so incomplete attempts at these places belong to it.
      for (const place of fact.places ?? []) {
        const message = going.arrivedAgain(fact.message, place);
        if (message === undefined) continue;
        places.set(folders.keyOf(place), message);
        quarantined.add(folders.keyOf(place));
      }
    }
  }
  for (const [id, place] of target.quarantined) {
    const key = folders.keyOf(place);
    quarantined.add(key);
    places.set(key, id);
  }
  for (const [key, id] of places) {
    for (const blob of blobsByPlace.get(key) ?? []) if (!blobs.has(blob)) blobs.set(blob, id);
  }
  return { records, blobs, places, quarantined };
}

function isRemoved({ removed }: PurgeTargets, fact: Fact, commit: number): boolean {
  if (removed === undefined || !('host' in fact)) return false;
  return removed.parts.some(({ host, mailbox, commits, folders }) => {
    if (fact.host !== host || fact.mailbox !== mailbox) return false;
    if (commits === undefined) return true;
    const [first, last] = commits;
    return fact.fact === 'appeared' && commit >= first && commit <= last
      ? true
      : 'folder' in fact && folders?.includes(fact.folder) === true;
  });
}

function bySegment(records: readonly RecordAt[]): Map<number, number[]> {
  const found = new Map<number, Set<number>>();
  for (const { segment, ordinal } of records) {
    found.set(segment, (found.get(segment) ?? new Set()).add(ordinal));
  }
  return new Map(
    [...found]
      .sort(([a], [b]) => a - b)
      .map(([segment, ordinals]) => [segment, [...ordinals].sort((a, b) => a - b)]),
  );
}
