import { recalledCoverage } from './apply/memory/covered-uids.ts';
import type { Memory, Mirror } from './apply/ports.ts';
import { surveyAccount, surveyMailbox } from './apply/survey.ts';
import { accountedFor } from './plan/folder-sums.ts';
import { type FolderPlan, planFolder } from './plan/plan-folder.ts';
import type { AccountToSync } from './run-sync.ts';

/** What a pass would do, and the requests it would cost. Planning fetches and writes no message. */
export interface SyncPlan {
  readonly mailboxes: readonly {
    readonly account: string;
    readonly address: string;
    readonly folders: readonly FolderPlan[];
    readonly excluded: readonly string[];
  }[];
  readonly messages: number;
  /** Requests of the pass itself, the listings of mailboxes and folders included. */
  readonly requests: number;
  /** The rate in force; of several accounts, which are asked at the same time, that of the longest. */
  readonly requestsPerMinute: number;
  readonly hours: number;
}

/**
 * Plans a pass without doing it: reads the listings of mailboxes and folders (one request each) and compares
 * them with the archive.
 *
 * @throws MailkeepError what the origin refuses
 */
export async function planSync(options: {
  readonly accounts: readonly AccountToSync[];
  readonly mirror: Mirror;
  readonly memory: Memory;
  readonly full: boolean;
  readonly signal: AbortSignal;
}): Promise<SyncPlan> {
  const mailboxes: SyncPlan['mailboxes'][number][] = [];
  const accounts: { readonly requests: number; readonly perMinute: number }[] = [];
  for (const { name, wanted, origin } of options.accounts) {
    const deps = { origin, signal: options.signal };
    let requests = 1;
    for (const mailbox of (await surveyAccount(deps, wanted)).mailboxes) {
      const { key, folders, excluded } = await surveyMailbox(deps, mailbox, wanted);
      const planned = folders.map((listed) => {
        const at = { ...key, folder: listed.path };
        const generation = options.mirror.folder(at)?.generation ?? 1;
        const accounted = accountedFor(options.mirror.sumsOf(at));
        const unread = options.mirror.unread(at, generation);
        const covered = recalledCoverage(options.memory, at, generation, accounted);
        return planFolder(listed, { accounted, unread, covered }, options.full);
      });
      requests += 1 + sum(planned, (plan) => plan.requests);
      mailboxes.push({ account: name, address: mailbox.address, folders: planned, excluded });
    }
    accounts.push({ requests, perMinute: origin.requestsPerMinute() });
  }
  const [longest] = [...accounts].sort(
    (a, b) => b.requests / b.perMinute - a.requests / a.perMinute,
  );
  const { requests = 0, perMinute = 1 } = longest ?? {};
  return {
    mailboxes,
    messages: sum(mailboxes, ({ folders }) => sum(folders, ({ messages }) => messages)),
    requests: sum(accounts, (account) => account.requests),
    requestsPerMinute: perMinute,
    hours: requests / perMinute / 60,
  };
}

function sum<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((total, item) => total + of(item), 0);
}
