/** What a webhook's delivery comes to: something may have arrived. Never data to store. */
export interface Hint {
  /** The webhook whose secret the delivery carried, and the mailbox that it is for. */
  readonly webhookId: string;
  readonly account: string;
  readonly host: string;
  readonly resourceId: string;
  readonly address: string;
  /** Where the delivery says the message is; null when it does not, or speaks of another mailbox. */
  readonly folder: string | null;
  readonly uid: number | null;
  /** Milliseconds since the epoch. */
  readonly receivedAt: number;
}

/** A webhook whose deliveries are believed, as `mailkeep webhooks create` stored it. */
export interface KnownWebhook {
  readonly id: string;
  readonly account: string;
  readonly host: string;
  readonly mailboxId: string;
  /** Address of the mailbox. */
  readonly mailbox: string;
  /** Where the service delivers to. */
  readonly url: string;
  readonly secret: { reveal(): string };
}
