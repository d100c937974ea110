import { isSameAddress, type ListedWebhook, type OwnWebhook } from './own-webhooks.ts';

export interface PlannedMailbox {
  readonly resourceId: string;
  readonly address: string;
}

/** A webhook as an order or a mailbox lists it; `mailbox` is the address, since the surfaces have ids of their own. */
export interface ListedHook extends ListedWebhook {
  readonly mailbox: string;
}

/** What a mailbox needs so that it has one webhook of ours at an address, and that one delivers. */
export type WebhookStep<Hook extends ListedHook> = {
  readonly mailbox: PlannedMailbox;
  /** Ids of ours at that address that the service does not know any more. */
  readonly missing: readonly string[];
} & ({ readonly act: 'keep' | 'resume'; readonly hook: Hook } | { readonly act: 'create' });

export interface WebhookPlan<Hook extends ListedHook> {
  /** One for each mailbox, in their order. */
  readonly steps: readonly WebhookStep<Hook>[];
  /** Other webhooks of these mailboxes: nothing is done about them. */
  readonly others: readonly Hook[];
}

/**
 * Plans one webhook of ours for each mailbox, at one address. Only webhooks whose secrets are stored here are ours: what
 * others deliver would be refused. Pure.
 *
 * @param own webhooks that were created from here, for the account of these mailboxes
 */
export function planWebhooks<Hook extends ListedHook>(
  mailboxes: readonly PlannedMailbox[],
  own: readonly Pick<OwnWebhook, 'id' | 'mailboxId' | 'url'>[],
  listed: readonly Hook[],
  url: string,
): WebhookPlan<Hook> {
  const ours = new Set(own.map(({ id }) => id));
  const known = new Set(listed.map(({ id }) => id));
  const byAddress = new Map<string, Hook[]>();
  for (const hook of listed) {
    const address = hook.mailbox.toLowerCase();
    byAddress.set(address, [...(byAddress.get(address) ?? []), hook]);
  }
  const missing = new Map<string, string[]>();
  for (const hook of own) {
    if (known.has(hook.id) || !isSameAddress(hook.url, url)) continue;
    missing.set(hook.mailboxId, [...(missing.get(hook.mailboxId) ?? []), hook.id]);
  }
  const others: Hook[] = [];
  const steps = mailboxes.map((mailbox): WebhookStep<Hook> => {
    const there = byAddress.get(mailbox.address.toLowerCase()) ?? [];
    const usable = there.filter((hook) => ours.has(hook.id) && isSameAddress(hook.url, url));
    const hook = usable.find(({ status }) => status === 'active') ?? usable[0];
    others.push(...there.filter((other) => other !== hook));
    const step = { mailbox, missing: missing.get(mailbox.resourceId) ?? [] };
    if (hook === undefined) return { ...step, act: 'create' };
    return { ...step, act: hook.status === 'active' ? 'keep' : 'resume', hook };
  });
  return { steps, others };
}
