import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Secrets } from './reception.ts';

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

/** A webhook with what its secret is compared by. */
interface Entry {
  readonly webhook: KnownWebhook;
  readonly digest: Buffer;
}

/** The `/` of an address of which a reverse proxy passes on nothing but the end. */
const PLAIN_PATHS = ['/', '/webhook'];

/** The webhooks whose deliveries are believed. Read again when one comes that none of them explains. */
export class KnownSecrets implements Secrets<KnownWebhook> {
  readonly learnsCheaply = false;
  readonly #morePaths: readonly string[];
  /** Secrets are compared by their keyed hashes: of one length, and of no use to whoever could time them. */
  readonly #key = randomBytes(32);
  #entries: readonly Entry[] = [];
  #paths: ReadonlySet<string> = new Set(PLAIN_PATHS);
  #reading: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  /** @param urls other addresses of the receiver, such as the configuration's `webhook.publicUrl` */
  constructor(
    private readonly read: () => Promise<readonly KnownWebhook[]>,
    urls: readonly string[],
  ) {
    this.#morePaths = urls.flatMap(pathOf);
  }

  get size(): number {
    return this.#entries.length;
  }

  isPath(path: string): boolean {
    return this.#paths.has(path);
  }

  /** The webhook whose secret this is. Takes the same time whichever it is, and when it is none. */
  match(secret: string): KnownWebhook | undefined {
    const digest = this.#digest(secret);
    let found: KnownWebhook | undefined;
    for (const { webhook, digest: known } of this.#entries) {
      if (timingSafeEqual(digest, known)) found = webhook;
    }
    return found;
  }

  /** Reads the webhooks again, and not before now: what was stored before the call is known after it. */
  learn(): Promise<void> {
    if (this.#reading === null) {
      this.#reading = this.#load().finally(() => {
        this.#reading = null;
      });
      return this.#reading;
    }
    const again = (): Promise<void> => {
      this.#next = null;
      return this.learn();
    };
    this.#next ??= this.#reading.then(again, again);
    return this.#next;
  }

  async #load(): Promise<void> {
    const webhooks = await this.read();
    this.#entries = webhooks.map((webhook) => ({
      webhook,
      digest: this.#digest(webhook.secret.reveal()),
    }));
    this.#paths = new Set([
      ...PLAIN_PATHS,
      ...this.#morePaths,
      ...webhooks.flatMap(({ url }) => pathOf(url)),
    ]);
  }

  #digest(text: string): Buffer {
    return createHmac('sha256', this.#key).update(text).digest();
  }
}

function pathOf(url: string): string[] {
  return URL.canParse(url) ? [new URL(url).pathname] : [];
}
