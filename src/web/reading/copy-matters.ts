import type { CopyStatus } from '../../health/copies.ts';
import { shellWord } from '../../mail/terminal-safe.ts';
import { counted, span } from '../../wording/amounts.ts';
import type { Matter } from './matter.ts';

/** Returns what about the copies of the archive needs a person: damage, then age, then failures that may pass. */
export function mattersOfCopies(copies: readonly CopyStatus[], now: number): Matter[] {
  return copies.flatMap((copy): Matter[] => {
    const { to, damage, stale, failure } = copy;
    const matters: Matter[] = [];
    if (damage !== null) {
      matters.push({
        level: 'bad',
        title: `The copy at ${to} is damaged: ${counted(damage.findings, 'finding')}`,
        text: damage.message,
        command: `verify --copy ${shellWord(to)}`,
        link: null,
      });
    }
    if (stale || failure !== null) {
      matters.push({
        level: stale ? 'bad' : 'warn',
        title: stale ? `The copy at ${to} is old` : `The copy at ${to} fails`,
        text: [ageText(copy, now), failure?.message].filter((part) => part !== undefined).join(' '),
        command: `copy --to ${shellWord(to)}`,
        link: { href: '/health/runs?lane=chores', text: 'See the runs' },
      });
    }
    return matters;
  });
}

function ageText({ copiedAt, behind }: CopyStatus, now: number): string {
  if (copiedAt === null) return 'It was never made.';
  const age = span(Math.max(0, now - Date.parse(copiedAt)));
  return `It was last made ${age} ago, and lacks ${counted(behind ?? 0, 'commit')}.`;
}
