import type { UsageFacts } from '../errors/usage.ts';
import { didYouMean, reasonText, type Sentences, say, some } from './sentence.ts';

export const USAGE_SENTENCES: Sentences<UsageFacts> = {
  'usage-invalid': ({ command, problem }) =>
    say(
      `${problem.charAt(0).toUpperCase()}${problem.slice(1)}`,
      `"mailkeep${command === '' ? '' : ` ${command}`} --help" shows what can be typed.`,
    ),
  'usage-no-command': ({ help }) => say('Which command?', help),
  'usage-option': ({ option, found, expected }) =>
    say(`${option}: expected ${expected}, found "${found}".`),
  'usage-not-interactive': ({ command, missing }) =>
    say(
      `Missing, with no terminal to ask on: ${missing.join(', ')}.`,
      `"mailkeep ${command} --help" shows the options that give it.`,
    ),
  'usage-unknown-account': ({ account, known, suggestion }) =>
    say(
      `The configuration has no account "${account}".`,
      didYouMean(suggestion, `It has ${some(known, 8)}.`),
    ),
  'usage-unknown-name': ({ kind, found, suggestion, candidates }) =>
    say(
      `The archive has no ${kind} "${found}".`,
      didYouMean(
        suggestion,
        candidates.length === 0
          ? `"mailkeep status" lists its mailboxes and folders.`
          : `It has ${some(candidates, 8)}.`,
      ),
    ),
  'usage-unreachable-mailbox': ({ mailbox, known, suggestion }) =>
    say(
      `The token cannot reach ${mailbox}${known.length === 0 ? '' : `; it reaches ${some(known, 8)}`}.`,
      suggestion === null ? null : didYouMean(suggestion),
    ),
  'usage-unlisted-folder': ({ folder, suggestion }) =>
    say(
      `The service lists no folder "${folder}".`,
      didYouMean(
        suggestion,
        '"mailkeep status" lists the folders of the archive; "folders" in the configuration may leave others out.',
      ),
    ),
  'usage-folder-gone': ({ folder }) =>
    say(
      `The folder "${folder}" is no longer at the service.`,
      'Add --deleted to get what was in it, or --as-of TIME to get it as it was then.',
    ),
  'usage-unknown-message': ({ id }) =>
    say(
      `The archive has no message whose id begins with ${id}.`,
      '"mailkeep list" and "mailkeep search" show ids; the first 8 characters are usually enough.',
    ),
  'usage-ids-unreadable': ({ source, reason }) =>
    say(`The ids in ${source} cannot be read: ${reasonText(reason)}.`),
  'usage-unknown-search': ({ name, suggestion }) =>
    say(
      `No search is saved as @${name}.`,
      `${suggestion === null ? '' : `${didYouMean(`@${suggestion}`)} `}"mailkeep search --saved" lists them; put quotes around text with an @ in front.`,
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
      `${option}: expected a date (2026-03-01), an ISO time or a span such as 3d, found "${found}".`,
    ),
  'usage-no-source': ({ id, reason }) =>
    say(`The source of ${id} is not in the archive: ${reason}.`),
  'usage-save-failed': ({ file, reason }) =>
    say(`${file} cannot be written: ${reasonText(reason)}.`),
};
