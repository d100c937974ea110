import type { ConfigFacts } from '../errors/config.ts';
import { didYouMean, reasonText, type Sentences, say } from './sentence.ts';

/** How a token source reads in a sentence. */
function sourceText(source: string, name: string): string {
  switch (source) {
    case 'env':
      return `the environment variable ${name}`;
    case 'file':
      return `the token file ${name}`;
    case 'credential':
      return `the systemd credential ${name}`;
    default:
      return `the token in the config file (${name})`;
  }
}

export const CONFIG_SENTENCES: Sentences<ConfigFacts> = {
  'config-not-found': ({ searched }) =>
    say(
      `There is no config file: looked for ${searched.join(', ')}.`,
      'Write one with "mailkeep init", or name yours with --config FILE.',
    ),
  'config-unreadable': ({ file, reason }) =>
    say(
      `The config file ${file} cannot be read: ${reasonText(reason)}.`,
      reason === 'EFBIG' ? 'A configuration has at most 1 MiB.' : null,
    ),
  'config-not-json': ({ file, line, column }) =>
    say(
      `The config file ${file} is not valid JSON${line === null ? '' : ` at line ${line}, column ${column}`}.`,
      'Look for a missing or extra comma, quote or bracket there; JSON has no comments.',
    ),
  'config-invalid': ({ file, paths, found, expected, suggestions }) =>
    say(
      [
        `${file} has ${paths.length === 1 ? 'a wrong field' : `${paths.length} wrong fields`}:`,
        ...paths.map((path, i) => {
          const otherwise = found[i] === '' ? `The fields are ${expected[i]}.` : '';
          const meant = didYouMean(suggestions[i] || null, suggestions[i] ? '' : otherwise);
          return found[i] === ''
            ? `  ${path}: Unknown field "${lastPart(path)}". ${meant}`
            : `  ${path}: found ${found[i]}, expected ${expected[i]}${meant === '' ? '' : `. ${meant}`}`;
        }),
      ].join('\n'),
      'config.example.json shows every field; editors that read "$schema" check while you type.',
    ),
  'config-exists': ({ file }) =>
    say(
      `${file} exists already; it was not touched.`,
      'Edit it, or name another file with --config FILE.',
    ),
  'token-missing': ({ source, name }) =>
    say(
      `There is no token: ${sourceText(source, name)} is not there.`,
      source === 'credential'
        ? 'Give it to the service with LoadCredential= in its systemd unit.'
        : 'Put the token there, or name another place in the configuration.',
    ),
  'token-empty': ({ source, name }) =>
    say(`${capital(sourceText(source, name))} is empty.`, 'Put the token there.'),
  'token-unreadable': ({ source, name, reason }) =>
    say(`${capital(sourceText(source, name))} cannot be read: ${reasonText(reason)}.`),
  'token-unusable': ({ source, name }) =>
    say(
      `${capital(sourceText(source, name))} holds no token: a token is one word of printable characters.`,
    ),
};

/** `token` of `accounts[0].token`. */
function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
