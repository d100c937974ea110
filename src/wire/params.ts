import { WEBHOOK_STATUSES } from './mailbox-records.ts';
import type { Param } from './operation.ts';

/** Parameters that operations share; what differs between the surfaces is their names. */

const MESSAGE_SORTS = ['uid', '-uid', 'date', '-date', 'size', '-size'] as const;

export const mailbox = pathId(
  'mailboxResourceId',
  'resource id of the mailbox, as getCurrentAccount returns it',
);
export const folder = pathId('folder', 'full path of the folder');
export const uid: Param = {
  name: 'uid',
  in: 'path',
  type: 'integer',
  required: true,
  min: 1,
  help: 'uid of the message within the folder',
};
export const attachmentId = pathId('attachmentId', 'id of the attachment, as the message lists it');
export const webhookId = pathId('webhookId', 'id of the webhook');
export const page: Param = countFromOne('page', 1, 'page, from 1');
export const sort: Param = {
  ...anyText('sort', 'order; a leading - is descending'),
  values: MESSAGE_SORTS,
  default: '-uid',
};
export const status: Param = {
  ...anyText('status', 'only webhooks of this status'),
  values: WEBHOOK_STATUSES,
};

/** Returns a parameter that is a segment of the path, never empty. */
export function pathId(name: string, help: string): Param {
  return { name, in: 'path', type: 'string', required: true, minLength: 1, help };
}

/** Returns a parameter of the query that may be any text, or be left out. */
export function anyText(name: string, help: string): Param & { readonly type: 'string' } {
  return { name, in: 'query', type: 'string', required: false, help };
}

/** Returns the parameter for the items a page. */
export function pageSize(name: 'perPage' | 'per_page', byDefault: number, max: number): Param {
  return { ...countFromOne(name, byDefault, 'items a page'), max };
}

function countFromOne(
  name: string,
  byDefault: number,
  help: string,
): Param & { readonly type: 'integer' } {
  return { name, in: 'query', type: 'integer', required: false, min: 1, default: byDefault, help };
}
