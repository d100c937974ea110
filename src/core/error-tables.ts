import {
  capitalise,
  defineErrors,
  didYouMean,
  endOfSentence,
  type Known,
  reasonText,
  type Strings,
  shortList,
} from './errors.ts';
import { count, savedTerm } from './text.ts';

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}

/** What a source holds. Errors of tokens of the hosted service leave it out. */
export type SecretKind = 'token' | 'password' | 'client secret';

interface SecretFacts extends Strings<'source' | 'name'> {
  readonly what?: SecretKind;
}

function sourceText(source: string, name: string, what: SecretKind = 'token'): string {
  switch (source) {
    case 'env':
      return `the environment variable ${name}`;
    case 'file':
      return `the ${what} file ${name}`;
    case 'credential':
      return `the systemd credential ${name}`;
    case 'command':
      return `the output of ${name}`;
    default:
      return `the ${what} in the config file (${name})`;
  }
}

function addressSource(source: string, name: string): string {
  if (source === 'file') return `the file ${name}`;
  return source === 'literal' ? `the config file (${name})` : sourceText(source, name);
}

function addressProblem(reason: string): string {
  const words: Readonly<Record<string, string>> = {
    'token-missing': 'it does not exist',
    'token-empty': 'it is empty',
    'token-unusable': 'it contains blanks or control characters',
  };
  return words[reason] ?? reasonText(reason);
}

/** Family `config` (exit code 2): errors caused by the user's settings. */
export const configError = defineErrors({
  config: {
    'config-not-found': ({ searched }: { searched: readonly string[] }) => [
      `No configuration found. Looked for ${searched.join(', ')}.`,
      'Create one with "mailkeep init", or specify one with --config FILE.',
    ],
    /** `reason` is an errno name, such as EACCES. */
    'config-unreadable': ({ file, reason }: Strings<'file' | 'reason'>) => [
      `The config file ${file} cannot be read: ${reasonText(reason)}.`,
      reason === 'EFBIG' ? 'The limit for a configuration is 1 MiB.' : null,
    ],
    /** `line` and `column` count from 1, and are null if the position is unknown. */
    'config-not-json': (f: { file: string; line: number | null; column: number | null }) => [
      `The config file ${f.file} is not valid JSON${f.line === null ? '' : ` at line ${f.line}, column ${f.column}`}.`,
      'Look for a missing or extra comma, quote or bracket there; JSON has no comments.',
    ],
    /**
     * All lists have the same length. `found` never contains a secret. For an unknown field, `found` is empty and
     * `expected` lists the known fields.
     */
    'config-invalid': (f: {
      file: string;
      paths: readonly string[];
      found: readonly string[];
      expected: readonly string[];
      suggestions: readonly string[];
    }) => [
      [
        `${f.file} has ${f.paths.length === 1 ? 'a wrong field' : `${f.paths.length} wrong fields`}:`,
        ...f.paths.map((path, i) => {
          const fallback = f.found[i] === '' ? `The fields are ${f.expected[i]}.` : '';
          const hint = didYouMean(f.suggestions[i] || null, f.suggestions[i] ? '' : fallback);
          return f.found[i] === ''
            ? `  ${path}: Unknown field "${lastPart(path)}". ${hint}`
            : `  ${path}: found ${f.found[i]}, expected ${f.expected[i]}${hint === '' ? '' : `. ${hint}`}`;
        }),
      ].join('\n'),
      f.paths.some((path) => path.startsWith('fleet'))
        ? 'docs/fleet.md shows every field of a fleet; editors that read "$schema" check while you type.'
        : 'config.example.json shows every field; editors that read "$schema" check while you type.',
    ],
    /** `reason` is an errno, `pipe`, or `changed` if somebody changed the file meanwhile. */
    'config-not-editable': ({ file, reason }: Strings<'file' | 'reason'>) => [
      reason === 'changed'
        ? `${file} was changed by somebody else meanwhile, so it was not replaced.`
        : reason === 'pipe'
          ? `${file} is a pipe, which cannot be changed.`
          : `${file} cannot be changed: ${reasonText(reason)}.`,
      reason === 'changed' ? 'Run the command again.' : 'Make the change yourself.',
    ],
    'config-exists': ({ file }: { file: string }) => [
      `${file} exists already; it was left as it is.`,
      'Edit it, or name another file with --config FILE.',
    ],
    /** `source` and `name` identify the token's source: `env NAME`, `file PATH`, `credential NAME`. */
    'token-missing': ({ source, name, what = 'token' }: SecretFacts) => [
      `There is no ${what}: ${sourceText(source, name, what)} does not exist.`,
      source === 'credential'
        ? 'Pass it to the daemon with LoadCredential= in its systemd unit.'
        : `Put the ${what} there, or name another source in the configuration.`,
    ],
    'token-empty': ({ source, name, what = 'token' }: SecretFacts) => [
      `${capitalise(sourceText(source, name, what))} is empty.`,
      `Put the ${what} there.`,
    ],
    'token-unreadable': (f: SecretFacts & Strings<'reason'>) =>
      `${capitalise(sourceText(f.source, f.name, f.what))} cannot be read: ${reasonText(f.reason)}.`,
    /** The token contains white space or control characters, which a header cannot carry. */
    'token-unusable': ({ source, name, what = 'token' }: SecretFacts) =>
      `${capitalise(sourceText(source, name, what))} contains no ${what}: ${what === 'token' ? 'a token is one word of printable characters' : 'it must be a line of text'}.`,
    /** `reason` is an errno, an exit code, `signal` or `timeout`. */
    'secret-command-failed': ({ program, reason }: Strings<'program' | 'reason'>) => [
      /^\d+$/.test(reason)
        ? `${program}, which prints a secret, exited with ${reason}.`
        : `${program}, which prints a secret, failed: ${reason === 'timeout' ? 'it took longer than 30 s' : reasonText(reason)}.`,
      'Run the command from the configuration by hand. It must print the secret without asking for input.',
    ],
    /** `reason` is an errno or the code of a token error. */
    'registry-address-missing': (f: Strings<'source' | 'name' | 'reason'>) => [
      `The address of the registry cannot be read from ${addressSource(f.source, f.name)}: ${addressProblem(f.reason)}.`,
      'Put it there (postgresql://USER@HOST/DATABASE), or change fleet.registry in the configuration.',
    ],
  },
});

