import { terminalLine } from '../../mail/terminal-safe.ts';
import type { Notice, Trouble } from '../../notify/plan.ts';
import { some } from './sentence.ts';

/** Where the line goes (a subject, a chat, an SMS) long ones are cut anyway. */
const MOST_CHARACTERS = 300;

/** A notification in one line; null is a sign of life. */
export function noticeSummary(notice: Notice | null): string {
  if (notice === null) return 'mailkeep: all is well';
  const { failing, still, recovered } = notice;
  const parts = [
    ...failingText(failing, ''),
    ...failingText(still, 'still '),
    ...(recovered.length === 0 ? [] : [`works again: ${names(recovered)}`]),
  ];
  return terminalLine(`mailkeep: ${parts.join('; ')}`).slice(0, MOST_CHARACTERS);
}

function failingText(troubles: readonly Trouble[], word: string): string[] {
  const [first] = troubles;
  if (first === undefined) return [];
  const why = troubles.length === 1 ? ` (${first.failure.message})` : '';
  return [`${word}failing: ${names(troubles)}${why}`];
}

function names(troubles: readonly Trouble[]): string {
  return some(
    troubles.map(({ subject: { kind, name } }) => `${kind} ${name}`),
    3,
  );
}
