import type { UsageFacts } from '../../errors/usage.ts';
import { reasonText, type Sentences, say, some } from './sentence.ts';

export const USAGE_SENTENCES: Sentences<UsageFacts> = {
  'usage-invalid': ({ command, problem }) =>
    say(
      `${problem.charAt(0).toUpperCase()}${problem.slice(1)}`,
      `"mailkeep${command === '' ? '' : ` ${command}`} --help" shows what can be typed.`,
    ),
  'usage-option': ({ option, found, expected }) =>
    say(`${option} takes ${expected}; "${found}" is none.`),
  'usage-not-interactive': ({ command, missing }) =>
    say(
      `Something is missing, and standard input is no terminal to ask on: ${missing.join(', ')}.`,
      `"mailkeep ${command} --help" shows the options that give it.`,
    ),
  'usage-unknown-account': ({ account, known }) =>
    say(`The configuration has no account "${account}".`, `It has: ${some(known, 8)}.`),
  'usage-unknown-message': ({ id }) =>
    say(
      `The archive has no message whose id begins with ${id}.`,
      '"mailkeep list" and "mailkeep search" show ids; the first 8 characters are usually enough.',
    ),
  'usage-unknown-search': ({ name, suggestion }) =>
    say(
      `No search is saved as @${name}.`,
      `${suggestion === null ? '' : `Did you mean @${suggestion}? `}"mailkeep search --saved" lists them; put quotes around text with an @ in front.`,
    ),
  'usage-search-exists': ({ name, query }) =>
    say(`@${name} is already saved: ${query}`, 'Add --replace to replace it.'),
  'usage-ambiguous-id': ({ id, candidates }) =>
    say(
      [
        `${id} is the beginning of several ids:`,
        ...candidates.map((candidate) => `  ${candidate}`),
      ].join('\n'),
      'Type a few more characters.',
    ),
  'usage-no-archive': ({ dataDir }) =>
    say(
      `There is no archive in ${dataDir}.`,
      'Name its folder with --data DIR, or fill one with "mailkeep sync".',
    ),
  'usage-bad-date': ({ option, found }) =>
    say(
      `${option} takes a date (2026-03-01), an ISO time or a span such as 3d; "${found}" is none.`,
    ),
  'usage-no-source': ({ id, reason }) =>
    say(`The source of ${id} is not in the archive: ${reason}.`),
  'usage-save-failed': ({ file, reason }) =>
    say(`${file} cannot be written: ${reasonText(reason)}.`),
};
