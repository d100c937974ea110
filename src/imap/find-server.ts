import { promises as dns } from 'node:dns';
import { type Clock, sleep, systemClock } from '../core/concurrency.ts';
import { errnoOf } from '../core/errors.ts';

export interface FoundServer {
  readonly host: string;
  readonly port: number;
  readonly tls: 'implicit' | 'starttls';
  /** `elsewhere`: DNS names a host outside of the domain, and anybody on the way can forge an answer of DNS. */
  readonly trust: 'own-domain' | 'provider' | 'elsewhere';
}

/** Longest time to wait for DNS. */
const DNS_MS = 10_000;
const HOST = /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;

/** Hosts of large providers, from their documentation. All use implicit TLS on port 993. */
const PROVIDERS: readonly (readonly [host: string, ...domains: string[]])[] = [
  ['imap.gmail.com', 'gmail.com', 'googlemail.com'],
  ['outlook.office365.com', 'outlook.com', 'hotmail.com', 'live.com', 'msn.com'],
  ['imap.mail.yahoo.com', 'yahoo.com', 'ymail.com', 'rocketmail.com'],
  ['imap.aol.com', 'aol.com'],
  ['imap.mail.me.com', 'icloud.com', 'me.com', 'mac.com'],
  ['imap.fastmail.com', 'fastmail.com', 'fastmail.fm'],
  ['imap.gmx.net', 'gmx.net', 'gmx.de', 'gmx.at', 'gmx.ch'],
  ['imap.gmx.com', 'gmx.com'],
  ['imap.web.de', 'web.de'],
  ['secureimap.t-online.de', 't-online.de'],
  ['imap.mailbox.org', 'mailbox.org'],
  ['posteo.de', 'posteo.de', 'posteo.net'],
  ['imap.zoho.com', 'zoho.com', 'zohomail.com'],
];

/**
 * Finds the IMAP server of an address: SRV records (RFC 6186, and implicit TLS first as in RFC 8314), then large
 * providers. Returns undefined if neither knows the domain.
 */
export async function findServer(
  domain: string,
  signal: AbortSignal,
  clock: Clock = systemClock,
): Promise<FoundServer | undefined> {
  const name = domain.toLowerCase();
  const over = new AbortController();
  const tooLate = sleep(clock, DNS_MS, AbortSignal.any([signal, over.signal])).then(() => []);
  // It ends by an abort unless it wins a race.
  tooLate.catch(() => {});
  try {
    for (const tls of ['implicit', 'starttls'] as const) {
      const service = tls === 'implicit' ? '_imaps' : '_imap';
      const records = await Promise.race([lookUp(`${service}._tcp.${name}`), tooLate]);
      const [best] = records
        .filter(({ name: host, port }) => HOST.test(host) && port > 0)
        .sort((a, b) => a.priority - b.priority || b.weight - a.weight);
      if (best === undefined) continue;
      const host = best.name.toLowerCase();
      const isOwn = host === name || host.endsWith(`.${name}`);
      return { host, port: best.port, tls, trust: isOwn ? 'own-domain' : 'elsewhere' };
    }
  } finally {
    over.abort();
  }
  const known = PROVIDERS.find(([, ...domains]) => domains.includes(name));
  if (known === undefined) return undefined;
  return { host: known[0], port: 993, tls: 'implicit', trust: 'provider' };
}

/** A domain without such records, and a failing DNS, are not errors: other ways may find the server. */
async function lookUp(name: string) {
  try {
    return await dns.resolveSrv(name);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return [];
  }
}
