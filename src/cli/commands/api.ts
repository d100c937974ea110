import { randomUUID } from 'node:crypto';
import { createReadStream, lstatSync } from 'node:fs';
import { type FileHandle, open, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { loadSettings } from '../../catalog/archive-settings.ts';
import { jsonErrorOffset } from '../../core/config-file.ts';
import { usageError } from '../../core/error-tables.ts';
import { EXIT, type ExitCode, errnoOf } from '../../core/errors.ts';
import { nearest } from '../../core/names.ts';
import { reserveSecret, Secret, storedWebhooks } from '../../core/secrets.ts';
import { bytesAtMost } from '../../core/streams.ts';
import { jsonLine, terminalLine, visibleJson } from '../../core/terminal-safe.ts';
import { bytes, count } from '../../core/text.ts';
import { mailboxPagination, webhookWithSecretRecord } from '../../service/mailbox-wire.ts';
import { findOperation, OPERATIONS, platformMeta } from '../../service/platform-wire.ts';
import type { ParamValues } from '../../service/requests.ts';
import type { RawAnswer } from '../../service/surface-client.ts';
import {
  describeParam,
  encodeBody,
  type Operation,
  type Param,
  readParam,
} from '../../service/wire.ts';
import { chooseAccount, findNamedMailbox, withClients } from '../account-clients.ts';
import { confirm } from '../ask.ts';
import {
  action,
  type CommandContext,
  type CommandResult,
  type Flags,
  invalidUsage,
  type Register,
  type Values,
} from '../context.ts';
import { operationError } from '../errors.ts';
import { collect } from '../option-values.ts';
import type { Colours, Report } from '../output.ts';

/** Returns the JSON Schema (2020-12) of an operation's body, or null if the operation takes none. */
function bodySchema({ body }: Operation): Schema | null {
  return body === null ? null : z.toJSONSchema(body, { io: 'input' });
}

function bodyFields(operation: Operation) {
  return fieldsOf(bodySchema(operation) ?? {});
}

/** Returns the rules that an empty body violates as a whole, such as `needs at least one of to, cc and bcc`. */
function bodyRules({ body }: Operation): string[] {
  const read = body?.safeParse({});
  if (read === undefined || read.success) return [];
  return read.error.issues.filter(({ code }) => code === 'custom').map(({ message }) => message);
}

type Schema = z.core.JSONSchema.JSONSchema;

/** Lists fields with types such as `string 1..100`, `list of 1..100 integers from 1` or `one of active, paused`. */
function fieldsOf({ properties = {}, required = [] }: Schema) {
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    required: required.includes(name),
    type: typeof schema === 'boolean' ? 'anything' : typeText(schema),
  }));
}

function typeText(schema: Schema): string {
  const { format, items, type } = schema;
  if (schema.enum !== undefined) return `one of ${schema.enum.join(', ')}`;
  switch (type) {
    case 'string': {
      const name = format === 'date' ? 'date YYYY-MM-DD' : format === 'uri' ? 'URL' : 'string';
      return `${name}${bounds(schema.minLength, schema.maxLength)}`;
    }
    case 'integer':
    case 'number':
      return `${type}${bounds(schema.minimum, schema.maximum)}`;
    case 'array': {
      const isOneType = typeof items === 'object' && !Array.isArray(items);
      const item = isOneType ? typeText(items) : 'anything';
      return `list${bounds(schema.minItems, schema.maxItems)} of ${item}`;
    }
    case 'object': {
      const names = fieldsOf(schema).map(({ name, required }) => (required ? name : `${name}?`));
      return `{${names.join(', ')}}`;
    }
    default:
      return Array.isArray(type) ? type.join(' or ') : 'anything';
  }
}

/** Omits the largest safe integer, which means that there is no limit. */
function bounds(from: number | undefined, to: number | undefined): string {
  const max = to === undefined || to >= Number.MAX_SAFE_INTEGER ? '' : String(to);
  return from === undefined && max === '' ? '' : ` ${from ?? ''}..${max}`;
}

const MAX_SUGGESTIONS = 4;

/** @throws operation-unknown, with similar names */
function requireOperation(name: string): Operation {
  const found = findOperation(name);
  if (found === null) {
    throw operationError('operation-unknown', { operation: name, nearest: suggestions(name) });
  }
  return found;
}

