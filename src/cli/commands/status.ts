import type { Reader } from '../../catalog/open-reader.ts';
import { combineExitCodes, EXIT, type ExitCode } from '../../core/errors.ts';
import { displayWidth, fitColumns, padColumns, terminalLine } from '../../core/terminal-safe.ts';
import {
  bytes,
  consistencyText,
  count,
  counted,
  dayText,
  localTime,
  notSearchableText,
  pendingText,
  span,
  unverifiedText,
} from '../../core/text.ts';
import { findControlSocket } from '../../daemon/control-path.ts';
import type { DaemonStatus } from '../../daemon/ports.ts';
import { isImported } from '../../mail/identity.ts';
import {
  type ArchiveStatus,
  archiveStatus,
  type Budget,
  type FolderStatus,
  type MailboxStatus,
} from '../../verify/archive-status.ts';
import { type CopyStatus, copyStatuses } from '../../verify/copy-facts.ts';
import {
  DAMAGED,
  type Issue,
  isWatched,
  listIssues,
  roundedPercent,
  STALE,
} from '../../verify/issues.ts';
import { withReader, withState } from '../archive.ts';
import type { CommandContext, Register, Values } from '../context.ts';
import { duration } from '../option-values.ts';
import { type Colours, commandLine, displayName, joinReport, type Output } from '../output.ts';
import { verificationLines } from '../warnings.ts';

/** Describes the archive's copies, with a line for each copy and each problem. */
function copyLines(
  copies: readonly CopyStatus[],
  now: number,
  colours: Colours,
): readonly string[] {
  if (copies.length === 0) return [];
  return ['', ...copies.flatMap((copy) => linesOf(copy, now, colours))];
}

function linesOf(copy: CopyStatus, now: number, { red }: Colours): string[] {
  const { to, copiedAt, behind, everySeconds, stale, failure, damage } = copy;
  const ago = (iso: string): string => `${span(Math.max(0, now - Date.parse(iso)))} ago`;
  const parts = joinReport([
    copiedAt === null ? 'not made yet' : `made ${ago(copiedAt)}`,
    behind !== null && (behind === 0 ? 'complete' : `lacks ${counted(behind, 'commit')}`),
    everySeconds === null && 'not kept by the daemon',
    verifiedPart(copy, ago),
  ]).join(', ');
  return joinReport([
    `copy ${terminalLine(to)}: ${stale ? red(`STALE: ${parts}`) : parts}`,
    failure !== null &&
      `  ${red(`failing for ${span(Math.max(0, now - Date.parse(failure.since)))}, ${counted(failure.tries, 'attempt')}: ${terminalLine(failure.message)}`)}`,
    damage !== null && `  ${red(`DAMAGED: ${terminalLine(damage.message)}`)}`,
  ]);
}

function verifiedPart({ verified }: CopyStatus, ago: (iso: string) => string): string | false {
  if (verified === null) return false;
  const { at, checked, of, unit, fullAt } = verified;
  const rest = checked < of && fullAt !== null ? `; all of it ${ago(fullAt)}` : '';
  return `${count(checked)} of ${counted(of, unit)} read back ${ago(at)}${rest}`;
}

/** Returns the status of the daemon that serves the archive, or null if none does. */
async function runningDaemon(dataDir: string): Promise<DaemonStatus | null> {
  const socket = findControlSocket(dataDir);
  if (socket === null) return null;
  const { askStatus } = await import('../../daemon/control.ts');
  return askStatus(socket);
}

/** Describes a running daemon: schedules, running work and failures. */
function daemonLines(
  daemon: DaemonStatus | null,
  now: number,
  colours: Colours,
): readonly string[] {
  if (daemon === null) return [];
  const since = span(Math.max(0, now - Date.parse(daemon.startedAt)));
  const next = daemon.schedule.flatMap(({ name, nextAt }) =>
    nextAt === null ? [] : [`${name} in ${span(Math.max(0, Date.parse(nextAt) - now))}`],
  );
  const waiting = Object.values(daemon.waiting).reduce((sum, n) => sum + n, 0);
  const underway = daemon.underway.length;
  return joinReport([
    '',
    `daemon ${daemon.pid}, for ${since}; ${next.join(', ')}`,
    underway + waiting > 0 &&
      `  ${counted(underway, 'pass', 'passes')} under way, ${count(waiting)} waiting`,
    daemon.accounts.map((account) => accountLine(account, now, colours)),
  ]);
}

