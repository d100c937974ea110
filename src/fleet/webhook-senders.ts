import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { MailkeepError } from '../core/errors.ts';
import type { Secrets } from '../daemon/receiver.ts';
import type { FoundSecret } from '../registry/webhook-reading.ts';
import { type FleetKeys, lookupsOf, openSecret } from './secrets.ts';

/** Whom a webhook's secret speaks for. */
export interface Sender {
  /** Names it in the log: number of the archive and id of the webhook. */
  readonly id: string;
  readonly targets: readonly SenderTarget[];
}

export interface SenderTarget {
  readonly archive: number;
  /** Resource id and address; null for a secret that was brought by hand, which speaks for all of the account. */
  readonly mailbox: { readonly id: string; readonly address: string } | null;
}

export interface WebhookSendersOptions {
  /** The UUID of the fleet. */
  readonly fleet: string;
  readonly keys: () => FleetKeys;
  /** `secretsByLookup` of the registry. */
  readonly find: (lookups: readonly Buffer[], most: number) => Promise<readonly FoundSecret[]>;
  /** Paths that deliveries come to. */
  readonly urls: readonly string[];
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
  /** Called with what keeps a secret in the registry from being read. */
  readonly onDamaged: (error: MailkeepError) => void;
}

interface Known {
  readonly sender: Sender;
  readonly until: number;
}

interface Batch {
  readonly secrets: Set<string>;
  done: Promise<void> | undefined;
}

/** For so long a secret is believed without a look, in milliseconds: after that, one that was replaced is not any more. */
const KNOWN_MS = 60_000;
const MOST_KNOWN = 100_000;
/** Secrets that are looked up by one statement; of more at a time, the rest is unknown. */
const MOST_ASKED = 1_000;
/** Accounts that one secret speaks for at most. */
const MOST_TARGETS = 100;
/** No secret is longer. */
const MOST_SECRET_BYTES = 1_024;
const PLAIN_PATHS = ['/', '/webhook'];

/**
 * The webhooks of a fleet whose deliveries are believed, on any node. They are looked up in the registry by a keyed hash of
 * the secret that a delivery carries, so that no node has to know them all. While one look is under way, others gather for the
 * next: however many strangers guess, there is one statement at a time.
 */
export class WebhookSenders implements Secrets<Sender> {
  readonly learnsCheaply = true;
  readonly #paths: ReadonlySet<string>;
  /** What is remembered says nothing to whoever reads the memory of this process. */
  readonly #key = randomBytes(32);
  readonly #known = new Map<string, Known>();
  #next: Batch | undefined;
  #asking: Promise<void> = Promise.resolve();

  constructor(private readonly options: WebhookSendersOptions) {
    const paths = options.urls.flatMap((url) => (URL.canParse(url) ? [new URL(url).pathname] : []));
    this.#paths = new Set([...PLAIN_PATHS, ...paths]);
  }

  isPath(path: string): boolean {
    return this.#paths.has(path);
  }

  match(secret: string): Sender | undefined {
    const known = this.#known.get(this.#digest(secret));
    return known !== undefined && known.until > this.options.monotonic() ? known.sender : undefined;
  }

  /** Looks a secret up. @throws the errors of the registry and of the file of keys */
  async learn(secret: string | null): Promise<void> {
    if (secret === null || Buffer.byteLength(secret) > MOST_SECRET_BYTES) return;
    this.#next ??= { secrets: new Set(), done: undefined };
    const batch = this.#next;
    if (batch.secrets.size >= MOST_ASKED) return;
    batch.secrets.add(secret);
    batch.done ??= this.#asking.then(() => {
      this.#next = undefined;
      return this.#ask([...batch.secrets]);
    });
    this.#asking = batch.done.catch(() => undefined);
    await batch.done;
  }

  async #ask(secrets: readonly string[]): Promise<void> {
    const { keys, find, monotonic } = this.options;
    const known = keys();
    const byLookup = new Map<string, string>();
    for (const secret of secrets) {
      for (const lookup of lookupsOf(known, secret)) byLookup.set(lookup.toString('hex'), secret);
    }
    const lookups = [...byLookup.keys()].map((hex) => Buffer.from(hex, 'hex'));
    const found = await find(lookups, MOST_ASKED * MOST_TARGETS);
    const bySecret = new Map<string, FoundSecret[]>();
    for (const row of found) {
      const secret = byLookup.get(row.lookup.toString('hex'));
      if (secret === undefined || !this.#isOf(known, row, secret)) continue;
      bySecret.set(secret, [...(bySecret.get(secret) ?? []), row]);
    }
    for (const [secret, rows] of bySecret) {
      const digest = this.#digest(secret);
      this.#known.delete(digest);
      this.#known.set(digest, { sender: senderOf(rows), until: monotonic() + KNOWN_MS });
    }
    for (const digest of this.#known.keys()) {
      if (this.#known.size <= MOST_KNOWN) break;
      this.#known.delete(digest);
    }
  }

  /** The hash only finds it: what counts is the secret that was encrypted for this account. */
  #isOf(keys: FleetKeys, row: FoundSecret, secret: string): boolean {
    try {
      const [own, given] = [openSecret(keys, this.options.fleet, row), secret].map((text) =>
        Buffer.from(this.#digest(text), 'hex'),
      );
      return own !== undefined && given !== undefined && timingSafeEqual(own, given);
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      this.options.onDamaged(error);
      return false;
    }
  }

  #digest(text: string): string {
    return createHmac('sha256', this.#key).update(text).digest('hex');
  }
}

function senderOf(rows: readonly FoundSecret[]): Sender {
  const targets = rows.slice(0, MOST_TARGETS).map(({ archive, mailboxId, mailbox }) => ({
    archive,
    mailbox: mailboxId === null || mailbox === null ? null : { id: mailboxId, address: mailbox },
  }));
  const [first] = rows;
  return { id: `${first?.archive ?? 0}/${first?.purpose ?? ''}`, targets };
}
