import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { Place } from '../../mail/words.ts';
import type { ProgressListener } from '../progress.ts';
import type { ExcludedFolder, FolderCertificate, MailboxResult, SyncFailure } from '../result.ts';
import { isUnaskable } from './failure-scope.ts';

type Counter = Exclude<keyof MailboxResult, 'address' | 'heldUntil' | 'comparison'>;

/** What one account's pass has done so far: counts by mailbox, failures, certificates. */
export class Ledger {
  readonly #mailboxes = new Map<string, Record<Counter, number>>();
  /** Mailboxes whose counts moved since they were last announced. */
  readonly #moved = new Set<string>();
  /** Mailboxes whose folders were listed. */
  readonly #opened = new Set<string>();
  /** Until when the brake holds something of a mailbox, milliseconds since the epoch. */
  readonly #heldUntil = new Map<string, number>();
  readonly failures: SyncFailure[] = [];
  readonly certificates: FolderCertificate[] = [];
  readonly excluded: ExcludedFolder[] = [];
  readonly #account: string;
  readonly #progress: ProgressListener;

  constructor(account: string, progress: ProgressListener) {
    this.#account = account;
    this.#progress = progress;
  }

  /** Adds to a mailbox's count; the first call for a mailbox puts it into the result. */
  count(address: string, counter: Counter, by: number): void {
    const counts = this.#mailboxes.get(address) ?? {
      folders: 0,
      added: 0,
      ended: 0,
      flagsChanged: 0,
      relinked: 0,
      verified: 0,
      corrected: 0,
      quarantined: 0,
      held: 0,
      bytes: 0,
      compared: 0,
    };
    counts[counter] += by;
    this.#mailboxes.set(address, counts);
    this.#moved.add(address);
  }

  /** Notes that a mailbox was opened, and how many of its folders the pass is about. */
  open(address: string, folders: number): void {
    this.count(address, 'folders', folders);
    this.#opened.add(address);
  }

  /** Notes until when the brake holds places of a mailbox; of several folders the latest time counts. */
  hold(address: string, until: number): void {
    this.#heldUntil.set(address, Math.max(until, this.#heldUntil.get(address) ?? 0));
  }

  /** Names folders that the configuration leaves out. */
  exclude(mailbox: string, folders: readonly string[]): void {
    for (const folder of folders) this.excluded.push({ mailbox, folder });
  }

  /** Says how far each mailbox is that has moved; called after a batch became durable. */
  announce(): void {
    for (const address of this.#moved) {
      const counts = this.#mailboxes.get(address);
      if (counts === undefined) continue;
      const { added: messages, bytes } = counts;
      this.#progress({ event: 'stored', account: this.#account, address, messages, bytes });
    }
    this.#moved.clear();
  }

  /** Records a failure that does not stop the rest. Anything that is not an error of ours is a bug, and thrown. */
  fail(
    error: unknown,
    at: { readonly mailbox?: string; readonly folder?: string; readonly place?: Place } = {},
  ): void {
    if (!(error instanceof MailkeepError)) throw error;
    this.failures.push({
      account: this.#account,
      mailbox: at.mailbox ?? null,
      folder: at.folder ?? at.place?.folder ?? null,
      uid: at.place?.uid ?? null,
      // The origin named what cannot be asked for: no mistake in how the program was called.
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
