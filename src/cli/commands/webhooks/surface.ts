import { Accepted } from '../../../api/surface-client.ts';
import type { WebhookRecord } from '../../../wire/mailbox-records.ts';
import type { PlatformWebhookRecord } from '../../../wire/platform-records.ts';
import { type Clients, namedMailbox, orderOf } from '../../account-clients.ts';
import { given } from '../../option-values.ts';

/** A webhook as both surfaces show it; whatever else they send is left out, and so is a secret. */
export interface Hook {
  readonly id: string;
  /** Address of the mailbox. */
  readonly mailbox: string;
  readonly mailboxId: string | null;
  /** Name of the account in the configuration. */
  readonly account: string;
  readonly name: string;
  readonly description: string | null;
  readonly events: readonly string[];
  readonly status: string;
  readonly url: string;
  readonly createdAt: string | null;
  readonly updatedAt: string | null;
}

export interface HookFilter {
  /** Address or resource id. */
  readonly mailbox?: string | undefined;
  readonly status?: 'active' | 'paused' | 'disabled' | undefined;
}

export interface TestOutcome {
  /** Null where the service did not say. */
  readonly success: boolean | null;
  readonly httpStatus: number | null;
  readonly error: string | null;
}

/** What daily use needs of webhooks. `accepted`: the service finishes it later (202). */
export interface WebhookSurface {
  list(filter: HookFilter): AsyncGenerator<Hook, void>;
  test(hook: Hook): Promise<TestOutcome | 'accepted'>;
  setStatus(hook: Hook, status: 'active' | 'paused'): Promise<Hook | 'accepted'>;
  remove(hook: Hook): Promise<'done' | 'accepted'>;
}

/** Sends a test delivery over the mailbox surface. */
export async function testDelivery(
  { mailbox: client, options }: Clients,
  { id, mailboxId }: Pick<Hook, 'id' | 'mailboxId'>,
): Promise<TestOutcome> {
  const at = { mailbox: mailboxId ?? '', webhookId: id };
  const { success, httpStatus, error } = await client.testWebhook(at, options);
  return { success, httpStatus, error };
}

/** The platform surface where the account has it, which lists an order in one request; else the mailbox surface. */
export function webhookSurface(clients: Clients): WebhookSurface {
  return clients.platform === null
    ? onMailboxSurface(clients)
    : onPlatform(clients, clients.platform);
}

/** Returns the filter for one mailbox, named by its address or resource id, on the platform surface. */
export async function mailboxIdOf(
  clients: Clients,
  mailbox: string | undefined,
): Promise<{ readonly mailboxId?: string }> {
  if (mailbox === undefined) return {};
  const isAddress = mailbox.includes('@');
  return { mailboxId: isAddress ? (await namedMailbox(clients, mailbox)).resourceId : mailbox };
}

function onMailboxSurface(clients: Clients): WebhookSurface {
  const { mailbox: client, options } = clients;
  const at = ({ id, mailboxId }: Hook) => ({ mailbox: mailboxId ?? '', webhookId: id });
  return {
    async *list({ mailbox, status }) {
      const mailboxes =
        mailbox === undefined
          ? (await clients.reach()).mailboxes
          : [await namedMailbox(clients, mailbox)];
      for (const { resourceId, address } of mailboxes) {
        const asked = { ...options, ...given({ status }) };
        for await (const record of client.eachWebhook(resourceId, asked)) {
          yield hookOf(clients, record, resourceId, address);
        }
      }
    },
    test: (hook) => testDelivery(clients, hook),
    async setStatus(hook, status) {
      const record = await client.updateWebhook(at(hook), { status }, options);
      return hookOf(clients, record, hook.mailboxId ?? '', hook.mailbox);
    },
    async remove(hook) {
      await client.deleteWebhook(at(hook), options);
      return 'done';
    },
  };
}

function onPlatform(clients: Clients, client: NonNullable<Clients['platform']>): WebhookSurface {
  const { options } = clients;
  return {
    async *list({ mailbox, status }) {
      const orderId = await orderOf(clients);
      const asked = {
        ...options,
        ...(await mailboxIdOf(clients, mailbox)),
        ...given({ status }),
      };
      for await (const record of client.eachWebhook(orderId, asked)) {
        yield platformHookOf(clients, record);
      }
    },
    async test({ id }) {
      const answer = await client.testWebhook(id, options);
      if (answer instanceof Accepted) return 'accepted';
      const { is_successful: success, http_status: httpStatus, error } = answer;
      return { success, httpStatus, error };
    },
    async setStatus({ id }, status) {
      const answer = await client.updateWebhook(id, { status }, options);
      return answer instanceof Accepted ? 'accepted' : platformHookOf(clients, answer);
    },
    async remove({ id }) {
      const answer = await client.deleteWebhook(id, options);
      return answer instanceof Accepted ? 'accepted' : 'done';
    },
  };
}

function hookOf(
  { account }: Clients,
  record: WebhookRecord,
  mailboxId: string,
  address: string,
): Hook {
  const { id, name, description, events, status, url, createdAt, updatedAt } = record;
  return {
    id,
    mailbox: address,
    mailboxId,
    account: account.name,
    name,
    description,
    events,
    status,
    url,
    createdAt,
    updatedAt,
  };
}

function platformHookOf({ account }: Clients, record: PlatformWebhookRecord): Hook {
  const { id, mailbox, name, description, events, status, url } = record;
  return {
    id,
    mailbox: mailbox?.address ?? '',
    mailboxId: mailbox?.id ?? null,
    account: account.name,
    name,
    description,
    events,
    status,
    url,
    createdAt: record.created_at,
    updatedAt: record.updated_at,
  };
}
