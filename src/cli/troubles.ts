import { combinedExit, EXIT_OF_FAMILY, type ExitCode } from '../errors/exit-codes.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';
import { syncError } from '../errors/sync.ts';
import { damageError } from '../health/verification.ts';
import type { KnownDamage } from '../state/values.ts';
import type { MailboxResult, SyncFailure, SyncResult } from '../sync/result.ts';
import { sayFacts, sentenceOf } from '../wording/sentence-of.ts';
import type { ErrorReport } from './notices.ts';
import { shownName } from './place-line.ts';

/** A problem that a pass reports in addition to its result, and the exit code that it alone would cause. */
export interface Trouble extends ErrorReport {
  readonly exit: ExitCode;
}

/** Returns the exit code of a pass: by its failures, by what the brake holds and by what is quarantined. */
export function exitOfSync(result: SyncResult): ExitCode {
  return combinedExit(troublesOf(result).map(({ exit }) => exit));
}

/** Returns everything that went wrong in a pass, the problems that decide the exit code first. */
export function troublesOf({ failures, mailboxes }: SyncResult): Trouble[] {
  const troubles = failures.map(describeFailure);
  const held = sumOf(mailboxes, 'held');
  if (held.sum > 0) {
    const facts = { held: held.sum, mailboxes: held.addresses, until: latest(mailboxes) };
    troubles.push(troubleOf(syncError('sync.held', facts)));
  }
  const quarantined = sumOf(mailboxes, 'quarantined');
  if (quarantined.sum > 0) {
    const facts = { quarantined: quarantined.sum, mailboxes: quarantined.addresses };
    troubles.push(troubleOf(syncError('sync.quarantined', facts)));
  }
  const worst = combinedExit(troubles.map(({ exit }) => exit));
  return troubles.sort((a, b) => Number(b.exit === worst) - Number(a.exit === worst));
}

/** Returns known damage as what a pass has to report, and how the process then ends. */
export function damageTrouble(damage: KnownDamage): Trouble {
  return troubleOf(damageError(damage));
}

function troubleOf(error: MailkeepError): Trouble {
  return { ...sentenceOf(error), exit: EXIT_OF_FAMILY[error.family] };
}

function describeFailure(failure: SyncFailure): Trouble {
  const { account, mailbox, folder, uid, code, facts, family } = failure;
  const parts = [mailbox ?? account, folder, uid].map((part) => String(part ?? ''));
  const place = shownName(...parts.filter((part) => part !== ''));
  const { message, hint } = sayFacts(code, facts);
  return {
    code,
    message: place === '' ? message : `${place}: ${message}`,
    hint,
    exit: EXIT_OF_FAMILY[family],
  };
}

/** How many messages of all mailboxes are in this state, and which mailboxes have any. */
function sumOf(mailboxes: readonly MailboxResult[], field: 'held' | 'quarantined') {
  const having = mailboxes.filter((mailbox) => mailbox[field] > 0);
  return {
    sum: having.reduce((total, mailbox) => total + mailbox[field], 0),
    addresses: having.map(({ address }) => shownName(address)),
  };
}

/** Returns the latest time until which the brake holds: ISO times sort as texts. */
function latest(mailboxes: readonly MailboxResult[]): string | null {
  const held = mailboxes.filter((mailbox) => mailbox.held > 0);
  return (
    held
      .flatMap(({ heldUntil }) => heldUntil ?? [])
      .sort()
      .at(-1) ?? null
  );
}
