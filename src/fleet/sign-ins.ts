import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Semaphore } from '../core/concurrency.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import { oauthClient } from '../imap/credential.ts';
import { refresh } from '../imap/oauth.ts';
import { decodeTokens, encodeTokens, type StoredTokens } from '../imap/oauth-tokens.ts';
import { nameInShard, openSecrets, SIGN_IN, type SignIn, sealSecrets } from './account-settings.ts';
import { refreshSecret } from './accounts.ts';
import type { SealedSecret } from './keys.ts';
import { type Lease, ShardLost } from './outcomes.ts';
import type { ShardContext } from './shard.ts';

/** Access tokens are replaced this long before they end. */
const SPARE_MS = 300_000;
/** Until a refresh that failed is tried again. */
const AGAIN_MS = 60_000;
/** Tokens that end nobody knows when are replaced this often. */
const UNKNOWN_MS = 1_800_000;
/** At the soonest, a token that the server refused is replaced after this. */
const REFUSED_MS = 600_000;
/** Each refresh has a connection to the registry, of which ships need some as well. */
const turns = new Semaphore(2);

interface Known extends SignIn {
  /** When it was last refreshed, or tried; undefined if never. On the monotonic clock. */
  readonly triedAt: number | undefined;
  readonly failure: string | null;
  /** The server has refused the access token before its end. */
  readonly isRefused: boolean;
}

const FRESH = { triedAt: undefined, failure: null, isRefused: false };

/**
 * Sign-ins of people at the providers of a shard's IMAP accounts. The daemon gets access tokens, in files; refresh tokens
 * are in the registry, and only the holder uses them: many providers accept each only once.
 */
export class SignIns {
  readonly folder: string;
  readonly #known = new Map<number, Known>();
  #refreshing: Promise<void> | undefined;
  #ended: { readonly fault: unknown } = { fault: undefined };

  constructor(
    private readonly context: ShardContext,
    private readonly lease: Lease,
  ) {
    this.folder = path.join(context.secretFolder, `${lease.shard}.tokens`);
  }

  /** Codes of the accounts whose tokens could not be refreshed. */
  get failures(): ReadonlyMap<number, string> {
    const all = [...this.#known].map(([account, { failure }]) => [account, failure] as const);
    return new Map(all.filter((one): one is readonly [number, string] => one[1] !== null));
  }

  /** Takes over the sign-ins that the registry has, and writes their access tokens. */
  take(signIns: ReadonlyMap<number, SignIn>): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    for (const account of this.#known.keys()) if (!signIns.has(account)) this.#drop(account);
    for (const [account, signIn] of signIns) {
      const before = this.#known.get(account);
      const isSame = before?.tokens.refresh.reveal() === signIn.tokens.refresh.reveal();
      this.#keep(account, { ...(isSame ? before : FRESH), ...signIn });
    }
  }

  /** Notes that a server refuses the access token of an account. */
  refused(account: number): void {
    const known = this.#known.get(account);
    if (known !== undefined) this.#known.set(account, { ...known, isRefused: true });
  }

  /** Refreshes in the background what ends soon. @throws an internal error of the last time */
  look(signal: AbortSignal): void {
    const { fault } = this.#ended;
    this.#ended = { fault: undefined };
    if (fault !== undefined) throw fault;
    this.#refreshing ??= this.#refreshAll(signal)
      .catch((error: unknown) => {
        this.#ended = { fault: error };
      })
      .finally(() => {
        this.#refreshing = undefined;
      });
  }

  /** Removes the files, after a refresh that is under way. */
  async close(): Promise<void> {
    await this.#refreshing;
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #refreshAll(signal: AbortSignal): Promise<void> {
    const { log, clock } = this.context;
    /** Providers that do not answer would hold up the accounts of the others. */
    const away = new Set<string>();
    for (const [account, known] of [...this.#known]) {
      if (signal.aborted) return;
      const { issuer } = known.settings;
      if (!this.#isDue(known) || away.has(issuer)) continue;
      const tried = { ...known, triedAt: clock.monotonic(), isRefused: false };
      let next: Known;
      try {
        const tokens = await turns.run(() => this.#refresh(account, known), signal);
        next = { ...tried, tokens: tokens ?? known.tokens, failure: null };
      } catch (error) {
        // The holder finds out by itself.
        if (signal.aborted || error instanceof ShardLost) return;
        if (!(error instanceof MailkeepError)) throw error;
        log.fail('error', `account ${account} could not be signed in`, error);
        if (hasCode(error, 'imap.oauth-unreachable')) away.add(issuer);
        next = { ...tried, failure: error.code };
      }
      // Otherwise, the account was changed meanwhile.
      if (this.#known.get(account)?.tokens === known.tokens) this.#keep(account, next);
    }
  }

  #isDue({ tokens, triedAt, failure, isRefused }: Known): boolean {
    const { clock, now } = this.context;
    // Only another sign-in helps.
    if (failure === 'imap.login-needed') return false;
    const age = triedAt === undefined ? Number.POSITIVE_INFINITY : clock.monotonic() - triedAt;
    const { expiresAt } = tokens.access;
    if (isRefused && age >= REFUSED_MS) return true;
    if (age < AGAIN_MS) return false;
    if (expiresAt !== null) return expiresAt - SPARE_MS <= now();
    return failure !== null || age >= UNKNOWN_MS;
  }

  /**
   * Nothing aborts a refresh that was sent: the provider may have ended the old token.
   *
   * @returns undefined if the sign-in was replaced meanwhile, which the rows will tell
   * @throws ShardLost; errors of the provider and the registry
   */
  async #refresh(account: number, known: Known): Promise<StoredTokens | undefined> {
    const { registry, fleet, keys, now, clock } = this.context;
    const { settings } = known;
    const client = await oauthClient(nameInShard(account), settings, { env: {}, clock });
    let tokens: StoredTokens | undefined;
    const renewed = async (sealed: SealedSecret): Promise<SealedSecret> => {
      const text = openSecrets(keys(), fleet.id, account, [sealed]).get(SIGN_IN) ?? '';
      const stored = decodeTokens(text, settings);
      if (stored === undefined || stored === 'changed') return sealed;
      tokens = stored;
      // An earlier holder or a person was here since.
      const isOther = accessOf(stored) !== accessOf(known.tokens);
      const { expiresAt } = stored.access;
      if (isOther && expiresAt !== null && expiresAt - SPARE_MS > now()) return sealed;
      tokens = await refresh(client, stored, new AbortController().signal);
      const next = new Map([[SIGN_IN, encodeTokens(settings, tokens)]]);
      return sealSecrets(keys(), fleet.id, account, next)[0] ?? sealed;
    };
    const place = { account, purpose: SIGN_IN };
    const outcome = await refreshSecret(registry, this.lease, place, renewed);
    if (outcome.outcome === 'refused' && outcome.by !== 'secret') throw new ShardLost(outcome.by);
    return tokens;
  }

  #keep(account: number, known: Known): void {
    const before = this.#known.get(account);
    this.#known.set(account, known);
    const token = accessOf(known.tokens);
    if (token === '' || (before !== undefined && token === accessOf(before.tokens))) return;
    const file = path.join(this.folder, String(account));
    writeFileSync(`${file}.new`, `${token}\n`, { mode: 0o600 });
    // The daemon tries again at once when the file is another one.
    renameSync(`${file}.new`, file);
  }

  #drop(account: number): void {
    this.#known.delete(account);
    rmSync(path.join(this.folder, String(account)), { force: true });
  }
}

function accessOf({ access }: StoredTokens): string {
  return access.secret.reveal();
}