/** Exit code 2: the configured address is in use, not local, or not allowed. */
export const listenError = defineErrors({
  config: {
    'cannot-listen': (f: Strings<'section' | 'host' | 'reason'> & { port: number }) => [
      `The daemon cannot listen on ${f.host}:${f.port} (${f.section}.listen): ${
        f.reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(f.reason)
      }.`,
      `Set another port in ${f.section}.listen; 0 selects a free one.`,
    ],
  },
});

const REBUILD = '"mailkeep rebuild" rebuilds it from the log, which is not affected.';

function isState(file: string): boolean {
  return file.endsWith('state.sqlite');
}

/** Also covers the state, which is a SQLite database that can fail with the same errors. */
function databaseName(file: string): string {
  return `${isState(file) ? 'the state' : 'the catalog'} ${file}`;
}

/** A new state has no record of damage, so only commands that read every byte can discard the old one. */
const RENEW_STATE =
  'The next "mailkeep sync", or "mailkeep verify --repair", moves it aside and creates a new one. Mail is not affected.';

/** Errors from the derived database. They never endanger the log. */
export const catalogError = defineErrors({
  usage: {
    'catalog-missing': ({ file }: { file: string }) => [`The catalog ${file} is missing.`, REBUILD],
    /** A running writer is rebuilding the catalog of an earlier version, and has reached commit `reached` of `last`. */
    'catalog-rebuilding': (f: { file: string; reached: number; last: number }) => [
      `${capitalise(databaseName(f.file))} is being rebuilt for this version of mailkeep: commit ${count(f.reached)} of ${count(f.last)}.`,
      'Try again when the rebuild has finished. Mail is not affected.',
    ],
    /**
     * Another version of mailkeep created the catalog. `remedy` is `write` if any writing command rebuilds it,
     * `rebuild` if the file has no version, and `upgrade` if a newer version created it.
     */
    'catalog-version': (f: {
      file: string;
      found: number;
      expected: number;
      remedy: 'write' | 'rebuild' | 'upgrade';
    }) => [
      `${capitalise(databaseName(f.file))} has version ${f.found}; this program reads version ${f.expected}.`,
      {
        write: 'The next "mailkeep sync" or "mailkeep rebuild" brings it up to date.',
        rebuild: REBUILD,
        upgrade: 'A newer mailkeep wrote it: use that version.',
      }[f.remedy],
    ],
  },
  damage: {
    /** SQLite cannot read the file; `reason` is its result code. The log is not affected. */
    'catalog-damaged': ({ file, reason }: Strings<'file' | 'reason'>) => [
      `${capitalise(databaseName(file))} is damaged (${reason}).`,
      isState(file) ? RENEW_STATE : REBUILD,
    ],
    'catalog-out-of-step': (
      f: Strings<'reachedHash' | 'previousHash'> & { reached: number; batch: number },
    ) => [
      `The catalog has reached commit ${f.reached}; commit ${f.batch} does not follow it.`,
      REBUILD,
    ],
  },
  'in-use': {
    'catalog-busy': ({ file }: { file: string }) => [
      `Another process is writing to the catalog ${file}.`,
      'Try again when it has finished.',
    ],
  },
  disk: {
    'catalog-disk-full': ({ file }: { file: string }) => [
      `The disk is full: ${databaseName(file)} cannot grow.`,
      'Free some space and run the command again.',
    ],
    'catalog-io': ({ file, reason }: Strings<'file' | 'reason'>) => [
      `${capitalise(databaseName(file))} cannot be read or written: ${reasonText(reason)}.`,
      'Check its permissions and the disk. The log is not affected.',
    ],
  },
  retryable: ['catalog-busy', 'catalog-disk-full'],
});

