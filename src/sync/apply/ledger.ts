import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { Place } from '../../mail/words.ts';
import type { ProgressListener, SyncProgress } from '../progress.ts';
import {
  type ExcludedFolder,
  type FolderCertificate,
  type MailboxResult,
  NOTHING_DONE,
  type SyncFailure,
} from '../result.ts';
import { isUnaskable } from './failure-scope.ts';

type Counter = Exclude<keyof MailboxResult, 'address' | 'heldUntil' | 'comparison'>;

const { heldUntil: _until, comparison: _comparison, ...NO_COUNTS } = NOTHING_DONE;

type OfAnAccount = Extract<SyncProgress, { readonly account: string }>;
/** Progress of one account; the ledger adds its name. */
type AccountProgress = OfAnAccount extends infer T
  ? T extends T
    ? Omit<T, 'account'>
    : never
  : never;

/** What one account's pass has done so far: counts by mailbox, failures, certificates. */
export class Ledger {
  readonly #mailboxes = new Map<string, Record<Counter, number>>();
  /** Mailboxes whose counts changed since they were last reported. */
  readonly #changed = new Set<string>();
  /** Mailboxes whose folders were listed. */
  readonly #opened = new Set<string>();
  /** Until when the brake holds something of a mailbox, milliseconds since the epoch. */
  readonly #heldUntil = new Map<string, number>();
  readonly failures: SyncFailure[] = [];
  readonly certificates: FolderCertificate[] = [];
  readonly excluded: ExcludedFolder[] = [];

  constructor(
    private readonly account: string,
    private readonly progress: ProgressListener,
  ) {}

  /** Adds to a mailbox's count; the first call for a mailbox puts it into the result. */
  count(address: string, counter: Counter, by: number): void {
    const counts = this.#mailboxes.get(address) ?? { ...NO_COUNTS };
    counts[counter] += by;
    this.#mailboxes.set(address, counts);
    this.#changed.add(address);
  }

  /** Records that a mailbox was opened, and how many of its folders the pass covers. */
  open(address: string, folders: number): void {
    this.count(address, 'folders', folders);
    this.#opened.add(address);
  }

  /** Records until when the brake holds places of a mailbox; of several folders the latest time counts. */
  hold(address: string, until: number): void {
    this.#heldUntil.set(address, Math.max(until, this.#heldUntil.get(address) ?? 0));
  }

  /** Records folders that the configuration leaves out. */
  exclude(mailbox: string, folders: readonly string[]): void {
    for (const folder of folders) this.excluded.push({ mailbox, folder });
  }

  /** Reports progress of this account. */
  report(progress: AccountProgress): void {
    this.progress({ ...progress, account: this.account });
  }

  /** Reports the counts of each mailbox that has changed; called after a batch became durable. */
  announce(): void {
    for (const address of this.#changed) {
      const counts = this.#mailboxes.get(address);
      if (counts === undefined) continue;
      const { added: messages, bytes } = counts;
      this.report({ event: 'stored', address, messages, bytes });
    }
    this.#changed.clear();
  }

  /** Records a failure that does not stop the rest. Throws anything but a MailkeepError: that is a bug. */
  fail(
    error: unknown,
    at: { readonly mailbox?: string; readonly folder?: string; readonly place?: Place } = {},
  ): void {
    if (!(error instanceof MailkeepError)) throw error;
    this.failures.push({
      account: this.account,
      mailbox: at.mailbox ?? null,
      folder: at.folder ?? at.place?.folder ?? null,
      uid: at.place?.uid ?? null,
      // The origin chose the name that cannot be requested: the user did nothing wrong.
      family: isUnaskable(error) ? 'origin' : error.family,
      code: error.code,
      facts: error.facts,
    });
  }

  results(): MailboxResult[] {
    return [...this.#mailboxes].map(([address, counts]) => {
      const until = this.#heldUntil.get(address);
      const all = this.#opened.has(address) && counts.compared >= counts.folders;
      return {
        address,
        ...counts,
        heldUntil: until === undefined ? null : new Date(until).toISOString(),
        comparison: all ? 'all' : counts.compared > 0 ? 'some' : 'none',
      };
    });
  }
}
