import { hash47 } from './thread-links.ts';

/*
 * Exact addresses, apart from the words they are made of: `from:ada@example.org` finds the words in this order, also
 * in `ada@example.org.example`, `from:<ada@example.org>` finds this address.
 */

/** What recent addresses are hashed to: a mailbox has few correspondents. */
const recent = new Map<string, string>();
const RECENT = 2_000;

function hashed(address: string): string {
  let known = recent.get(address);
  if (known === undefined) {
    if (recent.size >= RECENT) recent.clear();
    known = hash47(address).toString(36);
    recent.set(address, known);
  }
  return known;
}

/** The word of the index for a message whose From has an address; or, after an @, a domain. */
export function senderToken(address: string): string {
  return `zf${hashed(address)}`;
}

/** The word of the index for a message whose To, Cc or Bcc has an address. */
export function recipientToken(address: string): string {
  return `zr${hashed(address)}`;
}

/** Returns addresses, and their domains with an @ before them, each once. */
export function withDomains(addresses: readonly string[]): string[] {
  return [...new Set([...addresses, ...addresses.map(domainOf)])];
}

/** Returns the domain of an address with its @. */
function domainOf(address: string): string {
  return address.slice(address.lastIndexOf('@'));
}

/** Returns the address that a value in angle brackets names exactly, in lower case; undefined for any other value. */
export function exactAddress(value: string): string | undefined {
  const [, address] = /^<([^\s<>@]*@[^\s<>@]+)>$/.exec(value.trim().toLowerCase()) ?? [];
  return address;
}