/** Descriptions of what `usage-option` expects, for names that are checked after parsing. */
const EXPECTED: Readonly<Record<string, string>> = {
  'configured-name': 'a name that the configuration includes',
  'search-name': 'a name of letters, digits, blanks, - and _',
};

/** Family `usage` (exit code 2): the command cannot run as typed. Unwritable files belong to family `disk`. */
export const usageError = defineErrors({
  usage: {
    /** The command line parser rejected the arguments with the message `problem`. */
    'usage-invalid': ({ command, problem }: Strings<'command' | 'problem'>) => [
      capitalise(problem),
      `"mailkeep${command === '' ? '' : ` ${command}`} --help" shows the usage.`,
    ],
    /** `argument` is an argument of a library function, such as `options.limit`. */
    'argument-invalid': ({ argument, problem }: Strings<'argument' | 'problem'>) =>
      `${argument}: ${problem}.`,
    'usage-no-command': ({ help }: { help: string }) => ['No command given.', help],
    'usage-option': (f: {
      option: string;
      found: string;
      /** A kind of name, or a description from one of the command line's parsers. */
      expected: 'configured-name' | 'search-name' | (string & {});
    }) => `${f.option}: expected ${EXPECTED[f.expected] ?? f.expected}, found "${f.found}".`,
    'usage-not-interactive': (f: { command: string; missing: readonly string[] }) => [
      `Required, because there is no terminal to prompt on: ${f.missing.join(', ')}.`,
      `"mailkeep ${f.command} --help" shows the options for it.`,
    ],
    'usage-unknown-account': (f: Strings<'account'> & Known) => [
      `The configuration has no account "${f.account}".`,
      didYouMean(f.suggestion, `It has ${shortList(f.known, 8)}.`),
    ],
    /** A folder, mailbox or account that has never been in the archive. `candidates` can be empty. */
    'usage-unknown-name': (f: {
      kind: 'folder' | 'mailbox' | 'account';
      found: string;
      suggestion: string | null;
      candidates: readonly string[];
    }) => [
      `The archive has no ${f.kind} "${f.found}".`,
      didYouMean(
        f.suggestion,
        f.candidates.length === 0
          ? `"mailkeep status" lists its mailboxes and folders.`
          : `It has ${shortList(f.candidates, 8)}.`,
      ),
    ],
    /** No account can access the `sync --mailbox` mailbox; `known` lists the accessible mailboxes found so far. */
    'usage-unreachable-mailbox': (f: Strings<'mailbox'> & Known) => [
      `No configured account reaches ${f.mailbox}${f.known.length === 0 ? '' : `; they reach ${shortList(f.known, 8)}`}.`,
      f.suggestion === null ? null : didYouMean(f.suggestion),
    ],
    'usage-unlisted-folder': (f: { folder: string; suggestion: string | null }) => [
      `The service lists no folder "${f.folder}".`,
      didYouMean(
        f.suggestion,
        '"mailkeep status" lists the folders of the archive; "folders" in the configuration may leave others out.',
      ),
    ],
    'usage-folder-gone': ({ folder }: { folder: string }) => [
      `The folder "${folder}" is no longer at the service.`,
      'Add --deleted to include what was in it, or --as-of TIME to see it as it was then.',
    ],
    'usage-unknown-message': ({ id }: { id: string }) => [
      `The archive has no message whose id begins with ${id}.`,
      '"mailkeep list" and "mailkeep search" show ids; the first 8 characters are usually enough.',
    ],
    /** Each candidate is a message's shortest unique prefix and description. */
    'usage-ambiguous-id': ({ id, candidates }: { id: string; candidates: readonly string[] }) => [
      [`Several ids begin with ${id}:`, ...candidates.map((candidate) => `  ${candidate}`)].join(
        '\n',
      ),
      'Type a few more characters.',
    ],
    'usage-ids-unreadable': ({ source, reason }: Strings<'source' | 'reason'>) =>
      `The ids in ${source} cannot be read: ${reasonText(reason)}.`,
    'usage-unknown-search': ({ name, suggestion }: { name: string; suggestion: string | null }) => [
      `No search is saved as ${savedTerm(name)}.`,
      `${suggestion === null ? '' : `Did you mean ${savedTerm(suggestion)}? `}"mailkeep search --saved" lists them; put quotes around text that begins with @.`,
    ],
    'usage-search-exists': ({ name, query }: Strings<'name' | 'query'>) => [
      `${savedTerm(name)} is already saved: ${query}`,
      'Add --replace to replace it.',
    ],
    'usage-no-archive': ({ dataDir }: { dataDir: string }) => [
      `There is no archive in ${dataDir}.`,
      'Specify its folder with --data DIR. For a new archive, write a configuration with "mailkeep init", and start "mailkeep sync".',
    ],
    'usage-bad-date': ({ option, found }: Strings<'option' | 'found'>) =>
      `${option}: expected a date (2026-03-01), an ISO time or a span such as 3d, found "${found}".`,
  },
  disk: {
    /** An output file cannot be written. Family `disk`, because the command line itself is valid. */
    'usage-save-failed': ({ file, reason }: Strings<'file' | 'reason'>) =>
      `${file} cannot be written: ${reasonText(reason)}.`,
  },
});

