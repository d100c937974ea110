import {
  defineErrors,
  didYouMean,
  type Known,
  reasonText,
  type Strings,
  shortList,
} from '../core/errors.ts';

function either(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
}

function describing(operation: string): string {
  return `"mailkeep api ${operation} --describe" shows its parameters and body.`;
}

/** Errors for operations that were called incorrectly. Exit code 2. */
export const operationError = defineErrors({
  usage: {
    /** `nearest` lists similar names, best match first. */
    'operation-unknown': (f: { operation: string; nearest: readonly string[] }) => [
      `The service has no operation "${f.operation}".`,
      f.nearest.length === 0
        ? '"mailkeep api --list" lists them all.'
        : `Did you mean ${either(f.nearest)}? "mailkeep api --list" lists them all.`,
    ],
    /** `inBody` is true if the name is a field of the body. */
    'operation-param-unknown': (
      f: Strings<'operation' | 'param'> & {
        nearest: string | null;
        known: readonly string[];
        inBody: boolean;
      },
    ) => [
      f.inBody
        ? `${f.operation} takes "${f.param}" in its body, not as a parameter.`
        : `${f.operation} has no parameter "${f.param}"${f.known.length === 0 ? '; it takes none' : `; it takes ${shortList(f.known, 9)}`}.`,
      f.inBody
        ? `Give it in a JSON object with --body. ${describing(f.operation)}`
        : f.nearest === null
          ? describing(f.operation)
          : `Did you mean "${f.nearest}"? ${describing(f.operation)}`,
    ],
    'operation-param-missing': (f: Strings<'operation' | 'param' | 'expected' | 'help'>) => [
      `${f.operation} needs the parameter "${f.param}": ${f.help} (${f.expected}).`,
      f.param === 'orderId'
        ? 'Give it with --param orderId=…, or set platform.orderId of the account in the configuration.'
        : `Give it with --param ${f.param === 'mailboxResourceId' || f.param === 'mailboxId' ? 'mailbox=<address or resource id>' : `${f.param}=…`}`,
    ],
    'operation-param-invalid': (f: Strings<'operation' | 'param' | 'found' | 'expected'>) => [
      `Parameter "${f.param}" of ${f.operation}: expected ${f.expected}, found "${f.found}".`,
      describing(f.operation),
    ],
    'operation-param-twice': ({ operation, param }: Strings<'operation' | 'param'>) =>
      `"${param}" was given to ${operation} more than once.`,
    'operation-no-body': ({ operation }: { operation: string }) => [
      `${operation} takes no body.`,
      describing(operation),
    ],
    'operation-body-missing': (f: { operation: string; fields: readonly string[] }) => [
      `${f.operation} needs a body with ${shortList(f.fields, 9)}.`,
      `Give it as --body FILE, --body - or --body '{…}'. ${describing(f.operation)}`,
    ],
    'operation-field-unknown': (
      f: Strings<'operation' | 'field'> & { nearest: string | null; known: readonly string[] },
    ) => [
      `The body of ${f.operation} has no field "${f.field}"; it takes ${shortList(f.known, 13)}.`,
      f.nearest === null
        ? describing(f.operation)
        : `Did you mean "${f.nearest}"? ${describing(f.operation)}`,
    ],
    /** `source` is a file, or states that the text was piped or typed. */
    'operation-body-unreadable': ({ source, reason }: Strings<'source' | 'reason'>) =>
      `The body cannot be read from ${source}: ${reasonText(reason)}.`,
    /** `line` and `column` locate the first invalid JSON. Both are null for valid JSON that is not an object. */
    'operation-body-no-object': (f: {
      source: string;
      line: number | null;
      column: number | null;
    }) =>
      f.line === null
        ? `The body from ${f.source} is not a JSON object.`
        : `The body from ${f.source} is not valid JSON at line ${f.line}, column ${f.column}.`,
    'operation-needs-platform': ({ operation, account }: Strings<'operation' | 'account'>) => [
      `${operation} belongs to the platform surface, and account "${account}" has no token for it.`,
      'Give the account "platform": {"url": …, "token": …} in the configuration.',
    ],
    'operation-needs-account': ({ known }: { known: readonly string[] }) => [
      'The configuration has several accounts.',
      `Choose one with --account NAME: ${shortList(known, 8)}.`,
    ],
    /** `act` is the name of an operation or command. */
    'operation-needs-yes': ({ act }: { act: string }) => [
      `"${act}" cannot be undone, and there is no terminal to confirm it on.`,
      'Add --yes to confirm.',
    ],
    'operation-bytes-on-terminal': ({ operation }: { operation: string }) => [
      `${operation} answers with bytes that could control the terminal.`,
      'Write them to a file with --output FILE, or print them anyway with --output -',
    ],
    'operation-mailbox-unknown': (f: Strings<'address' | 'account'> & Known) => [
      `The token of account "${f.account}" cannot reach ${f.address}; it reaches ${f.known.length === 0 ? 'no mailbox at all' : shortList(f.known, 8)}.`,
      f.known.length === 0
        ? 'Check the token in the panel of your mail service.'
        : f.suggestion === null
          ? null
          : didYouMean(f.suggestion),
    ],
    /** No account has access to the mailbox. `known` lists the mailboxes of all accounts. */
    'operation-mailbox-nowhere': (f: Strings<'address'> & Known) => [
      `No account of the configuration reaches ${f.address}; together they reach ${f.known.length === 0 ? 'no mailbox at all' : shortList(f.known, 8)}.`,
      f.suggestion === null ? null : didYouMean(f.suggestion),
    ],
  },
});

/** The user declined to confirm. Exit code 130. */
export const declinedError = defineErrors({
  interrupted: {
    'operation-declined': () => 'You answered no: nothing was changed.',
  },
});

/** Errors from installing units. Exit code 2. */
export const serviceUnitsError = defineErrors({
  usage: {
    'service-units-differ': ({ files }: { files: readonly string[] }) => [
      `Files with other content exist already: ${shortList(files, 6)}. Nothing was written.`,
      'Your own changes belong in a drop-in ("systemctl edit mailkeep"); --force replaces the files.',
    ],
    'service-units-path': ({ path }: { path: string }) => [
      `${JSON.stringify(path)} contains a line break or another control character, which no unit can name.`,
      'Rename the file or folder, or name another with --config or --data.',
    ],
  },
  disk: {
    'service-units-unwritable': ({ file, reason }: Strings<'file' | 'reason'>) => [
      `${file} cannot be written: ${reasonText(reason)}.`,
      'The system\'s units need root: "sudo mailkeep daemon install --system". --user needs no special rights.',
    ],
  },
});

export const outputError = defineErrors({
  disk: {
    /** Writing to standard output failed, for example because the disk is full. */
    'output-failed': ({ errno }: { errno: string }) => [
      `Standard output cannot be written: ${reasonText(errno)}. The result is incomplete.`,
      'Free some space, or write it somewhere else.',
    ],
  },
});
