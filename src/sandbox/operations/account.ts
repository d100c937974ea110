import { dataReply, type Reply } from '../http/reply.ts';
import { type Call, mailboxOf } from './call.ts';

/** The order of the token and the mailboxes it reaches. */
export function getCurrentAccount({ service, token }: Call): Reply {
  const mailboxes = [...service.store.mailboxes.values()]
    .filter(
      (mailbox) =>
        mailbox.orderId === token.orderId &&
        (token.mailboxes === null || token.mailboxes.includes(mailbox.resourceId)),
    )
    .map(({ resourceId, address }) => ({ resourceId, address }));
  return dataReply({ orderResourceId: token.orderId, mailboxes });
}

export function getQuota(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const { store, settings } = call.service;
  const usage = store.usage(mailbox);
  const storage = {
    resourceName: 'STORAGE',
    usage: usage.bytes,
    limit: settings.storageQuotaBytes,
    percentage: percentage(usage.bytes, settings.storageQuotaBytes),
  };
  const messages = {
    resourceName: 'MESSAGE',
    usage: usage.messages,
    limit: settings.messageQuota,
    percentage: percentage(usage.messages, settings.messageQuota),
  };
  return dataReply({
    quotas: [storage, messages],
    totalUsage: storage.usage,
    totalLimit: storage.limit,
    totalPercentage: storage.percentage,
    supported: true,
  });
}

/** A whole number: 0 to 100, and more where a mailbox holds more than it may. */
function percentage(usage: number, limit: number): number {
  return limit === 0 ? 100 : Math.round((usage / limit) * 100);
}
