import type { Operation } from '../../wire/operation.ts';
import type { PlatformOperationName } from '../../wire/operations.ts';
import { PLATFORM_OPERATIONS } from '../../wire/platform-operations.ts';
import type { Routed } from '../http/route.ts';
import type { PlatformHandler } from './call.ts';
import { listDeliveryLogs } from './delivery-logs.ts';
import { listMailboxes } from './mailboxes.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  regenerateWebhookSecret,
  testWebhook,
  updateWebhook,
} from './webhooks.ts';

export interface PlatformRoute extends Routed {
  readonly operation: Operation;
  readonly handle: PlatformHandler;
}

const HANDLERS: Readonly<Record<PlatformOperationName, PlatformHandler>> = {
  listWebhooks,
  createWebhook,
  getWebhook,
  updateWebhook,
  deleteWebhook,
  regenerateWebhookSecret,
  testWebhook,
  listDeliveryLogs,
  listMailboxes,
};

const OPERATIONS: Readonly<Record<PlatformOperationName, Operation>> = PLATFORM_OPERATIONS;

/** The 9 operations of the platform surface. */
export const PLATFORM_ROUTES: readonly PlatformRoute[] = [
  route('listWebhooks'),
  route('createWebhook'),
  route('getWebhook'),
  route('updateWebhook'),
  route('deleteWebhook'),
  route('regenerateWebhookSecret'),
  route('testWebhook'),
  route('listDeliveryLogs'),
  route('listMailboxes'),
];

function route(name: PlatformOperationName): PlatformRoute {
  const operation = OPERATIONS[name];
  const path = operation.path.replace(/\{(\w+)\}/g, ':$1');
  return { method: operation.method, path, operation, handle: HANDLERS[name] };
}
