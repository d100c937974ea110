import { combinedExit, EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import type { ExportFailure, ExportResult } from '../../../export/export-options.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { bytes, counted } from '../../../wording/amounts.ts';
import { shortId } from '../../place-line.ts';

/** More places than this nobody reads; the manifest and `--json` have them all. */
const MOST_TOLD = 20;

const WHY: Readonly<Record<ExportFailure['reason'], string>> = {
  quarantined: 'in quarantine: its bytes never came whole',
  damaged: 'DAMAGED: its stored bytes are not what they were',
  purged: 'its bytes were removed on purpose',
};

/** The result for people. */
export function exportText(result: ExportResult): string {
  const { to, format, exported, skipped, kept, failures, interrupted } = result;
  const lost = result.quarantined + result.damaged + result.purged;
  return [
    `${interrupted ? 'Interrupted: ' : ''}exported ${counted(exported, 'place')} (${bytes(result.bytes)}) as ${format} to ${terminalLine(to)}; commit ${result.commit.number}`,
    ...(skipped > 0 ? [`${counted(skipped, 'place')} were there already`] : []),
    ...(kept > 0
      ? [`${counted(kept, 'place')} of earlier exports are there in addition to those asked for`]
      : []),
    ...(lost > 0 ? [`${counted(lost, 'place')} could not be exported:`] : []),
    ...failures.slice(0, MOST_TOLD).map(failureText),
    ...(failures.length > MOST_TOLD
      ? [`  … and ${counted(lost - MOST_TOLD, 'more')}; --json and the manifest name them`]
      : []),
  ].join('\n');
}

function failureText({ id, mailbox, folder, uid, reason }: ExportFailure): string {
  return `  ${shortId(id)}  ${terminalLine(mailbox)} ${terminalLine(folder)} uid ${uid}: ${WHY[reason]}`;
}

/** Damage is 3; what is in quarantine or purged is named, and is 1, as after a sync. */
export function exitOfExport(result: ExportResult): ExitCode {
  const { damaged, quarantined, purged, interrupted } = result;
  return combinedExit([
    ...(interrupted ? [EXIT.interrupted] : []),
    ...(damaged > 0 ? [EXIT.damage] : []),
    ...(quarantined + purged > 0 ? [EXIT.failures] : []),
  ]);
}
