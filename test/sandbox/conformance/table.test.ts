import { expect, test } from 'vitest';
import { MAILBOX_OPERATIONS } from '../../../src/sandbox/operations.ts';
import { OPERATIONS } from '../../../src/service/platform-wire.ts';
import { TABLE } from './table.ts';

const sorted = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b);

test('the table is whole', () => {
  expect(TABLE.filter(({ surface }) => surface === 'mailbox')).toHaveLength(28);
  expect(TABLE.filter(({ surface }) => surface === 'platform')).toHaveLength(9);
});

test('the operations of client and service are those of the table', () => {
  expect(
    OPERATIONS.map(({ surface, name, method, path, success, errors }) => ({
      surface,
      name: name.replace(/^platform\./, ''),
      method,
      path,
      success,
      errors: sorted(errors),
    })),
  ).toEqual(TABLE.map((row) => ({ ...row, errors: sorted(row.errors) })));
});

test('the service knows which errors each operation of the mailbox surface declares', () => {
  expect(MAILBOX_OPERATIONS.map(({ id, declared }) => [id, sorted(declared)])).toEqual(
    TABLE.filter(({ surface }) => surface === 'mailbox').map(({ name, errors }) => [
      name,
      sorted(errors),
    ]),
  );
});