function suggestions(name: string): string[] {
  let names = OPERATIONS.map((operation) => operation.name);
  const near: string[] = [];
  for (let next = nearest(name, names); next !== null; next = nearest(name, names)) {
    near.push(next);
    names = names.filter((each) => each !== next);
  }
  const word = name.toLowerCase();
  const matches = word.length < 3 ? [] : names.filter((each) => each.toLowerCase().includes(word));
  return [...near, ...matches].slice(0, MAX_SUGGESTIONS);
}

/** Parameters that identify a mailbox by resource id. The command line also accepts an address. */
const MAILBOX_PARAMS: readonly string[] = ['mailboxResourceId', 'mailboxId', 'mailbox_id'];
const MAILBOX = 'mailbox';
/** Always sent, because services have different default page sizes. */
const PAGE_SIZES: readonly string[] = ['perPage', 'per_page'];

interface GivenParams {
  readonly values: Record<string, string | number>;
  readonly address: { readonly param: string; readonly address: string } | null;
}

/**
 * Parses `name=value` pairs for the operation.
 * @param filled values for missing parameters
 * @throws usage-option, operation-param-unknown, -twice, -invalid, -missing
 */
function readParams(
  operation: Operation,
  pairs: readonly string[],
  filled: ParamValues,
): GivenParams {
  const values: Record<string, string | number> = {};
  let address: GivenParams['address'] = null;
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    if (at < 1)
      throw usageError('usage-option', { option: '--param', found: pair, expected: 'name=value' });
    const text = pair.slice(at + 1);
    const param = paramOf(operation, pair.slice(0, at));
    const { name } = param;
    if (name in values)
      throw operationError('operation-param-twice', { operation: operation.name, param: name });
    if (MAILBOX_PARAMS.includes(name) && text.includes('@'))
      address = { param: name, address: text };
    values[name] = parseParam(operation, param, text);
  }
  for (const param of operation.params) {
    const { name, help } = param;
    if (name in values) continue;
    const value = filled[name] ?? (PAGE_SIZES.includes(name) ? param.default : undefined);
    if (value !== undefined) values[name] = parseParam(operation, param, value);
    else if (param.required) {
      const about = { operation: operation.name, param: name };
      const facts = { ...about, expected: describeParam(param), help };
      throw operationError('operation-param-missing', facts);
    }
  }
  return { values, address };
}

function paramOf(operation: Operation, name: string): Param {
  const { params } = operation;
  const found = params.find(
    (param) => param.name === name || (name === MAILBOX && MAILBOX_PARAMS.includes(param.name)),
  );
  if (found !== undefined) return found;
  const known = params.map((param) => param.name);
  throw operationError('operation-param-unknown', {
    ...{ operation: operation.name, param: name, nearest: nearest(name, known), known },
    inBody: bodyFields(operation).some((field) => field.name === name),
  });
}

function parseParam(operation: Operation, param: Param, value: string | number): string | number {
  const result = readParam(param, value);
  if (result.ok) return result.value;
  throw operationError('operation-param-invalid', {
    ...{ operation: operation.name, param: param.name },
    ...{ found: String(value), expected: describeParam(param) },
  });
}

/** Larger than any service accepts, so wrong input is rejected early. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;

/**
 * Reads a request body from a file, standard input (`-`) or inline JSON (starting with `{`). Checks it against all
 * limits of the API before any prompt or request.
 * @throws operation-no-body, operation-field-unknown, operation-body-missing, -unreadable, -no-object; request-invalid
 */
async function readBody(
  operation: Operation,
  input: string | undefined,
  context: CommandContext,
): Promise<unknown> {
  if (operation.body === null) {
    if (input === undefined) return undefined;
    throw operationError('operation-no-body', { operation: operation.name });
  }
  if (input === undefined && operation.body.safeParse({}).success) return {};
  const body = input === undefined ? {} : await parseBody(input, context);
  checkFields(operation, Object.keys(body));
  encodeBody(operation.body, body, operation.name);
  return body;
}