export const webhookError = defineErrors({
  usage: {
    /** `where` lists the accounts or the mailbox that were searched. */
    'webhook-unknown': ({ id, where }: Strings<'id' | 'where'>) => [
      `There is no webhook whose id begins with "${id}" in ${where}.`,
      '"mailkeep webhooks list" shows them with their ids; at least 4 characters are needed.',
    ],
    'webhook-ambiguous': ({ id, candidates }: { id: string; candidates: readonly string[] }) => [
      `Several ids begin with ${id}: ${shortList(candidates, 6)}.`,
      'Type a few more characters.',
    ],
  },
  disk: {
    'webhook-secrets-unwritable': ({ file, reason }: Strings<'file' | 'reason'>) => [
      `The secret of a webhook could not be stored in ${file}: ${reasonText(reason)}. No webhook was created.`,
      'Check the disk and the permissions, or name another folder with --data DIR.',
    ],
    /**
     * A secret that the service shows only once could not be stored. `deleted` is true if the new webhook was then
     * removed.
     */
    'webhook-secret-lost': (f: Strings<'id' | 'file' | 'reason'> & { deleted: boolean }) => [
      `The secret of webhook ${f.id} could not be written to ${f.file}: ${reasonText(f.reason)}. ${
        f.deleted ? 'The webhook was deleted.' : 'The webhook still exists, and its secret is lost.'
      }`,
      f.deleted
        ? 'Check the disk, then create it again.'
        : `"mailkeep webhooks delete ${f.id}" removes it.`,
    ],
    'webhook-secret-unreadable': ({ file, reason }: Strings<'file' | 'reason'>) => [
      `${file} does not contain a valid webhook secret: ${reasonText(reason)}.`,
      'Delete that webhook and create it again.',
    ],
  },
  origin: {
    'webhook-missing': ({ id }: { id: string }) => [
      `The service no longer has webhook ${id}: only scheduled syncs find new mail.`,
      '"mailkeep webhooks ensure" creates it again.',
    ],
    /** `status` is the service's own term: paused or disabled. */
    'webhook-off': ({ id, status }: Strings<'id' | 'status'>) => [
      `Webhook ${id} is ${status} at the service: only scheduled syncs find new mail.`,
      `"mailkeep webhooks resume ${id}" or "mailkeep webhooks ensure" makes it deliver again.`,
    ],
    /** `failures` is the number of consecutive failures in the service's log. */
    'webhook-failing': ({ id, failures }: { id: string; failures: number }) => [
      `The last ${failures === 1 ? 'delivery' : `${failures} deliveries`} of webhook ${id} failed: only scheduled syncs find new mail.`,
      `"mailkeep webhooks test ${id}" shows why.`,
    ],
  },
});

