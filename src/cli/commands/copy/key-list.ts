import { type ListedRecipient, listKeys } from '../../../engine/offsite/change-recipients.ts';
import type { Opens } from '../../../engine/offsite/recipients.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import type { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { padColumns, terminalLine } from '../../../mail/terminal-safe.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import { archiveOf } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import { required, withStore } from '../../copy-target.ts';
import type { ListLine } from './lines.ts';

const OPENS: Readonly<Record<Opens, string>> = {
  new: 'opens everything',
  old: 'opens older states only',
  unknown: 'does not say what it opens',
};
const OPENS_COLUMNS = Math.max(...Object.values(OPENS).map((text) => text.length));

/** `mailkeep copy key list`: who can open a copy, what is damaged, and who signs. */
export async function keyList(context: CommandContext, line: ListLine): Promise<ExitCode> {
  const { output, signal } = context;
  const target = required(line.to, '--to');
  const dataDir = archiveOf(context);
  return withStore(context, target, {}, async (store) => {
    const listed = await listKeys({ dataDir, store, signal });
    const { recipients, signers, damaged, isRotating } = listed;
    for (const recipient of recipients) {
      await output.line(recipientFacts(recipient), () => recipientText(recipient));
    }
    for (const [at, signer] of signers.entries()) {
      const text = signer.toString('base64');
      await output.line({ what: 'signer', signer: text, first: at === 0 }, () =>
        at === 0 ? `signed by ${text}` : `signed by ${text}, later`,
      );
    }
    if (isRotating) {
      await output.line(
        { what: 'rotation', state: 'interrupted' },
        () => `A rotation was interrupted. "mailkeep copy key rotate --to ${target}" completes it.`,
      );
    }
    for (const error of damaged) {
      const { message } = sentenceOf(error);
      await output.line({ what: 'damaged', name: nameIn(error), error: message }, () =>
        terminalLine(message),
      );
    }
    return damaged.length > 0 ? EXIT.damage : EXIT.done;
  });
}

function recipientFacts({ keys, opens }: ListedRecipient) {
  const { id, type, label, created } = keys;
  return { what: 'recipient', id, type, label, created: timeText(created), opens };
}

function recipientText({ keys, opens }: ListedRecipient): string {
  const { id, type, label, created } = keys;
  return [
    id,
    padColumns(type, 10),
    timeText(created) ?? '?',
    padColumns(OPENS[opens], OPENS_COLUMNS),
    label === null ? '' : terminalLine(label),
  ]
    .join('  ')
    .trimEnd();
}

/** Anybody may have written the number; null where it is no time. */
function timeText(created: number): string | null {
  const time = new Date(created);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

function nameIn({ facts }: MailkeepError): string | null {
  return typeof facts.name === 'string' ? facts.name : null;
}
