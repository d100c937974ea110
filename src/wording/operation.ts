import type { OperationFacts } from '../errors/operation.ts';
import { didYouMean, reasonText, type Sentences, say, some } from './sentence.ts';

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
        ? 'Give it with --param orderId=…, or for good as platform.orderId of the account in the configuration.'
        : `Give it with --param ${param === 'mailboxResourceId' || param === 'mailboxId' ? 'mailbox=<address or resource id>' : `${param}=…`}`,
    ),
  'operation-param-invalid': ({ operation, param, found, expected }) =>
    say(`${operation} takes as "${param}" ${expected}, not "${found}".`, describing(operation)),
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
        ? `The body from ${source} is no JSON object.`
        : `The body from ${source} is not valid JSON at line ${line}, column ${column}.`,
    ),
  'operation-needs-platform': ({ operation, account }) =>
    say(
      `${operation} is of the platform surface, and account "${account}" has no token for that.`,
      'Give the account "platform": {"url": …, "token": …} in the configuration.',
    ),
  'operation-needs-account': ({ known }) =>
    say(
      'The configuration has several accounts.',
      `Say which with --account NAME: ${some(known, 8)}.`,
    ),
  'operation-needs-yes': ({ act }) =>
    say(
      `"${act}" cannot be undone, and there is no terminal to ask on.`,
      'Add --yes if that is what you want.',
    ),
  'operation-bytes-on-terminal': ({ operation }) =>
    say(
      `${operation} answers with bytes that may do anything to a terminal.`,
      'Write them to a file with --output FILE, or show them all the same with --output -',
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
  return `"mailkeep api ${operation} --describe" shows all that it takes.`;
}

function either(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
}
