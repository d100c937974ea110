import path from 'node:path';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { checkExport, type ExportCheck, type ExportFinding } from '../../../export/check.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import type { CommandContext } from '../../context.ts';
import { present } from '../../output.ts';
import { shortId } from '../../place-line.ts';
import { openActivity } from '../../progress/activity.ts';

const MOST_SHOWN = 50;

const WHAT: Readonly<Record<ExportFinding['kind'], string>> = {
  missing: 'MISSING',
  changed: 'CHANGED',
  manifest: 'MANIFEST is missing or not what was written',
  unreadable: 'UNREADABLE as a zip file',
  unlisted: 'not of this export',
  unfinished: 'an export to this place did not end: run it again',
};

/** `verify --export`: compares an export with its manifest. */
export async function verifyExport(context: CommandContext, typed: string): Promise<ExitCode> {
  const { surroundings, signal, output } = context;
  const activity = openActivity(context, 'reading the manifest');
  const check = await checkExport({
    at: path.resolve(surroundings.cwd, typed),
    signal,
    onProgress: ({ messages, bytes: read }) =>
      activity.show(() => `compared ${counted(messages, 'place')}, ${bytes(read)}`),
  }).finally(activity.stop);
  await output.object(check, () => checkText(check));
  if (!check.sound) return EXIT.damage;
  return check.findings.some(({ kind }) => kind === 'unfinished') ? EXIT.failures : EXIT.done;
}

function checkText(check: ExportCheck): string {
  const { format, commit, messages, lacking, found, findings, sound } = check;
  const verdict = sound ? 'as exported' : 'DAMAGED';
  const of = format === null ? '' : ` (${format}, commit ${commit?.number ?? 0})`;
  return present([
    `${verdict}${of}: ${counted(messages, 'place')}, ${bytes(check.bytes)} compared`,
    lacking > 0 && `${counted(lacking, 'place')} had no bytes to export: the manifest names them`,
    findings.slice(0, MOST_SHOWN).map(findingText),
    found > MOST_SHOWN && `… and ${count(found - MOST_SHOWN)} more; --json names them`,
  ]).join('\n');
}

function findingText({ kind, path: at, id, mailbox, folder, uid }: ExportFinding): string {
  const message =
    id === undefined
      ? ''
      : `  (${shortId(id)}, ${terminalLine(mailbox ?? '')} ${terminalLine(folder ?? '')} uid ${uid})`;
  return `${WHAT[kind]}  ${terminalLine(at)}${message}`;
}
