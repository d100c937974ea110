import { some } from '../core/errors.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import type { Notice, Trouble } from './notifier.ts';
import { isWarning } from './notifier.ts';

/** Where the line goes (a subject, a chat, an SMS) long ones are cut anyway. */
const MOST_CHARACTERS = 300;

/** A notification in one line; null is a heartbeat. */
export function noticeSummary(notice: Notice | null): string {
  if (notice === null) return 'mailkeep: all is well';
  const { still } = notice;
  const failing = apart(notice.failing);
  const recovered = apart(notice.recovered);
  const parts = [
    ...failingText(failing.others, 'failing'),
    ...failingText(still, 'still failing'),
    ...failingText(failing.warnings, 'warning'),
    ...(recovered.others.length === 0 ? [] : [`works again: ${names(recovered.others)}`]),
    ...(recovered.warnings.length === 0
      ? []
      : [`no longer a warning: ${names(recovered.warnings)}`]),
  ];
  return terminalLine(`mailkeep: ${parts.join('; ')}`).slice(0, MOST_CHARACTERS);
}

function failingText(troubles: readonly Trouble[], word: string): string[] {
  const [first] = troubles;
  if (first === undefined) return [];
  const why = troubles.length === 1 ? ` (${first.failure.message})` : '';
  return [`${word}: ${names(troubles)}${why}`];
}

function apart(troubles: readonly Trouble[]) {
  return {
    warnings: troubles.filter(({ subject }) => isWarning(subject)),
    others: troubles.filter(({ subject }) => !isWarning(subject)),
  };
}

function names(troubles: readonly Trouble[]): string {
  return some(
    troubles.map(({ subject: { kind, name } }) => `${kind} ${name}`),
    3,
  );
}