/** Why an account waits, by error code. */
const WAITING: Readonly<Record<string, string>> = {
  'imap.login-needed': 'it has not been signed in',
  'imap.day-limit': 'the limit of a day has been reached',
  'imap.throttled': 'the server has asked to wait',
};

function waitingReason(state: string, code: string | null): string {
  const known = WAITING[code ?? ''];
  if (known !== undefined) return known;
  if (/^(?:token-|secret-|imap\.tokens-)/.test(code ?? ''))
    return 'its token or password cannot be read';
  const isImap = code?.startsWith('imap.') === true;
  if (state === 'refused') return `its ${isImap ? 'sign-in' : 'token'} has been refused`;
  return `the ${isImap ? 'server' : 'service'} has been unreachable`;
}

function accountLine(
  account: DaemonStatus['accounts'][number],
  now: number,
  colours: Colours,
): string {
  const { name, state, code, since, retryAt, mailboxes, roundMs, everyMs } = account;
  const label = `  ${terminalLine(name)}: `;
  const ago = (at: string | null): string =>
    span(at === null ? 0 : Math.max(0, now - Date.parse(at)));
  const retry = retryAt === null ? 0 : Math.max(0, Date.parse(retryAt) - now);
  if (state !== 'ok') {
    return `${label}${colours.red(`${waitingReason(state, code)} for ${ago(since)}`)}; next attempt in ${span(retry)}`;
  }
  const facts = joinReport([
    counted(mailboxes, 'mailbox', 'mailboxes'),
    roundMs !== null && `the last round took ${span(roundMs)}`,
    everyMs !== null && `one began every ${span(everyMs)}`,
  ]);
  return `${label}${facts.join(', ')}`;
}

/** Minimum and default width of folder names, in columns. */
const NAME_COLUMNS = 28;

/**
 * Describes the archive on one line, then each mailbox with its folders. Cuts names only on a terminal that is too
 * narrow.
 * @param data the `--data` folder, for suggested commands
 */
export function statusText(
  status: ArchiveStatus,
  stale: readonly MailboxStatus[],
  now: number,
  { interactive, columns, colours }: Pick<Output, 'interactive' | 'columns' | 'colours'>,
  data?: string,
): string {
  const tables = status.mailboxes.map((mailbox) => ({
    mailbox,
    rows: mailbox.folders.map((folder) => folderRow(folder, isImported(mailbox), now, colours)),
  }));
  const all = tables.flatMap(({ rows }) => rows);
  const fullWidth = Math.max(NAME_COLUMNS, ...all.map(({ name }) => displayWidth(name) + 1));
  const factsWidth = Math.max(0, ...all.map(({ width }) => width));
  const room = interactive ? columns - 2 - factsWidth : Number.POSITIVE_INFINITY;
  const names = Math.max(NAME_COLUMNS, Math.min(fullWidth, room));
  const disk = status.logBytes + status.catalogBytes;
  const nameOf = mailboxNames(status.mailboxes);
  return joinReport([
    `${status.dataDir}: ${holdings(status)}, ${bytes(status.bytes)} of mail on ${bytes(disk)} of disk; commit ${status.commit.number}`,
    status.mailboxes.some(isWatched) && consistencyText(status.sum, status.listed),
    status.sum.assumed > 0 &&
      unverifiedText(status.sum.assumed, commandLine('verify --origin', data)),
    status.pending > 0 && notSearchableText(status.pending),
    status.unparsed > 0 &&
      `${counted(status.unparsed, 'message')} could not be parsed as mail: found by their headers only`,
    attachmentLine(status.attachments),
    verificationLines(status.verification, now, colours, data),
    status.budget.flatMap((budget) => budgetLines(budget, now)),
    status.traffic.flatMap(trafficLines),
    tables.flatMap(({ mailbox, rows }) => [
      '',
      mailboxLine(mailbox, nameOf(mailbox), stale.includes(mailbox), now, colours),
      ...suspendedLine(mailbox, now, colours),
      ...quotaLine(mailbox, colours),
      ...rows.map(({ name, facts }) =>
        room < NAME_COLUMNS
          ? `  ${fitColumns(name, columns - 2)}\n    ${facts.trimStart()}`
          : `  ${padColumns(fitColumns(name, names - 1), names)}${facts}`,
      ),
    ]),
    // Alerts come last, where they are noticed.
    stale.length > 0 && ['', colours.red(`Stale: ${stale.map(nameOf).join(', ')}`)],
  ]).join('\n');
}

