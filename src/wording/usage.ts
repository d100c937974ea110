import type { ConfigFacts } from '../errors/config.ts';
import type { OperationFacts } from '../errors/operations.ts';
import type { UsageFacts } from '../errors/usage.ts';
import { capital, didYouMean, reasonText, type Sentences, say, some } from './sentence.ts';

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
      `No configuration found. Looked for ${searched.join(', ')}.`,
      'Create one with "mailkeep init", or specify one with --config FILE.',
    ),
  'config-unreadable': ({ file, reason }) =>
    say(
      `The config file ${file} cannot be read: ${reasonText(reason)}.`,
      reason === 'EFBIG' ? 'The limit for a configuration is 1 MiB.' : null,
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
      paths.some((path) => path.startsWith('fleet'))
        ? 'docs/fleet.md shows every field of a fleet; editors that read "$schema" check while you type.'
        : 'config.example.json shows every field; editors that read "$schema" check while you type.',
    ),
  'config-exists': ({ file }) =>
    say(
      `${file} exists already; it was left as it is.`,
      'Edit it, or name another file with --config FILE.',
    ),
  'token-missing': ({ source, name }) =>
    say(
      `There is no token: ${sourceText(source, name)} does not exist.`,
      source === 'credential'
        ? 'Pass it to the daemon with LoadCredential= in its systemd unit.'
        : 'Put the token there, or name another source in the configuration.',
    ),
  'token-empty': ({ source, name }) =>
    say(`${capital(sourceText(source, name))} is empty.`, 'Put the token there.'),
  'token-unreadable': ({ source, name, reason }) =>
    say(`${capital(sourceText(source, name))} cannot be read: ${reasonText(reason)}.`),
  'token-unusable': ({ source, name }) =>
    say(
      `${capital(sourceText(source, name))} contains no token: a token is one word of printable characters.`,
    ),
  'registry-address-missing': ({ source, name, reason }) =>
    say(
      `The address of the registry cannot be read from ${addressSource(source, name)}: ${addressProblem(reason)}.`,
      'Put it there (postgresql://USER@HOST/DATABASE), or change fleet.registry in the configuration.',
    ),
};

function addressSource(source: string, name: string): string {
  if (source === 'file') return `the file ${name}`;
  return source === 'literal' ? `the config file (${name})` : sourceText(source, name);
}

/** Why there is no address of a registry where one was looked for. */
function addressProblem(reason: string): string {
  const words: Readonly<Record<string, string>> = {
    'token-missing': 'it does not exist',
    'token-empty': 'it is empty',
    'token-unusable': 'it contains blanks or control characters',
  };
  return words[reason] ?? reasonText(reason);
}

/** `token` of `accounts[0].token`. */
function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}

