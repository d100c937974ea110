import { WEBHOOK_STATUSES } from './mailbox-records.ts';
import type { Param } from './operation.ts';

/** Parameters that operations of the mailbox surface share. */

const MESSAGE_SORTS = ['uid', '-uid', 'date', '-date', 'size', '-size'] as const;

export const mailbox: Param = {
  name: 'mailboxResourceId',
  in: 'path',
  type: 'string',
  required: true,
  minLength: 1,
  help: 'resource id of the mailbox, as getCurrentAccount returns it',
};
export const folder: Param = {
  name: 'folder',
  in: 'path',
  type: 'string',
  required: true,
  minLength: 1,
  help: 'full path of the folder',
};
export const uid: Param = {
  name: 'uid',
  in: 'path',
  type: 'integer',
  required: true,
  min: 1,
  help: 'uid of the message within the folder',
};
export const attachmentId: Param = {
  name: 'attachmentId',
  in: 'path',
  type: 'string',
  required: true,
  minLength: 1,
  help: 'id of the attachment, as the message lists it',
};
export const webhookId: Param = {
  name: 'webhookId',
  in: 'path',
  type: 'string',
  required: true,
  minLength: 1,
  help: 'id of the webhook',
};
export const page: Param = {
  name: 'page',
  in: 'query',
  type: 'integer',
  required: false,
  min: 1,
  default: 1,
  help: 'page, from 1',
};
export const sort: Param = {
  name: 'sort',
  in: 'query',
  type: 'string',
  required: false,
  values: MESSAGE_SORTS,
  default: '-uid',
  help: 'order; a leading - is descending',
};
export const status: Param = {
  name: 'status',
  in: 'query',
  type: 'string',
  required: false,
  values: WEBHOOK_STATUSES,
  help: 'only webhooks of this status',
};

export function perPage(byDefault: number, max: number): Param {
  return {
    name: 'perPage',
    in: 'query',
    type: 'integer',
    required: false,
    min: 1,
    max,
    default: byDefault,
    help: 'items a page',
  };
}