/** Returns a function that names mailboxes by address, and those that share one also by where they are. */
function mailboxNames(mailboxes: readonly MailboxStatus[]): (mailbox: MailboxStatus) => string {
  const byAddress = Map.groupBy(mailboxes, ({ address }) => address.toLowerCase());
  return (mailbox) => {
    const { address, host, resourceId } = mailbox;
    const name = displayName(address);
    if ((byAddress.get(address.toLowerCase())?.length ?? 0) < 2 || isImported(mailbox)) return name;
    const place = resourceId.includes(host) ? resourceId : `${resourceId} at ${host}`;
    return `${name} (${displayName(place)})`;
  };
}

const NEVER_COMPARED = 'Stale: no mailbox was ever compared with the service.';

/** Returns alerts only: known damage, and stale mailboxes and copies. */
function alertLines(
  issues: readonly Issue[],
  stale: readonly MailboxStatus[],
  { mailboxes }: ArchiveStatus,
): string[] {
  const has = (kind: Issue['kind']): boolean => issues.some((issue) => issue.kind === kind);
  return joinReport([
    issues.flatMap((issue) =>
      issue.kind === 'archive-damaged'
        ? [`Damaged: ${counted(issue.verification.found, 'finding')} of the last verification`]
        : [],
    ),
    has('never-compared') && NEVER_COMPARED,
    stale.length > 0 && `Stale: ${stale.map(mailboxNames(mailboxes)).join(', ')}`,
    issues.flatMap((issue) => {
      if (issue.kind !== 'copy-damaged' && issue.kind !== 'copy-stale') return [];
      const word = issue.kind === 'copy-damaged' ? 'Damaged' : 'Stale';
      return [`${word}: the copy at ${terminalLine(issue.copy.to)}`];
    }),
  ]);
}

/** Counts distinct messages, and all their places, current or deleted. */
function holdings({ messages, mailboxes }: ArchiveStatus): string {
  const sum = (field: 'messages' | 'ended'): number =>
    mailboxes.reduce((total, mailbox) => total + mailbox[field], 0);
  const deleted = sum('ended');
  const places = counted(sum('messages') + deleted, 'place');
  const suffix = deleted === 0 ? '' : ` (${count(deleted)} deleted at the service)`;
  return `${counted(messages, 'message')} in ${places}${suffix}`;
}

function attachmentLine({ pending, done, failed }: ArchiveStatus['attachments']): string | false {
  if (pending + done + failed === 0) return false;
  const parts = joinReport([
    `${count(done)} searchable`,
    pending > 0 && `${count(pending)} to be read by the next sync`,
    failed > 0 && `${count(failed)} not readable`,
  ]);
  return `text of attachments: ${parts.join(', ')}`;
}

/** Includes a service's rate only if it differs from the configuration. */
function budgetLines({ gate, learnedPerMinute, heldUntil }: Budget, now: number): string[] {
  const label = terminalLine(gate);
  const held = heldUntil === null ? 0 : Date.parse(heldUntil) - now;
  return joinReport([
    learnedPerMinute !== null &&
      `${label}: slowed to ${count(Math.floor(learnedPerMinute))} requests a minute by refusals`,
    held > 0 && `${label}: the service asked for a pause of ${span(held)} more`,
  ]);
}

