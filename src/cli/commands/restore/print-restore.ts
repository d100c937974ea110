import { combinedExit, EXIT, type ExitCode, exitOf } from '../../../errors/exit-codes.ts';
import { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import type { Alteration } from '../../../restore/fit-message.ts';
import type { NamedMessage, RefusalReason } from '../../../restore/plan.ts';
import type {
  RestoredFolder,
  RestoreProgress,
  RestoreResult,
} from '../../../restore/restore-options.ts';
import { bytes, count, counted, localTime, span } from '../../../wording/amounts.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import type { Output } from '../../output.ts';
import { present, tableText } from '../../output.ts';
import { shortId } from '../../place-line.ts';

/** Nobody reads more messages than this; `--json` has them all. */
const MOST_SHOWN = 20;

const WHY: Readonly<Record<RefusalReason, string>> = {
  quarantined: 'in quarantine: it could not be fetched completely',
  damaged: 'DAMAGED: its stored bytes were changed',
  purged: 'its bytes were removed on purpose',
  'append-limit': 'larger than the server takes',
  quota: 'no room in the quota',
  folder: 'the server does not take its folder',
  server: 'refused',
};

const ALTERED: Readonly<Record<Alteration, string>> = {
  'line-endings': 'lines that ended in LF alone now end in CRLF',
  'carriage-returns': 'the server left out CR bytes within lines, or added some',
  nul: 'the server replaced NUL bytes',
  'header-bytes': 'the server replaced bytes above 127 in the header',
  bytes: 'the server stored other bytes',
  date: 'the server keeps another received date',
  flags: 'the server does not keep all flags',
};

/** The result as programs get it: an error as its code and sentence. */
export function restoreJson({ ended, ...result }: RestoreResult): object {
  return { ...result, ended: ended === null ? null : sentenceOf(ended) };
}

/** The plan or the result for people. */
export function restoreText(
  result: RestoreResult,
  output: Pick<Output, 'interactive' | 'columns' | 'colours'>,
): string {
  if (result.planned === 0 && result.folders.length === 0)
    return 'Nothing to restore: the selection has no message and no folder.';
  const table = tableText(...folderTable(result.folders, result.dryRun), output);
  return present([
    table,
    '',
    result.dryRun ? planned(result) : done(result),
    [...notes(result)],
    named(result.failures, result.refused, ({ reason, text }) =>
      text === null ? WHY[reason] : `${WHY[reason]}: ${terminalLine(text)}`,
    ),
    named(
      result.lost,
      result.lost.length,
      () => 'MISSING: the server accepted it, but does not list it',
    ),
    named(
      result.doubled,
      result.doubled.length,
      ({ doubleUid }) => `there twice; the second copy is uid ${doubleUid}`,
    ),
  ]).join('\n');
}

function folderTable(folders: readonly RestoredFolder[], dryRun: boolean) {
  const headings = [
    'FOLDER',
    'GOES TO',
    'MESSAGES',
    dryRun ? 'TO SEND' : 'APPENDED',
    'THERE',
    'REFUSED',
  ];
  const rows = folders.map((one) => [
    `${one.mailbox} ${one.folder}`,
    one.to ?? '-',
    ...[one.planned, dryRun ? one.due : one.appended, one.present, one.refused].map(count),
  ]);
  return [headings, rows, 0] as const;
}

function planned(result: RestoreResult): string[] {
  const { due, bytes: size, present: there, refused, rate, to } = result;
  const times =
    rate === null
      ? []
      : [due / rate.messagesPerSecond, size / rate.bytesPerSecond].toSorted((x, y) => x - y);
  return present([
    continuing(result),
    `Would append ${counted(due, 'message')} (${bytes(size)}) to ${to}; ${count(there)} already there, ${count(refused)} cannot be sent.`,
    due > 0 &&
      (times.length === 0
        ? 'The duration is unknown until a restore to this server was measured.'
        : `At the rates of the last restore there, that takes ${betweenTimes(times)}.`),
    'Nothing was changed.',
  ]);
}

/** Seconds, counted by messages and by bytes: messages of another mean size are between the two. */
function betweenTimes([least = 0, most = 0]: readonly number[]): string {
  const [from, to] = [span(least * 1000), span(most * 1000)];
  return from === to ? from : `between ${from} and ${to}`;
}

function continuing({ continued, begun }: RestoreResult): string | false {
  return (
    continued &&
    begun !== null &&
    `This continues the restore that began ${localTime(Date.parse(begun))}; --new begins another.`
  );
}

function done(result: RestoreResult): string[] {
  const { appended, present: there, refused, due, interrupted, ended, rate, looked } = result;
  return present([
    continuing(result),
    `${interrupted ? 'Interrupted: ' : ''}appended ${counted(appended, 'message')}; ${count(there)} already there, ${count(refused)} refused${due > 0 ? `, ${count(due)} left` : ''}.`,
    appended > 0 &&
      rate !== null &&
      `Speed: ${rate.messagesPerSecond < 1 ? '' : `${count(rate.messagesPerSecond)} messages or `}${bytes(rate.bytesPerSecond)} a second.`,
    looked.compared > 0 &&
      `Checked at the server: ${counted(looked.compared, 'message')} by size, flags and date, ${count(looked.fetched)} of them byte by byte.`,
    ended !== null && sentenceOf(ended).message,
    (interrupted || ended !== null) &&
      'Run the same command again: it continues where it stopped, and sends nothing twice.',
  ]);
}

function* notes(result: RestoreResult): Generator<string> {
  const { expected, limits, altered, leftOut, folders, dryRun } = result;
  if (dryRun && expected['append-limit'] > 0)
    yield `The server takes messages up to ${bytes(limits.appendLimit ?? 0)}: ${counted(expected['append-limit'], 'larger message')} will be refused.`;
  if (dryRun && expected.quota > 0)
    yield `The quota has ${bytes(limits.quotaLeft ?? 0)} left: ${counted(expected.quota, 'message')} will not fit.`;
  for (const { mailbox, folder, to, replaced, numbered, remade } of folders) {
    const name = terminalLine(`${mailbox} ${folder}`);
    if (replaced)
      yield `${name} goes to ${terminalLine(to ?? '')}: the server refuses characters of its name.`;
    if (numbered) yield `${name} goes to ${terminalLine(to ?? '')}: another folder has its name.`;
    if (remade > 0)
      yield `${terminalLine(to ?? name)} was made again since the last run: what it had then (${counted(remade, 'message')}) no longer counts.`;
  }
  if (altered.messages > 0) {
    const be = altered.messages === 1 ? 'is' : 'are';
    yield `${counted(altered.messages, 'message')} ${dryRun ? 'will' : be} not ${dryRun ? 'be ' : ''}exactly as in the archive:`;
    const reasons = Object.entries(ALTERED) as [Alteration, string][];
    for (const [reason, words] of reasons) {
      const messages = altered.reasons[reason] ?? 0;
      if (messages > 0) yield `  ${count(messages)}: ${words}`;
    }
  }
  if (leftOut.deleted > 0)
    yield `The flag \\Deleted of ${counted(leftOut.deleted, 'message')} was left out: a client would remove them.`;
}

function named<M extends NamedMessage>(
  messages: readonly M[],
  all: number,
  why: (message: M) => string,
): string[] {
  return present([
    messages.slice(0, MOST_SHOWN).map((message) => {
      const { id, mailbox, folder, uid } = message;
      const short = id === null ? '-' : shortId(id);
      return `  ${short}  ${terminalLine(mailbox)} ${terminalLine(folder)} uid ${uid}: ${why(message)}`;
    }),
    all > MOST_SHOWN && `  … and ${count(all - MOST_SHOWN)} more; --json names them`,
  ]);
}

/** Damage is 3, what ended the run has its own code, and a message that is refused, gone or there twice is 1. */
export function exitOfRestore(result: RestoreResult): ExitCode {
  const { refusals, refused, lost, doubled, interrupted, ended } = result;
  return combinedExit([
    ...(interrupted ? [EXIT.interrupted] : []),
    ...(ended instanceof MailkeepError ? [exitOf(ended)] : []),
    ...((refusals.damaged ?? 0) > 0 ? [EXIT.damage] : []),
    ...(refused + lost.length + doubled.length > 0 ? [EXIT.failures] : []),
  ]);
}

/** One line of progress. */
export function progressText(progress: RestoreProgress): string {
  if (progress.step === 'looking') return `looking at ${terminalLine(progress.folder)}`;
  const { done: sent, of, bytes: written, ofBytes, elapsed } = progress;
  const left = written > 0 ? ((ofBytes - written) / written) * elapsed : null;
  const rest = left === null || elapsed < 5_000 ? '' : `, about ${span(left)} left`;
  return `appended ${count(sent)} of ${counted(of, 'message')}, ${bytes(written)} of ${bytes(ofBytes)}${rest}`;
}
