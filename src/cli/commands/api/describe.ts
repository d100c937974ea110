import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { describeParam, type Operation, type Param } from '../../../wire/operation.ts';
import { OPERATIONS } from '../../../wire/operations.ts';
import type { CommandContext } from '../../context.ts';
import type { Colours } from '../../output.ts';
import { bodyFields, bodyRules, bodySchema, namedOperation } from './params.ts';

/** `mailkeep api --list`: every operation of both surfaces. */
export async function listOperations({ output }: CommandContext): Promise<ExitCode> {
  let surface = '';
  for (const operation of OPERATIONS) {
    const head =
      operation.surface === surface ? '' : `${surface === '' ? '' : '\n'}${heading(operation)}\n`;
    surface = operation.surface;
    await output.line(asJson(operation), () => head + listingText(operation, output.colours));
  }
  return EXIT.done;
}

/** `mailkeep api OPERATION --describe`. */
export async function describeOperation(
  { output }: CommandContext,
  name: string,
): Promise<ExitCode> {
  const operation = namedOperation(name);
  await output.object({ ...asJson(operation), bodySchema: bodySchema(operation) }, () =>
    descriptionText(operation, output.colours),
  );
  return EXIT.done;
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

/** Three lines or four: what it does, how it is called, what it takes. */
function listingText(operation: Operation, colours: Colours): string {
  const { name, method, path, params, summary } = operation;
  const taken = params.map(({ name: param, required }) => (required ? param : `[${param}]`));
  const fields = bodyFields(operation).map((field) =>
    field.required ? field.name : `[${field.name}]`,
  );
  return [
    `${colours.bold(name)}${marksText(operation, colours)}`,
    `    ${summary}`,
    colours.dim(`    ${method} ${path}`),
    ...(taken.length === 0 ? [] : [`    --param ${taken.join(' ')}`]),
    ...(operation.body === null ? [] : [`    --body  ${fields.join(' ')}`]),
  ].join('\n');
}

function marksText({ destructive, sideEffect }: Operation, colours: Colours): string {
  if (destructive) return `  ${colours.red('destructive: asks, or needs --yes')}`;
  return sideEffect === 'marks-seen' ? `  ${colours.yellow('marks as read')}` : '';
}

function descriptionText(operation: Operation, colours: Colours): string {
  const { name, method, path, params, summary, success, errors } = operation;
  const fields = bodyFields(operation);
  const rules = bodyRules(operation);
  return [
    `${colours.bold(name)}${marksText(operation, colours)}`,
    `${summary}.`,
    colours.dim(`${method} ${path}`),
    ...section('Parameters (--param name=value)', params.map(paramRow)),
    ...section(
      'Body (--body FILE, - or JSON)',
      fields.map((field): Row => [field.name, field.required, field.type, '']),
    ),
    ...(operation.body !== null && fields.every(({ required }) => !required)
      ? [`  ${rules.length === 0 ? 'may be left out' : rules.join('; ')}`]
      : []),
    '',
    `Answer: ${success.join(' or ')}, ${answerText(operation)}. Declared errors: ${errors.join(', ')}.`,
  ].join('\n');
}

type Row = readonly [name: string, required: boolean, type: string, help: string];

function paramRow(param: Param): Row {
  const byDefault = param.default === undefined ? '' : `; ${param.default} when left out`;
  const mailbox = param.name === 'mailboxResourceId' || param.name === 'mailboxId';
  const alias = mailbox ? '; or as mailbox=, which takes its address too' : '';
  return [param.name, param.required, describeParam(param), `${param.help}${byDefault}${alias}`];
}

function section(title: string, rows: readonly Row[]): string[] {
  if (rows.length === 0) return [];
  const width = Math.max(...rows.map(([name]) => name.length));
  return [
    '',
    `${title}:`,
    ...rows.map(([name, required, type, help]) =>
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