/** Includes only accounts with a limit. */
function trafficLines(traffic: ArchiveStatus['traffic'][number]): string[] {
  const { account, host, limit, bytes: used, heldUntil, completeAt } = traffic;
  if (limit === null) return [];
  const label = `${terminalLine(account)} at ${terminalLine(host)}`;
  const amount = `${bytes(used)} of ${bytes(limit)} exchanged in 24 hours`;
  if (heldUntil === null) return [`${label}: ${amount}`];
  const end =
    completeAt === null ? '' : `; all fetched around ${localTime(Date.parse(completeAt))}`;
  return [`${label}: ${amount}; continues after ${localTime(Date.parse(heldUntil))}${end}`];
}

function suspendedLine({ suspendedSince }: MailboxStatus, now: number, colours: Colours): string[] {
  if (suspendedSince === null) return [];
  const age = span(now - Date.parse(suspendedSince));
  return [`  ${colours.yellow(`the service lists it as suspended, first seen ${age} ago`)}`];
}

/** Lower quota percentages are not shown. */
const WORTH_PERCENT = 80;

function quotaLine({ quota }: MailboxStatus, colours: Colours): string[] {
  const parts = (quota?.resources ?? []).flatMap(({ name, usage, limit }) => {
    if (limit === null || limit <= 0) return [];
    const percent = roundedPercent(usage / limit);
    const full = percent < WORTH_PERCENT ? '' : ` ${colours.yellow(`(${percent}% full)`)}`;
    if (name === 'STORAGE') return [`${bytes(usage)} of ${bytes(limit)}${full}`];
    return name === 'MESSAGE' ? [`${count(usage)} of ${count(limit)} messages${full}`] : [];
  });
  return parts.length === 0 ? [] : [`  quota at the service: ${parts.join(', ')}`];
}

function mailboxLine(
  mailbox: MailboxStatus,
  name: string,
  stale: boolean,
  now: number,
  colours: Colours,
): string {
  const { messages, provenAt, complete, leftBehindAt } = mailbox;
  const age = isImported(mailbox)
    ? 'imported from files'
    : provenAt === null
      ? mailbox.folders.some((folder) => folder.provenAt !== null)
        ? 'not completely compared yet'
        : 'not compared'
      : `compared ${span(now - Date.parse(provenAt))} ago`;
  const unwatched =
    leftBehindAt === null
      ? mailbox.unwatched && 'unwatched'
      : `left behind on ${dayText(Date.parse(leftBehindAt))}`;
  const proof = joinReport([age, complete && 'complete', unwatched]).join(', ');
  const shown = stale ? colours.red(`STALE: ${proof}`) : complete ? colours.green(proof) : proof;
  return `${colours.bold(name)}  ${counted(messages, 'place')}, ${shown}`;
}

/** A smaller difference means that the flags were compared in the same sync. */
const OLDER_MS = 60_000;

/** Describes when a folder was last compared, and when its flags were, if earlier. */
function proofParts({ provenAt, flagsAt }: FolderStatus, now: number): string[] {
  if (provenAt === null) return ['never compared'];
  const age = (at: string): string => span(now - Date.parse(at));
  const flags =
    flagsAt === null
      ? ', older flags never'
      : Date.parse(provenAt) - Date.parse(flagsAt) > OLDER_MS
        ? `, all flags ${age(flagsAt)} ago`
        : '';
  return [`compared ${age(provenAt)} ago${flags}`];
}

interface FolderRow {
  readonly name: string;
  readonly facts: string;
  /** Width of `facts` in columns. */
  readonly width: number;
}

