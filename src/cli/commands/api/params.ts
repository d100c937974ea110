import type { ParamValues } from '../../../api/request-path.ts';
import { operationError, usageError } from '../../../errors/usage.ts';
import { nearest } from '../../../names/nearest.ts';
import { describeParam, type Operation, type Param, readParam } from '../../../wire/operation.ts';
import { bodyFields } from './body-fields.ts';

/** Parameters that name a mailbox by its resource id; on a command line they may hold its address. */
const MAILBOX_PARAMS: ReadonlySet<string> = new Set([
  'mailboxResourceId',
  'mailboxId',
  'mailbox_id',
]);
/** What all of them may be called by. */
const MAILBOX = 'mailbox';
/** A client always says how many items a page it wants: defaults of services differ. */
const PAGE_SIZES: ReadonlySet<string> = new Set(['perPage', 'per_page']);

export interface GivenParams {
  /** Typed and within their bounds; an address in the place of a mailbox is left as it is. */
  readonly values: ParamValues;
  /** The mailbox parameter that holds an address, to be looked up. */
  readonly address: { readonly param: string; readonly address: string } | null;
}

/**
 * Reads `name=value` pairs as the table of operations wants them.
 *
 * @param filled values for parameters that were not given
 * @throws usage-option, operation-param-unknown, -twice, -invalid, -missing
 */
export function readParams(
  operation: Operation,
  given: readonly string[],
  filled: ParamValues = {},
): GivenParams {
  const values: Record<string, string | number> = {};
  let address: GivenParams['address'] = null;
  for (const pair of given) {
    const [name, text] = split(pair);
    const param = paramOf(operation, name);
    if (param.name in values) {
      throw operationError('operation-param-twice', {
        operation: operation.name,
        param: param.name,
      });
    }
    if (MAILBOX_PARAMS.has(param.name) && text.includes('@')) {
      address = { param: param.name, address: text };
    }
    values[param.name] = checked(operation, param, text);
  }
  for (const param of operation.params) {
    if (param.name in values) continue;
    const value = filled[param.name] ?? (PAGE_SIZES.has(param.name) ? param.default : undefined);
    if (value !== undefined) values[param.name] = checked(operation, param, value);
    else if (param.required) {
      throw operationError('operation-param-missing', {
        operation: operation.name,
        param: param.name,
        expected: describeParam(param),
        help: param.help,
      });
    }
  }
  return { values, address };
}

function split(pair: string): [name: string, text: string] {
  const at = pair.indexOf('=');
  if (at < 1) {
    throw usageError('usage-option', { option: '--param', found: pair, expected: 'name=value' });
  }
  return [pair.slice(0, at), pair.slice(at + 1)];
}

function paramOf(operation: Operation, name: string): Param {
  const { params } = operation;
  const found = params.find(
    (param) => param.name === name || (name === MAILBOX && MAILBOX_PARAMS.has(param.name)),
  );
  if (found !== undefined) return found;
  const known = params.map((param) => param.name);
  throw operationError('operation-param-unknown', {
    operation: operation.name,
    param: name,
    nearest: nearest(name, known),
    known,
    inBody: bodyFields(operation).some((field) => field.name === name),
  });
}

function checked(operation: Operation, param: Param, given: string | number): string | number {
  const read = readParam(param, given);
  if (read.ok) return read.value;
  throw operationError('operation-param-invalid', {
    operation: operation.name,
    param: param.name,
    found: String(given),
    expected: describeParam(param),
  });
}
