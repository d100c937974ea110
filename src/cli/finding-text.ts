import type { AffectedMessage } from '../catalog/comparison.ts';
import type { Finding } from '../catalog/findings.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { counted } from '../core/text.ts';

/** Maximum number of messages listed for each damaged range. */
const MAX_NAMED = 5;
/** Matches hashes, which are shortened for display. */
const HASH = /^[0-9a-f]{64}$/i;

const DIFFERENCES = {
  lacking: 'lacks a row in',
  surplus: 'has a row too many in',
  different: 'has a wrong row in',
} as const;

/** Describes a finding on one line, without escape sequences from mail. */
export function findingText(finding: Finding): string {
  switch (finding.what) {
    case 'log': {
      const { file, offset, end, reason, messages } = finding;
      const names = messages.slice(0, MAX_NAMED).map(messageText).join('; ');
      const rest = messages.length - MAX_NAMED;
      const suffix =
        messages.length === 0
          ? ''
          : `, affects ${names}${rest > 0 ? ` and ${counted(rest, 'more message')}` : ''}`;
      return `${file}, bytes ${offset} to ${end} (${reason})${suffix}`;
    }
    case 'message': {
      const { message, reason, blob } = finding;
      const needs = blob === null ? '' : `, needs the bytes of ${blob.slice(0, 12)}`;
      return `${messageText(message)} (${reason})${needs}`;
    }
    case 'missing': {
      const { kind, hash, message } = finding;
      return message === null
        ? `the bytes of ${kind} ${hash.slice(0, 12)} are missing`
        : `the bytes of ${messageText(message)} are missing`;
    }
    case 'catalog': {
      const { table, difference, columns, key, message } = finding;
      const detail = columns.length > 0 ? ` (${columns.join(', ')})` : '';
      const name = Object.entries(key)
        .map(
          ([column, value]) =>
            `${column} ${HASH.test(`${value}`) ? `${value}`.slice(0, 12) : value}`,
        )
        .join(', ');
      const about = message === null ? '' : `, about ${messageText(message)}`;
      const row = `the index ${DIFFERENCES[difference]} ${table}${detail}`;
      return terminalLine(`${row}${name === '' ? '' : `: ${name}`}${about}`);
    }
    case 'catalog-file':
      return terminalLine(`the index is damaged: ${finding.detail}`);
    case 'state-file':
      return terminalLine(`the state: ${finding.detail}`);
    case 'commit': {
      const { by, reason, number, lastNumber } = finding;
      const witness = by === 'catalog' ? 'the index has seen' : 'the checkpoint covers';
      const difference = {
        'ends-early': `the log ends at commit ${lastNumber}, but ${witness} commit ${number}`,
        diverged: `commit ${number} of the log differs from the one that ${witness}`,
        'other-archive': `the checkpoint belongs to another archive`,
      };
      return difference[reason];
    }
    case 'format':
      return 'the FORMAT file has unexpected content';
  }
}

function messageText({ id, subject, places }: AffectedMessage): string {
  const [place] = places;
  const name = id === null ? 'a message' : `message ${id.slice(0, 12)}`;
  const label = subject === null ? name : `${name} "${subject}"`;
  return terminalLine(
    place === undefined ? label : `${label} in ${place.mailbox} ${place.folder} uid ${place.uid}`,
  );
}
