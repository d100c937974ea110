import { archiveError, diskFull, logWriteFailed } from '../archive/errors.ts';
import type {
  AppendedCommit,
  AppendPosition,
  Durability,
  NextSegment,
} from '../archive/hot-segment.ts';
import { compressPayload } from '../archive/payload.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import { commit, decidePurge, roll, type TailBatch } from '../registry/commits.ts';
import { registryError } from '../registry/errors.ts';
import type { Head, Outcome } from '../registry/outcome.ts';
import type { HeldArchive } from './held-archive.ts';
import { MOST_BATCH_BYTES } from './packing.ts';
import type { FleetPurges } from './purges.ts';
import { type Patience, settledHead } from './settling.ts';

/** PostgreSQL's condition for what exceeds one of its limits. */
const PROGRAM_LIMIT = '54000';

/** One act of the writer, as the registry knows it. */
interface Act {
  /** Its commit; null where a segment is closed. */
  readonly number: number | null;
  /** Bytes that it adds to the log. */
  readonly bytes: number;
  /** Sends it; the head is what it changes. */
  readonly send: () => Promise<Outcome<{ head: Partial<Head> }>>;
  /** Whether an end of the log is the one after the act, or the one before it. */
  readonly isDone: (head: Head) => boolean;
  readonly isUndone: (head: Head) => boolean;
  /** What is noted with the purge that the act decides, if it does. */
  readonly decides?: Pick<FleetPurges, 'decided'> | undefined;
}

/**
 * Makes batches durable in the registry of a fleet: a commit has happened when the transaction that moves the head has. An
 * act whose outcome is unknown is settled before its promise settles.
 */
export class FleetDurability implements Durability {
  constructor(
    private readonly held: HeldArchive,
    private readonly patience: Patience,
    private readonly purges?: Pick<FleetPurges, 'deciding' | 'decided'>,
  ) {}

  /**
   * See `Durability`.
   *
   * @throws `disk-full` if PostgreSQL has no room; `log-write-failed` with the error of the registry as its cause, also for a
   *   batch above 128 MiB (`registry-limit`); `log-fenced`: the archive is lost, see `HeldArchive.lostBy`
   */
  async append(bytes: Buffer, committed: AppendedCommit, place: AppendPosition): Promise<void> {
    const { registry } = this.held;
    if (bytes.length > MOST_BATCH_BYTES) {
      const facts = { registry: registry.label, transaction: 'commit', condition: PROGRAM_LIMIT };
      throw logWriteFailed(registry.label, registryError('registry-limit', facts));
    }
    const batch = await tailBatch(bytes, committed, place);
    const { number, hash, previousHash, time, segment, at, firstOrdinal } = batch;
    const head = {
      ...{ headNumber: number, headHash: hash, headTime: time },
      ...{ hotOffset: at + bytes.length, hotOrdinal: place.nextOrdinal },
    };
    const purge = this.purges?.deciding(number);
    await this.#act({
      ...{ number, bytes: bytes.length },
      decides: purge === undefined ? undefined : this.purges,
      send: async () => {
        const { lease } = this.held;
        if (purge === undefined) {
          const outcome = await commit(registry, lease, batch);
          return outcome.outcome === 'committed' ? { ...outcome, head } : outcome;
        }
        const outcome = await decidePurge(registry, lease, batch, purge);
        if (outcome.outcome === 'fenced') return outcome;
        const { purges } = outcome;
        return { ...outcome, head: { ...head, purges } };
      },
      isDone: ({ headNumber, headHash }) => headNumber === number && headHash.equals(hash),
      isUndone: ({ headNumber, headHash, hotSegment, hotOffset, hotOrdinal }) =>
        headNumber === number - 1 &&
        headHash.equals(previousHash) &&
        hotSegment === segment &&
        hotOffset === at &&
        hotOrdinal === firstOrdinal,
    });
  }

  /** See `Durability`. Throws as `append` does. */
  async roll({ segment, previous }: NextSegment): Promise<void> {
    const { registry } = this.held;
    const from = { segment: segment - 1, headHash: bytesOf(previous.hash) };
    const isAfter = ({ headNumber, headHash }: Head) =>
      headNumber === previous.number && headHash.equals(from.headHash);
    await this.#act({
      ...{ number: null, bytes: 0 },
      send: () => roll(registry, this.held.lease, from),
      isDone: (head) => isAfter(head) && head.hotSegment === segment && head.hotOrdinal === 0,
      isUndone: (head) => isAfter(head) && head.hotSegment === from.segment && head.hotOrdinal > 0,
    });
  }

  async #act(act: Act): Promise<void> {
    const { held } = this;
    if (held.lostBy !== undefined)
      throw archiveError('log-fenced', { commit: act.number, reason: 'refused' });
    const doubt = await this.#sent(act);
    if (doubt === undefined) return;
    const head = await settledHead(held, this.patience, act.number, doubt);
    if (act.isDone(head)) {
      this.#done(act, head);
      return;
    }
    if (act.isUndone(head)) held.moved(head);
    if (act.isUndone(head)) throw logWriteFailed(held.registry.label, doubt);
    held.lose('head');
    throw archiveError('log-fenced', { commit: act.number, reason: 'refused' }, doubt);
  }

  /** Returns why it is not known what became of an act; undefined if it was accepted. */
  async #sent(act: Act): Promise<MailkeepError | undefined> {
    const { held } = this;
    const { number, bytes, send } = act;
    const { label } = held.registry;
    let outcome: Outcome<{ head: Partial<Head> }>;
    try {
      outcome = await send();
    } catch (error) {
      if (hasCode(error, 'outcome-unknown')) return error;
      if (!(error instanceof MailkeepError)) throw error;
      throw hasCode(error, 'registry-full')
        ? diskFull(label, bytes, error)
        : logWriteFailed(label, error);
    }
    if (outcome.outcome === 'committed') {
      this.#done(act, outcome.head);
      return undefined;
    }
    // In a later epoch of this session, or at another end of the log, it has to be settled as well.
    const { head } = outcome;
    if (head === undefined || head.holder === held.session)
      return archiveError('log-fenced', { commit: number, reason: 'refused' });
    held.lose('lease');
    throw archiveError('log-fenced', { commit: number, reason: 'refused' });
  }

  #done({ decides }: Act, head: Partial<Head>): void {
    // First, so that whatever names the number of purges knows what the last one removes.
    if (head.purges !== undefined) decides?.decided(head.purges);
    this.held.moved(head);
  }
}

async function tailBatch(
  bytes: Buffer,
  { number, hash, previousHash, time }: AppendedCommit,
  { segment, offset, ordinal, nextOrdinal }: AppendPosition,
): Promise<TailBatch> {
  const { codec, stored } = await compressPayload('zlib', bytes);
  return {
    ...{ number, time, hash: bytesOf(hash), previousHash: bytesOf(previousHash) },
    // The last record is the commit.
    ...{ segment, at: offset, firstOrdinal: ordinal, records: nextOrdinal - ordinal - 1 },
    ...{ rawBytes: bytes.length, codec, bytes: stored },
  };
}

function bytesOf(hash: string): Buffer {
  return Buffer.from(hash, 'hex');
}