export const OPERATION_SENTENCES: Sentences<OperationFacts> = {
  'operation-unknown': ({ operation, nearest }) =>
    say(
      `The service has no operation "${operation}".`,
      nearest.length === 0
        ? '"mailkeep api --list" lists them all.'
        : `Did you mean ${either(nearest)}? "mailkeep api --list" lists them all.`,
    ),
  'operation-param-unknown': ({ operation, param, nearest, known, inBody }) =>
    say(
      inBody
        ? `${operation} takes "${param}" in its body, not as a parameter.`
        : `${operation} has no parameter "${param}"${known.length === 0 ? '; it takes none' : `; it takes ${some(known, 9)}`}.`,
      inBody
        ? `Give it in a JSON object with --body. ${describing(operation)}`
        : nearest === null
          ? describing(operation)
          : `Did you mean "${nearest}"? ${describing(operation)}`,
    ),
  'operation-param-missing': ({ operation, param, expected, help }) =>
    say(
      `${operation} needs the parameter "${param}": ${help} (${expected}).`,
      param === 'orderId'
        ? 'Give it with --param orderId=…, or set platform.orderId of the account in the configuration.'
        : `Give it with --param ${param === 'mailboxResourceId' || param === 'mailboxId' ? 'mailbox=<address or resource id>' : `${param}=…`}`,
    ),
  'operation-param-invalid': ({ operation, param, found, expected }) =>
    say(
      `Parameter "${param}" of ${operation}: expected ${expected}, found "${found}".`,
      describing(operation),
    ),
  'operation-param-twice': ({ operation, param }) =>
    say(`"${param}" was given to ${operation} more than once.`),
  'operation-no-body': ({ operation }) => say(`${operation} takes no body.`, describing(operation)),
  'operation-body-missing': ({ operation, fields }) =>
    say(
      `${operation} needs a body with ${some(fields, 9)}.`,
      `Give it as --body FILE, --body - or --body '{…}'. ${describing(operation)}`,
    ),
  'operation-field-unknown': ({ operation, field, nearest, known }) =>
    say(
      `The body of ${operation} has no field "${field}"; it takes ${some(known, 13)}.`,
      nearest === null
        ? describing(operation)
        : `Did you mean "${nearest}"? ${describing(operation)}`,
    ),
  'operation-body-unreadable': ({ source, reason }) =>
    say(`The body cannot be read from ${source}: ${reasonText(reason)}.`),
  'operation-body-no-object': ({ source, line, column }) =>
    say(
      line === null
        ? `The body from ${source} is not a JSON object.`
        : `The body from ${source} is not valid JSON at line ${line}, column ${column}.`,
    ),
  'operation-needs-platform': ({ operation, account }) =>
    say(
      `${operation} belongs to the platform surface, and account "${account}" has no token for it.`,
      'Give the account "platform": {"url": …, "token": …} in the configuration.',
    ),
  'operation-needs-account': ({ known }) =>
    say(
      'The configuration has several accounts.',
      `Choose one with --account NAME: ${some(known, 8)}.`,
    ),
  'operation-needs-yes': ({ act }) =>
    say(
      `"${act}" cannot be undone, and there is no terminal to confirm it on.`,
      'Add --yes to confirm.',
    ),
  'operation-bytes-on-terminal': ({ operation }) =>
    say(
      `${operation} answers with bytes that could control the terminal.`,
      'Write them to a file with --output FILE, or print them anyway with --output -',
    ),
  'operation-mailbox-unknown': ({ address, account, known, suggestion }) =>
    say(
      `The token of account "${account}" cannot reach ${address}; it reaches ${known.length === 0 ? 'no mailbox at all' : some(known, 8)}.`,
      known.length === 0
        ? 'Check the token in the panel of your mail service.'
        : suggestion === null
          ? null
          : didYouMean(suggestion),
    ),
  'operation-mailbox-nowhere': ({ address, known, suggestion }) =>
    say(
      `No account of the configuration reaches ${address}; together they reach ${known.length === 0 ? 'no mailbox at all' : some(known, 8)}.`,
      suggestion === null ? null : didYouMean(suggestion),
    ),
};

function describing(operation: string): string {
  return `"mailkeep api ${operation} --describe" shows its parameters and body.`;
}

function either(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
}

/** What `usage-option` expected, for the kinds of names that the engine checks. */
const EXPECTED: Readonly<Record<string, string>> = {
  'configured-name': 'a name that the configuration includes',
  'search-name': 'a name of letters, digits, - and _',
};

export const USAGE_SENTENCES: Sentences<UsageFacts> = {
  'usage-invalid': ({ command, problem }) =>
    say(
      capital(problem),
      `"mailkeep${command === '' ? '' : ` ${command}`} --help" shows the usage.`,
    ),
  'argument-invalid': ({ argument, problem }) => say(`${argument}: ${problem}.`),
  'usage-no-command': ({ help }) => say('No command given.', help),
  'usage-option': ({ option, found, expected }) =>
    say(`${option}: expected ${EXPECTED[expected] ?? expected}, found "${found}".`),
  'usage-not-interactive': ({ command, missing }) =>
    say(
      `Required, because there is no terminal to prompt on: ${missing.join(', ')}.`,
      `"mailkeep ${command} --help" shows the options for it.`,
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
      'Add --deleted to include what was in it, or --as-of TIME to see it as it was then.',
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
      `${suggestion === null ? '' : `${didYouMean(`@${suggestion}`)} `}"mailkeep search --saved" lists them; put quotes around text that begins with @.`,
    ),
  'usage-search-exists': ({ name, query }) =>
    say(`@${name} is already saved: ${query}`, 'Add --replace to replace it.'),
  'usage-ambiguous-id': ({ id, candidates }) =>
    say(
      [`Several ids begin with ${id}:`, ...candidates.map((candidate) => `  ${candidate}`)].join(
        '\n',
      ),
      'Type a few more characters.',
    ),
  'usage-no-archive': ({ dataDir }) =>
    say(
      `There is no archive in ${dataDir}.`,
      'Specify its folder with --data DIR. For a new archive, write a configuration with "mailkeep init", and start "mailkeep sync".',
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
