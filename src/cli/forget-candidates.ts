import { randomBytes } from 'node:crypto';
import type { QuarantineEntry } from '../catalog/messages.ts';
import type { Reader } from '../catalog/open-reader.ts';
import { purgedMessage } from '../catalog/open-reader.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { counted } from '../core/text.ts';
import type { MessageId, Place } from '../core/types.ts';
import { isImported } from '../mail/identity.ts';
import { retentionError } from '../verify/errors.ts';
import type { Forgetting } from '../verify/purge.ts';
import { oneMessage } from './archive.ts';
import { chosenEntries, type QuarantineChoice } from './option-values.ts';

/** What a line of `forget` names. */
export interface ForgetChoice extends QuarantineChoice {
  /** Ids of messages, or their beginnings. */
  readonly ids: readonly string[];
  readonly quarantine: boolean;
}

/** Something that is to be forgotten, as people know it. */
export interface ForgetCandidate extends Forgetting {
  /** Of what is in quarantine: its place in words. */
  readonly at: string | null;
  readonly date: string | null;
  readonly subject: string | null;
  /** How it was purged before; null if it is there. */
  readonly purged: 'pruned' | 'forgotten' | null;
  /** At how many places the service still has it. */
  readonly atOrigin: number;
}

const SHORT = 12;

/**
 * Returns what is to be forgotten, each message once.
 *
 * @throws usage-unknown-message, usage-ambiguous-id, forget-nothing-chosen
 */
export function forgetCandidates(
  { catalog }: Pick<Reader, 'catalog'>,
  choice: ForgetChoice,
): readonly ForgetCandidate[] {
  const found = new Map<MessageId, ForgetCandidate>();
  for (const typed of choice.ids) {
    const purged = purgedMessage({ catalog }, typed);
    const message = purged?.id ?? oneMessage({ catalog }, typed);
    const { subject = null, date = null } = catalog.messages.summary(message) ?? {};
    const places = catalog.ended.placesOf(catalog.messages.docidOf(message) ?? 0);
    const open = places.filter((place) => place.endedAt === null && !isImported(place));
    const about = { at: null, date, subject, atOrigin: open.length };
    const before = purged?.reason === 'forgotten' ? 'forgotten' : 'pruned';
    found.set(message, { message, ...about, purged: purged === undefined ? null : before });
  }
  if (choice.quarantine) {
    for (const entry of chosenEntries(catalog, choice)) {
      // No hash of it is known: a number stands for it, which reveals nothing.
      const message = randomBytes(32).toString('hex');
      const place = placeOf(entry);
      const at = `${entry.address} / ${entry.folder} / ${entry.uid}`;
      const about = { date: null, subject: entry.subject, atOrigin: isImported(place) ? 0 : 1 };
      found.set(message, { message, place, at, ...about, purged: null });
    }
  }
  if (found.size === 0) throw retentionError('forget-nothing-chosen', {});
  return [...found.values()];
}

/** Returns a line for each candidate that is not forgotten yet, harmless for a terminal. */
export function candidateLines(candidates: readonly ForgetCandidate[]): string[] {
  return candidates
    .filter(({ purged }) => purged !== 'forgotten')
    .map(({ message, at, date, subject, purged }) => {
      const id = message.slice(0, SHORT);
      if (purged !== null) return `Forget ${id}  (pruned)`;
      const what = at ?? `${id}  ${date ?? ''}`;
      return terminalLine(`Forget ${what}  ${subject ?? '(no subject)'}`);
    });
}

/** Returns what a dry run prints. */
export function wouldText(candidates: readonly ForgetCandidate[]): string {
  const lines = candidateLines(candidates);
  return lines.length === 0 ? 'All of these were forgotten before.' : lines.join('\n');
}

/** Returns the ids of messages as people read them. */
export function shortIds(messages: readonly MessageId[]): string {
  return messages.map((id) => id.slice(0, SHORT)).join(', ');
}

/** Returns what to do about places at which the service still has what was forgotten. */
export function originText(atOrigin: number, messages: number): string[] {
  if (atOrigin === 0) return [];
  const it = messages === 1 ? 'it' : 'them';
  return [
    `The service still has ${it} at ${counted(atOrigin, 'place')}, and will not be asked for ${it} again. Delete ${it} there as well.`,
  ];
}

function placeOf({ host, mailbox, folder, generation, uid }: QuarantineEntry): Place {
  return { host, mailbox, folder, generation, uid };
}
