import type { QuarantineEntry } from '../../../catalog/quarantine.ts';
import { openReader } from '../../../engine/archive/reader.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { bytes } from '../../../wording/amounts.ts';
import type { CommandContext } from '../../context.ts';
import { dateText } from '../../place-line.ts';
import { shownName } from '../../shown-name.ts';
import { refuseUnknownChoice } from '../../unknown-names.ts';
import { chosenEntries, type QuarantineChoice } from './choice.ts';

/** `mailkeep quarantine`: what could not be fetched whole, a line each. */
export async function listQuarantine(
  context: CommandContext,
  choice: QuarantineChoice,
): Promise<ExitCode> {
  const reader = openReader(context);
  try {
    // An entry may be of a folder that went.
    refuseUnknownChoice(reader, { ...choice, deleted: true });
    const all = reader.catalog.quarantine.open();
    const chosen = chosenEntries(reader.catalog, choice);
    for (const entry of chosen) {
      await context.output.line(lineOf(entry), () => textOf(entry));
    }
    if (all.length === 0) context.notices.say('Nothing is in quarantine.');
    else if (chosen.length === 0) context.notices.say('Nothing in quarantine is what you chose.');
    return EXIT.done;
  } finally {
    reader.close();
  }
}

/** One entry as `--json` prints it; times in ISO 8601 UTC, `kept` the hash of what bytes came. */
function lineOf(entry: QuarantineEntry) {
  return {
    mailbox: entry.address,
    folder: entry.folder,
    uid: entry.uid,
    reason: entry.reason,
    detail: entry.detail,
    size: entry.size,
    date: entry.date === null ? null : new Date(entry.date).toISOString(),
    subject: entry.subject,
    messageId: entry.messageId,
    since: new Date(entry.since).toISOString(),
    acknowledged: entry.acknowledged,
    kept: entry.kept,
  };
}

function textOf(entry: QuarantineEntry): string {
  const { address, folder, uid, subject, reason, detail, size, since, acknowledged } = entry;
  const place = shownName(address, folder, String(uid));
  const why = terminalLine(`${reason}: ${detail}`);
  const told = acknowledged ? ', acknowledged' : '';
  return `${dateText(new Date(since).toISOString())}  ${place}  ${terminalLine(subject ?? '(no subject)')} (${bytes(size)}): ${why}${told}`;
}
