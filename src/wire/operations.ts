import { MAILBOX_OPERATIONS } from './mailbox-operations.ts';
import type { Operation } from './operation.ts';
import { PLATFORM_OPERATIONS } from './platform-operations.ts';

export type MailboxOperationName = keyof typeof MAILBOX_OPERATIONS;
export type PlatformOperationName = keyof typeof PLATFORM_OPERATIONS;

/** All operations, in the order of the interface: the mailbox surface first. */
export const OPERATIONS: readonly Operation[] = [
  ...Object.values(MAILBOX_OPERATIONS),
  ...Object.values(PLATFORM_OPERATIONS),
];

/**
 * Finds an operation by name. An operation of the platform surface is also found without its prefix where the
 * mailbox surface has none of that name.
 */
export function findOperation(name: string): Operation | null {
  return (
    OPERATIONS.find((operation) => operation.name === name) ??
    OPERATIONS.find((operation) => operation.name === `platform.${name}`) ??
    null
  );
}