/** Reports misspelt and missing fields by name, which is clearer than a schema error. */
function checkFields(operation: Operation, names: readonly string[]): void {
  const fields = bodyFields(operation);
  const known = fields.map(({ name }) => name);
  const field = names.find((name) => !known.includes(name));
  if (field !== undefined) {
    const about = { operation: operation.name, field, nearest: nearest(field, known), known };
    throw operationError('operation-field-unknown', about);
  }
  const missing = fields.filter(({ name, required }) => required && !names.includes(name));
  if (missing.length > 0) {
    const about = { operation: operation.name, fields: missing.map(({ name }) => name) };
    throw operationError('operation-body-missing', about);
  }
}

async function parseBody(input: string, { stdin, environment }: CommandContext): Promise<object> {
  if (input.trimStart().startsWith('{')) return objectIn(input, 'the command line');
  const source = input === '-' ? 'standard input' : input;
  const fail = (reason: string) => operationError('operation-body-unreadable', { source, reason });
  try {
    const bytes =
      input === '-'
        ? await bytesAtMost(stdin(), MAX_BODY_BYTES)
        : await readFile(path.resolve(environment.cwd, input));
    if (bytes === null || bytes.length > MAX_BODY_BYTES)
      throw fail(`more than ${MAX_BODY_BYTES} bytes`);
    return objectIn(new TextDecoder('utf-8', { fatal: true }).decode(bytes), source);
  } catch (error) {
    const reason = errnoOf(error);
    if (reason !== undefined) throw fail(reason);
    // Re-encoding would change bytes that are not UTF-8.
    if (error instanceof TypeError) throw fail('it is not UTF-8');
    throw error;
  }
}

function objectIn(text: string, source: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // The parser's message quotes the text, which may contain mail.
    const before = text.slice(0, jsonErrorOffset(text) ?? 0).split('\n');
    const at = { line: before.length, column: (before.at(-1) ?? '').length + 1 };
    throw operationError('operation-body-no-object', { source, ...at });
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw operationError('operation-body-no-object', { source, line: null, column: null });
}

async function listOperations({ output }: CommandContext): Promise<void> {
  let surface = '';
  for (const operation of OPERATIONS) {
    const head =
      operation.surface === surface ? '' : `${surface === '' ? '' : '\n'}${heading(operation)}\n`;
    surface = operation.surface;
    await output.line(asJson(operation), () => head + listingText(operation, output.colours));
  }
}

async function describeOperation({ output }: CommandContext, name: string): Promise<void> {
  const operation = requireOperation(name);
  await output.object({ ...asJson(operation), bodySchema: bodySchema(operation) }, () =>
    descriptionText(operation, output.colours),
  );
}

function heading({ surface }: Operation): string {
  return surface === 'mailbox'
    ? 'MAILBOX SURFACE (the token of the account)'
    : 'PLATFORM SURFACE (accounts[].platform in the configuration)';
}

function asJson(operation: Operation) {
  const { name, surface, method, path, params, destructive, sideEffect, summary } = operation;
  return {
    operation: name,
    surface,
    method,
    path,
    summary,
    params: params.map((param) => ({ ...param, expected: describeParam(param) })),
    body: operation.body === null ? null : bodyFields(operation),
    destructive,
    sideEffect,
    answer: answerText(operation),
    success: operation.success,
    errors: operation.errors,
  };
}

function listingText(operation: Operation, colours: Colours): Report {
  const { name, method, path, params, summary } = operation;
  const names = (all: readonly Pick<Param, 'name' | 'required'>[]): string =>
    all.map((one) => (one.required ? one.name : `[${one.name}]`)).join(' ');
  return [
    `${colours.bold(name)}${marksText(operation, colours)}`,
    `    ${summary}`,
    colours.dim(`    ${method} ${path}`),
    params.length > 0 && `    --param ${names(params)}`,
    operation.body !== null && `    --body  ${names(bodyFields(operation))}`,
  ];
}

function marksText({ destructive, sideEffect }: Operation, colours: Colours): string {
  if (destructive) return `  ${colours.red('destructive: asks, or needs --yes')}`;
  return sideEffect === 'marks-seen' ? `  ${colours.yellow('marks as read')}` : '';
}