function folderRow(
  folder: FolderStatus,
  imported: boolean,
  now: number,
  colours: Colours,
): FolderRow {
  const listed = folder.unfinished ? ` of ${count(folder.listed)} listed` : '';
  const parts: readonly (readonly [text: string, warns?: boolean])[] = [
    [count(folder.messages).padStart(9) + listed, folder.unfinished],
    ...some(folder.unread, 'unread'),
    ...some(folder.assumed, 'not yet verified'),
    ...(folder.held > 0 ? [[pendingText(folder.held)] as const] : []),
    ...some(folder.ended, 'deleted at the service'),
    ...some(folder.quarantined, 'incomplete', true),
    ...some(folder.forgotten, 'forgotten'),
    ...(folder.complete === false ? [['not complete', true] as const] : []),
    ...(imported ? [] : proofParts(folder, now).map((part) => [part] as const)),
    ...(folder.unwatched ? [['unwatched'] as const] : []),
  ];
  const texts = parts.map(([text, warns = false]) => (warns ? colours.yellow(text) : text));
  return {
    name: displayName(folder.folder),
    facts: texts.join(', '),
    width: displayWidth(parts.map(([text]) => text).join(', ')),
  };
}

function some(n: number, what: string, warns = false): (readonly [string, boolean])[] {
  return n > 0 ? [[`${count(n)} ${what}`, warns]] : [];
}

const HELP = `
Shows how much the archive holds, when its bytes were last verified, and when each mailbox was last compared
with the service. Reads only the archive, and never contacts the service.

While a daemon runs, its schedules, its queue and the freshness it achieves are shown as well.

The last verification is shown with its age, what it read and what it found. Damage exits with code 3 until a
repair, or a clean verification that read the damaged bytes again, clears it.

Copies are shown with their age and with what they lack. Damage that reading one back found exits with code 3
until all of it is found intact.

With --max-age, the exit code is 1 if a mailbox was not compared for longer than that (or never), or if a copy of
the daemon is stale: it lacks commits, and three of its intervals have passed. That is for monitoring; with --quiet as well, only what is wrong is printed. Mailboxes and folders that the configuration no longer includes are unwatched, and never stale, unless that leaves nothing of their mailbox or account to mirror; neither is a mailbox that its account left behind, because "account move" made it read another one.

EXAMPLES
  mailkeep status
  mailkeep status --max-age 26h --quiet || notify-me`;

export const register: Register = (command, run) => {
  command
    .option('--max-age <duration>', 'exit with code 1 if a mailbox is older than that', duration)
    .addHelpText('after', HELP)
    .action((options: Values<'maxAge', number>) =>
      run((context) =>
        withReader(context, (reader) => printStatus(context, reader, options.maxAge)),
      ),
    );
};

function printStatus(
  { output, now, globals }: CommandContext,
  reader: Reader,
  maxAge: number | undefined,
): Promise<ExitCode> {
  return withState(reader.dataDir, async (state) => {
    const status = archiveStatus(reader, state, now());
    const copies = copyStatuses(state, status.commit.number, now());
    const issues = listIssues(status, { copies, maxAgeMs: maxAge ?? null, now: now() });
    const has = (kinds: readonly Issue['kind'][]): boolean =>
      issues.some(({ kind }) => kinds.includes(kind));
    const stale = issues.flatMap((issue) =>
      issue.kind === 'mailbox-stale' ? [issue.mailbox] : [],
    );
    const fresh = maxAge === undefined ? null : !has(STALE);
    const daemon = await runningDaemon(reader.dataDir);
    const { catalogBehind } = reader;
    const text = () => [
      statusText(status, stale, now(), output, globals.data),
      ...copyLines(copies, now(), output.colours),
      ...daemonLines(daemon, now(), output.colours),
      ...(has(['never-compared']) ? [NEVER_COMPARED] : []),
    ];
    // Cron mails all output, so a check without problems prints nothing.
    const lines = fresh !== null && globals.quiet ? () => alertLines(issues, stale, status) : text;
    if (output.json || lines().length > 0) {
      await output.object(
        {
          ...{ ...status, copies, catalogBehind, fresh, daemon },
          stale: stale.map(({ address }) => address),
        },
        () => lines().join('\n'),
      );
    }
    return combineExitCodes([
      fresh === false ? EXIT.failures : EXIT.done,
      has(DAMAGED) ? EXIT.damage : EXIT.done,
    ]);
  });
}