export const socketError = defineErrors({
  config: {
    'daemon-socket-folder': ({ folder }: { folder: string }) => [
      `The path of the archive is too long for a control socket, and you do not own the folder ${folder}.`,
      'Set XDG_RUNTIME_DIR to a private folder with a short path, or move the archive.',
    ],
  },
});

export const targetError = defineErrors({
  usage: {
    /** `found` never contains a password. */
    'store-target-invalid': ({ found, problem }: Strings<'found' | 'problem'>) => [
      `"${found}" is no place for a copy: ${problem}.`,
      'It takes s3://BUCKET/PREFIX or a folder.',
    ],
  },
});

/**
 * Why a worker thread exited: its heap limit or the host's memory guard (`memory`), its deadline (`timeout`), an
 * uncaught error (`thrown`), its own exit (`exited`), or a deliberate stop by the host (`closed`).
 */
export type ThreadEndCause = 'memory' | 'timeout' | 'thrown' | 'exited' | 'closed';

export const threadError = defineErrors({
  mail: {
    /**
     * `started` is false if the thread never listened on its port, which points to a broken installation rather than
     * the work. `detail` is the error message or exit code.
     */
    'thread-ended': (
      f: Strings<'thread' | 'file' | 'detail'> & { reason: ThreadEndCause; started: boolean },
    ) => {
      if (f.reason === 'closed')
        return `The thread ${f.thread} was stopped before its work was done.`;
      if (!f.started) {
        return [
          `The thread ${f.thread} cannot start (${f.file}): ${endOfSentence(f.detail)}.`,
          'The installation is broken: reinstall mailkeep.',
        ];
      }
      const ends = {
        memory: 'ran out of memory',
        timeout: 'did not finish its work in time',
        thrown: `failed: ${f.detail}`,
        exited: `ended unexpectedly (${f.detail})`,
      };
      return [
        `The thread ${f.thread} ${ends[f.reason]}.`,
        'This is a bug in mailkeep. Please report it with the command line.',
      ];
    },
  },
});

export type ThreadEnded = ReturnType<typeof threadError>;