function descriptionText(operation: Operation, colours: Colours): Report {
  const { name, method, path, params, summary, success, errors } = operation;
  const fields = bodyFields(operation);
  const rules = bodyRules(operation);
  return [
    `${colours.bold(name)}${marksText(operation, colours)}`,
    `${summary}.`,
    colours.dim(`${method} ${path}`),
    section(
      'Parameters (--param name=value)',
      params.map((param) => ({ ...param, type: describeParam(param), help: paramHelp(param) })),
    ),
    section('Body (--body FILE, - or JSON)', fields),
    operation.body !== null &&
      fields.every(({ required }) => !required) &&
      `  ${rules.length === 0 ? 'may be left out' : rules.join('; ')}`,
    '',
    `Answer: ${success.join(' or ')}, ${answerText(operation)}. Declared errors: ${errors.join(', ')}.`,
  ];
}

function paramHelp({ name, help, default: usual }: Param): string {
  const byDefault = usual === undefined ? '' : `; ${usual} when left out`;
  const isMailbox = name === 'mailboxResourceId' || name === 'mailboxId';
  return `${help}${byDefault}${isMailbox ? '; or as mailbox=, which takes its address too' : ''}`;
}

function section(
  title: string,
  rows: readonly (ReturnType<typeof fieldsOf>[number] & { readonly help?: string })[],
): string[] {
  if (rows.length === 0) return [];
  const width = Math.max(...rows.map(({ name }) => name.length));
  return [
    '',
    `${title}:`,
    ...rows.map(({ name, required, type, help = '' }) =>
      `  ${name.padEnd(width)}  ${required ? 'required' : 'optional'}  ${type}${help === '' ? '' : `: ${help}`}`.trimEnd(),
    ),
  ];
}

function answerText({ response, surface }: Operation): string {
  switch (response.kind) {
    case 'data':
      return 'JSON: data';
    case 'bare':
      return 'JSON: the record itself';
    case 'page':
      return `JSON: data and ${surface === 'mailbox' ? 'pagination' : 'meta'}`;
    case 'bytes':
      return `bytes: ${response.contentType}`;
    case 'empty':
      return 'empty';
  }
}

/**
 * Writes a response to a file with mode 0600, atomically replacing an existing file. Pipes and devices are written to
 * directly.
 * @throws usage-save-failed
 */
async function writeAnswerFile(
  file: string,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  const fill = async (handle: FileHandle): Promise<void> => {
    try {
      for await (const chunk of chunks) await handle.writeFile(chunk);
    } finally {
      await handle.close();
    }
  };
  try {
    // Links are handled like special files: the target is overwritten and the link remains.
    const stat = lstatSync(file, { throwIfNoEntry: false });
    if (stat !== undefined && !stat.isFile()) return await fill(await open(file, 'w'));
    const temporary = `${file}.${randomUUID()}.tmp`;
    try {
      await fill(await open(temporary, 'wx', 0o600));
      await rename(temporary, file);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  } catch (error) {
    const reason = errnoOf(error);
    throw reason === undefined ? error : usageError('usage-save-failed', { file, reason });
  }
}

/** HTTP status for partial success. The response lists the failures. */
const PARTLY = 207;
const ACCEPTED = 202;

/**
 * Prints or saves a response: JSON as one object, other content unchanged. Also reports 202, 207 and empty responses.
 * @param file the output file; null for standard output
 */
async function showAnswer(
  context: CommandContext,
  operation: Operation,
  answer: RawAnswer,
  file: string | null,
): Promise<ExitCode> {
  const { output, notices, environment } = context;
  const { status } = answer;
  const save = async (to: string, chunks: Parameters<typeof writeAnswerFile>[1], size: number) => {
    await writeAnswerFile(path.resolve(environment.cwd, to), chunks);
    const facts = { operation: operation.name, status, savedAs: to, bytes: size };
    await output.object(facts, () => `Written to ${to}: ${bytes(size)}.`);
  };
  if (answer.kind === 'bytes') {
    const { body } = answer;
    const isBuffer = body.kind === 'buffer';
    try {
      const chunks = isBuffer ? [body.bytes] : createReadStream(body.path);
      if (file !== null) await save(file, chunks, isBuffer ? body.bytes.length : body.size);
      else for await (const chunk of chunks) await output.bytes(chunk);
    } finally {
      if (!isBuffer) await rm(body.path, { force: true });
    }
  } else {
    const object = objectOf(answer);
    const text = (): string =>
      answer.kind === 'empty' ? `${operation.name}: done (${status})` : visibleJson(answer.json, 2);
    const line = Buffer.from(`${jsonLine(object)}\n`);
    if (file === null) await output.object(object, text);
    else await save(file, [line], line.length);
    if (status === ACCEPTED)
      notices.say(
        'Accepted (202): the service finishes it later. Check the result; do not send it again.',
      );
    if (status === PARTLY) notices.warn('only partly done (207); the answer names what failed.');
    const page = answer.kind === 'json' ? pageNotice(operation, answer.json) : null;
    if (page !== null) notices.say(page);
  }
  return status === PARTLY ? EXIT.failures : EXIT.done;
}

/** Returns the body of 200 and 201 responses unchanged. Other results include the status. */
function objectOf(answer: Exclude<RawAnswer, { kind: 'bytes' }>): unknown {
  const { status } = answer;
  const body = answer.kind === 'json' ? answer.json : null;
  if (status === ACCEPTED) return { status, accepted: true, answer: body };
  if (answer.kind === 'empty') return { status };
  return status === PARTLY && typeof body === 'object' ? { status, ...body } : body;
}

/** Describes the current page and how to get the next one; null if there is only one. */
function pageNotice({ response, surface }: Operation, json: unknown): string | null {
  if (response.kind !== 'page' || typeof json !== 'object' || json === null) return null;
  const pagination =
    'pagination' in json ? mailboxPagination.safeParse(json.pagination).data : undefined;
  const meta = 'meta' in json ? platformMeta.safeParse(json.meta).data : undefined;
  const place =
    surface === 'mailbox'
      ? pagination
      : meta && { page: meta.current_page, perPage: meta.per_page, total: meta.total };
  if (place === undefined) return null;
  const { page, perPage, total } = place;
  if (total <= perPage && page === 1) return null;
  const pages = Math.ceil(total / perPage);
  const next = page < pages ? ` The next: --param page=${page + 1}` : '';
  return `Page ${count(page)} of ${count(pages)}, ${count(total)} in all.${next}`;
}

type ApiLine = Flags<'yes' | 'list' | 'describe'> &
  Values<'body' | 'account' | 'output'> &
  Values<'param', string[]>;

const HELP = `
Calls one operation of the service's interface, on either surface, and prints its answer unchanged: JSON as
one object, raw sources and attachments byte for byte. Parameters and body are checked before anything is
sent. Operations of the platform surface (platform.…) need accounts[].platform in the configuration.

mailbox= takes the address of a mailbox or its resource id. A body is JSON: from a file, from standard input
(-), or typed directly. Operations that cannot be undone ask for confirmation on a terminal and need --yes
elsewhere. An answer 207 (partial success) exits with code 1.

EXAMPLES
  mailkeep api --list
  mailkeep api listMessages --describe
  mailkeep api getCurrentAccount
  mailkeep api listMessages --param mailbox=anna@example.org --param folder=INBOX --param perPage=5
  mailkeep api createFolder --param mailbox=anna@example.org --body '{"name":"INBOX.Work"}'
  mailkeep api getMessageSource --param mailbox=anna@example.org --param folder=INBOX \\
      --param uid=7 --output message.eml
  mailkeep api deleteFolder --param mailbox=anna@example.org --param folder=INBOX.Work --yes`;

export const register: Register = (command, run) => {
  command
    .argument('[operation]', 'name of the operation, as --list shows it')
    .option('-p, --param <name=value>', 'a parameter; repeatable', collect)
    .option('--body <file>', 'the request body, as JSON; - is standard input')
    .option('--account <name>', 'the account of the configuration, where there are several')
    .option('--output <file>', 'write the answer to this file')
    .option('--yes', 'do not ask for confirmation')
    .option('--list', 'list every operation with its parameters')
    .option('--describe', 'describe the operation, without calling it')
    .addHelpText('after', HELP)
    .action(action(run, callApi));
};

async function callApi(
  context: CommandContext,
  operation: string | undefined,
  options: ApiLine,
): Promise<CommandResult> {
  if (options.list === true) return listOperations(context);
  if (operation === undefined)
    throw invalidUsage('api', 'an operation is missing; "mailkeep api --list" lists them.');
  if (options.describe === true) return describeOperation(context, operation);
  return callOperation(context, operation, options);
}

async function callOperation(
  context: CommandContext,
  name: string,
  command: ApiLine,
): Promise<ExitCode> {
  const operation = requireOperation(name);
  const settings = loadSettings(context);
  const account = chooseAccount(settings, command.account);
  const params = readParams(
    operation,
    command.param ?? [],
    operation.surface === 'mailbox' ? {} : { orderId: platformOf(operation, account).orderId },
  );
  // Mail can contain terminal control sequences.
  const { interactive } = context.output;
  if (operation.response.kind === 'bytes' && command.output === undefined && interactive)
    throw operationError('operation-bytes-on-terminal', { operation: operation.name });
  const body = await readBody(operation, command.body, context);
  // The user is waiting, so a limit on the operation is reported rather than waited out.
  const retries = operation.ownLimit ? { budgetMs: 0 } : {};
  return withClients(context, settings, account, retries, async (clients) => {
    const { values, address } = params;
    if (address !== null)
      values[address.param] = (await findNamedMailbox(clients, address.address)).resourceId;
    if (operation.destructive && command.yes !== true) {
      // Standard input cannot answer a prompt if it supplied the body.
      if (command.body === '-')
        throw operationError('operation-needs-yes', { act: operation.name });
      const given = Object.entries(values).map(
        ([param, value]) => `  ${param}: ${terminalLine(String(value))}`,
      );
      const lines = [`${operation.name}: ${operation.summary}.`, ...given];
      await confirm(context, operation.name, lines);
    }
    if (operation.sideEffect === 'marks-seen')
      context.notices.warn(`${operation.name} marks the message as read at the service.`);
    const { mailbox, platform } = clients;
    const client =
      operation.surface === 'mailbox'
        ? mailbox
        : platformOf(operation, { name: account.name, platform });
    const answer = await storeRenewedSecret(
      settings.dataDir,
      operation,
      values.webhookId,
      () => client.call(operation, values, body, clients.options),
      (file) => context.notices.say(`The stored secret in ${file} was replaced.`),
    );
    const file = command.output === '-' ? null : (command.output ?? null);
    return showAnswer(context, operation, answer, file);
  });
}

/** @throws operation-needs-platform */
function platformOf<Platform>(
  operation: Operation,
  { name, platform }: { readonly name: string; readonly platform: Platform | null },
): Platform {
  if (platform !== null) return platform;
  throw operationError('operation-needs-platform', { operation: operation.name, account: name });
}

const RENEWING: readonly string[] = ['regenerateWebhookSecret', 'platform.regenerateWebhookSecret'];

/**
 * Calls an operation. If it renews the secret of a stored webhook, stores the new secret, because the old one becomes
 * invalid immediately. Prepares the storage before sending the request.
 * @param webhookId as given to the operation
 * @param onKept called with the file
 * @throws webhook-secrets-unwritable, webhook-secret-lost, webhook-secret-unreadable, and errors from `call`
 */
async function storeRenewedSecret(
  dataDir: string,
  operation: Operation,
  webhookId: unknown,
  call: () => Promise<RawAnswer>,
  onKept: (file: string) => void,
): Promise<RawAnswer> {
  const webhook = RENEWING.includes(operation.name)
    ? (await storedWebhooks(dataDir)).find(({ id }) => id === webhookId)
    : undefined;
  if (webhook === undefined) return call();
  const slot = await reserveSecret(dataDir);
  try {
    const answer = await call();
    const secret = secretIn(answer);
    if (secret !== null) onKept(await slot.keep({ ...webhook, secret: new Secret(secret) }));
    return answer;
  } finally {
    await slot.drop();
  }
}

const SECRET = webhookWithSecretRecord.pick({ secret: true });

/** Returns the secret in `data` (Mailbox API) or at the top level (Platform API), or null if it is sent later (202). */
function secretIn(answer: RawAnswer): string | null {
  if (answer.kind !== 'json') return null;
  const { json } = answer;
  const wrapped: unknown =
    typeof json === 'object' && json !== null && 'data' in json ? json.data : json;
  return SECRET.safeParse(wrapped).data?.secret ?? null;
}
